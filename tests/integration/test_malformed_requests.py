"""Malformed and unusual requests: the server responds with a Status or closes the connection.

Always on the embedded server, regardless of `--server`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from conformance.odd_requests.running import bombard
from kubesched.cluster.apiserver.embedded_server import EmbeddedServer, Settings
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.server import ADMIN
from kubesched.kit.clock import SystemClock
from kubesched.testing import Api, RunningEmbedded, embedded_server

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
TOKEN = f"Authorization: Bearer {ADMIN.token}\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningEmbedded]:
    with embedded_server(tls=False) as running:
        yield running


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that nothing unexpected was logged."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [
        record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR
    ] == []


def connection(server: RunningEmbedded) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def received(client: socket.socket) -> bytes:
    """Return all bytes until the server closes."""
    data = b""
    while chunk := client.recv(2**16):
        data += chunk
    return data


def status_of(data: bytes) -> tuple[int, str]:
    head, _, body = data.partition(b"\r\n\r\n")
    status = json.loads(body)
    assert status["kind"] == "Status"
    assert status["code"] == int(head.split()[1])
    return status["code"], status["message"]


def watchers(server: RunningEmbedded) -> str:
    with server.api() as api:
        lines = api.get("/metrics").text.splitlines()
    return next(line for line in lines if line.startswith("apiserver_longrunning_requests{"))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_requests(seed: int) -> None:
    async def bombarded() -> list[str]:
        server = EmbeddedServer(Settings(has_tls=False, seed=seed), SystemClock())
        await server.start()
        report = await bombard(server.url, seed=seed, count=600)
        await server.stop()
        assert {200, 201, 400, 404, 405, 413, 422} <= set(report.codes)
        return report.problems

    assert asyncio.run(bombarded()) == []


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with a length", "in chunks"])
def test_a_body_of_more_than_three_megabytes(server: RunningEmbedded, is_chunked: bool) -> None:
    body = b'{"a":"' + b"x" * (3 * 1024 * 1024) + b'"}'
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(body)}"
    if is_chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with closing(connection(server)) as client:
        client.sendall(f"POST {PODS} HTTP/1.1\r\nHost: a\r\n{TOKEN}{length}\r\n\r\n".encode())
        client.sendall(body)
        assert status_of(received(client)) == (413, "Request entity too large: limit is 3145728")


def test_a_compressed_body_is_not_read(server: RunningEmbedded) -> None:
    # If it were decompressed, a small body could fill the memory.
    body = gzip.compress(
        b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}'
    )
    head = f"POST {PODS} HTTP/1.1\r\nHost: a\r\n{TOKEN}Content-Encoding: gzip\r\n"
    with closing(connection(server)) as client:
        client.sendall(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        client.sendall(body)
        code, text = status_of(received(client))
    assert code == 400
    assert text.startswith("the object provided is unrecognized (must be of type Pod)")


def test_a_malformed_chunk(server: RunningEmbedded) -> None:
    head = f"POST {PODS} HTTP/1.1\r\nHost: a\r\n{TOKEN}Transfer-Encoding: chunked\r\n\r\n"
    with closing(connection(server)) as client:
        client.sendall(head.encode() + b"2\r\n{}\r\n")
        with server.api() as api:  # The server is waiting for the rest.
            api.get("/readyz").must(200)
        client.sendall(b"no number\r\n")
        code, _ = status_of(received(client))
    assert code == 400


def test_a_patch_that_changes_the_kind(server: RunningEmbedded) -> None:
    with server.api() as api:
        path = f"{MAPS}/patched"
        api.post(MAPS, {"metadata": {"name": "patched"}}).must(201)
        values: list[Any] = [1, [[]], {"a": "b"}]
        for value in values:
            api.patch(path, {"kind": value}, MERGE_PATCH).must(422)
            api.patch(path, {"apiVersion": value}, MERGE_PATCH).must(422)
            api.delete(path, {"kind": value}).must(400)


def test_a_watch_over_http_1_0(server: RunningEmbedded) -> None:
    query = "watch=1&timeoutSeconds=1"
    with closing(connection(server)) as client:
        client.sendall(f"GET {PODS}?{query} HTTP/1.0\r\nHost: a\r\n{TOKEN}\r\n".encode())
        assert received(client).startswith(b"HTTP/1.0 200 ")


def test_a_long_selector_is_read(server: RunningEmbedded) -> None:
    names = ",".join(f"name-{number}" for number in range(10_000))
    with server.api() as api:
        assert (
            api.get(PODS, query={"labelSelector": f"a in ({names})"}).must(200).json["items"] == []
        )


def test_a_byte_at_a_time(server: RunningEmbedded) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"slow"}}'
    head = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\n{TOKEN}Content-Type: application/json\r\n"
    data = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with closing(connection(server)) as client, server.api() as other:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at, byte in enumerate(data):
            client.sendall(bytes([byte]))
            if at % 50 == 0:
                other.get("/readyz").must(200)
        assert received(client).startswith(b"HTTP/1.1 201 ")


def test_a_silent_client(server: RunningEmbedded) -> None:
    clients = [connection(server) for _ in range(50)]
    with server.api() as api:
        api.get("/readyz").must(200)
    for client in clients:
        client.close()


def test_a_half_closed_connection(server: RunningEmbedded) -> None:
    with closing(connection(server)) as client:
        client.sendall(f"GET {PODS} HTTP/1.1\r\nHost: a\r\n{TOKEN}\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        assert received(client)[:12] in {b"", b"HTTP/1.1 200"}
    with server.api() as api:
        api.get("/readyz").must(200)


def test_a_disconnected_client_no_longer_watches(server: RunningEmbedded) -> None:
    before = watchers(server)
    with server.api() as api:
        with api.watch("/api/v1/namespaces/nothing/pods"):
            assert watchers(server) != before
        # No event is sent; the server has to notice the closed connection.
        assert eventually(lambda: watchers(server) == before)


def test_a_client_that_does_not_read_loses_its_watch(server: RunningEmbedded) -> None:
    before = watchers(server)
    with closing(connection(server)) as client, server.api() as api:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\n{TOKEN}\r\n".encode())
        assert client.recv(1)
        flood(api, megabytes=50)
        assert eventually(lambda: watchers(server) == before)


def flood(api: Api, *, megabytes: int) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flood"}}
    api.post(MAPS, body).must(201)
    for number in range(megabytes):
        data = {**body, "data": {"text": f"{number:06}" + "x" * 1_000_000}}
        api.put(f"{MAPS}/flood", data).must(200)


def eventually(holds: object) -> bool:
    """Return whether a condition becomes true within some thousand requests."""
    assert callable(holds)
    return any(holds() for _ in range(2000))
