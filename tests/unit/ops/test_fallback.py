"""Responses while the event loop is blocked: health pages fail for every client."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from kubesched.ops.fallback import FallbackResponder
from tests.unit.ops.requests_and_certificates import Authority


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Serve on a port without another server; return the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = tmp_path / "pair.pem"
    certificate.write_bytes(Authority().serving_pair())
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    fallback, ended = FallbackResponder(listener, context), threading.Event()

    def serve() -> None:
        while not ended.is_set():
            fallback.serve("a plugin does not return")

    thread = threading.Thread(target=serve)
    thread.start()
    yield int(listener.getsockname()[1])
    ended.set()
    thread.join()
    fallback.close()
    listener.close()


def page(port: int, path: str) -> tuple[int, str, str | None]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("Connection")
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
def test_health_pages_fail_without_the_reason(port: int, path: str) -> None:
    text = f"[-]ping failed: reason withheld\n{path[1:]} check failed\n"
    assert page(port, path) == (500, text, "close")
    assert page(port, f"{path}?verbose&timeout=5s") == (500, text, "close")
    assert page(port, f"{path}/ping") == (500, text, "close")


@pytest.mark.parametrize("path", ["/metrics", "/livezz", "/"])
def test_other_pages_are_unavailable(port: int, path: str) -> None:
    assert page(port, path) == (503, "the event loop of the scheduler is blocked\n", "close")


def test_clients_that_do_not_speak_tls_or_http_are_dropped(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
        caller.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    assert page(port, "/livez")[0] == 500
