"""Health pages fail in place of a loop that stands still, whoever calls and however."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from kubesched.web.stand_in import StandIn
from tests.unit.web.asking import Authority


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """Serve on a port whose own server does not turn; return the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = tmp_path / "pair.pem"
    certificate.write_bytes(Authority().serving_pair())
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    stand_in, ended = StandIn(listener, context), threading.Event()

    def serve() -> None:
        while not ended.is_set():
            stand_in.serve("a plugin does not return")

    thread = threading.Thread(target=serve)
    thread.start()
    yield int(listener.getsockname()[1])
    ended.set()
    thread.join()
    stand_in.close()
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
def test_health_pages_fail_and_tell_nobody_why(port: int, path: str) -> None:
    text = f"[-]ping failed: reason withheld\n{path[1:]} check failed\n"
    assert page(port, path) == (500, text, "close")
    assert page(port, f"{path}?verbose&timeout=5s") == (500, text, "close")
    assert page(port, f"{path}/ping") == (500, text, "close")


@pytest.mark.parametrize("path", ["/metrics", "/livezz", "/"])
def test_other_pages_are_not_to_be_had(port: int, path: str) -> None:
    assert page(port, path) == (503, "the scheduler stands still\n", "close")


def test_callers_who_do_not_speak_our_language_are_left_alone(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
        caller.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    assert page(port, "/livez")[0] == 500
