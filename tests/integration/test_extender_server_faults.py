"""`kubesched extender` and misbehaving clients: nothing leaks, and other clients are served.

The requests are bytes on sockets, since no client library would send most of them.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer, a_node, a_pod, embedded_server, usage_of

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).with_name("picky_plugin.py")
NODES = [f"node-{number}" for number in range(5)]
LABELS = {"node-1": {"liked": "true"}, "node-2": {"rejected": "web"}}
KEPT = ["node-0", "node-1", "node-3", "node-4"]
WAIT_S = 20.0
MB = 1 << 20


@dataclass(frozen=True)
class Extender:
    """A running extender."""

    group: ProcessGroup
    port: int
    process: subprocess.Popen[bytes]
    api: Api

    @property
    def pid(self) -> int:
        return self.process.pid

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def filters(self, pod: str = "web") -> dict[str, Any]:
        return self.api.post("/filter", extender_args(pod)).must(200).json

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[ApiServer]:
    with embedded_server() as server, server.api() as api:
        for name in NODES:
            api.post("/api/v1/nodes", a_node(name, labels=LABELS.get(name, {}))).must(201)
        yield server


@pytest.fixture(scope="module")
def extender(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extender]:
    with running(tmp_path_factory.mktemp("extender"), cluster.kubeconfig) as extender:
        yield extender


@contextmanager
def running(place: Path, kubeconfig: Path) -> Iterator[Extender]:
    (port,) = free_ports(1)
    program = Path(sys.prefix) / "bin" / "kubesched"
    flags = [f"--listen=127.0.0.1:{port}", f"--kubeconfig={kubeconfig}"]
    command: list[str | Path] = [program, "extender", f"--plugin={PLUGIN}:Picky", *flags]
    with ProcessGroup(place) as group, Api(f"http://127.0.0.1:{port}", timeout_s=WAIT_S) as api:
        process = group.start("extender", command)
        group.wait_until(lambda: is_ready(api), "the extender", timeout_s=WAIT_S)
        yield Extender(group, port, process, api)


def is_ready(api: Api) -> bool:
    try:
        return api.get("/readyz").code == 200
    except OSError:
        return False


def extender_args(pod: str = "web") -> dict[str, Any]:
    return {"Pod": a_pod(pod), "Nodes": None, "NodeNames": NODES}


def request(body: bytes, path: str = "/filter", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: extender\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + body


def encoded(pod: str = "web") -> bytes:
    return json.dumps(extender_args(pod)).encode()


def received(client: socket.socket) -> bytes:
    """Return all bytes until the server closes."""
    parts = []
    while part := client.recv(MB):
        parts.append(part)
    return b"".join(parts)


def answer(client: socket.socket) -> Any:
    """Return one decoded response; later bytes stay in the socket."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = exactly(client, 1)
        assert byte, f"the server hung up after {head!r}"
        head += byte
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return json.loads(exactly(client, length))


def exactly(client: socket.socket, size: int) -> bytes:
    """Return a number of bytes; fewer if the server closes."""
    data = bytearray()
    while len(data) < size and (part := client.recv(size - len(data))):
        data += part
    return bytes(data)


def test_well_formed_calls(extender: Extender) -> None:
    result = extender.filters()
    assert result["NodeNames"] == KEPT
    assert result["FailedNodes"] == {"node-2": "not this one"}
    assert extender.filters("other")["NodeNames"] == NODES
    scores = json.loads(extender.api.post("/prioritize", extender_args()).must(200).body)
    assert {score["Host"]: score["Score"] for score in scores} == {
        **dict.fromkeys(NODES, 0),
        "node-1": 10,
    }


def test_a_half_closed_connection_gets_its_response(extender: Extender) -> None:
    with extender.connect() as client:
        client.sendall(request(encoded()))
        client.shutdown(socket.SHUT_WR)
        assert answer(client)["NodeNames"] == KEPT
        assert client.recv(1) == b""


def test_a_truncated_request_is_answered_as_in_go(extender: Extender) -> None:
    body = encoded()
    with extender.connect() as client:
        client.sendall(request(body[: len(body) // 2], length=len(body)))
        client.shutdown(socket.SHUT_WR)
        assert answer(client)["Error"].endswith(": unexpected EOF")
    with extender.connect() as client:
        client.sendall(request(body[: len(body) // 2], "/prioritize", len(body)))
        client.shutdown(socket.SHUT_WR)
        assert answer(client) == []


def test_reset_connections_leak_nothing(extender: Extender) -> None:
    extender.filters()
    before = extender.open_files()
    body = encoded()
    for number in range(100):
        client = extender.connect()
        # Closing sends a reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(request(body)[: 20 * number] or b"P")
        client.close()
    assert extender.filters()["NodeNames"] == KEPT
    extender.group.wait_until(lambda: extender.open_files() <= before, "its end", timeout_s=WAIT_S)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(range(256)),
        b"hello\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
        b"\x00" * 100_000,
    ],
    ids=["TLS", "text", "HTTP/2", "length", "zeroes"],
)
def test_bytes_other_than_http_are_rejected(extender: Extender, garbage: bytes) -> None:
    with extender.connect() as client:
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        code = int(received(client)[9:12])
        assert 400 <= code < 600
    assert extender.filters()["NodeNames"] == KEPT


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b'{"Pod": 5}', b"{}", b"[" * 100_000],
    ids=["nothing", "brace", "null", "list", "text", "bytes", "number", "empty", "deep"],
)
def test_a_useless_body_gets_an_error(extender: Extender, body: bytes) -> None:
    assert extender.api.post("/filter", body).must(200).json["Error"]
    assert extender.api.post("/prioritize", body).must(200).body == b"[]"
    assert extender.filters()["NodeNames"] == KEPT


def test_unknown_node_names_are_rejected(extender: Extender) -> None:
    body = {**extender_args(), "NodeNames": ["node-0", "ghost", ""]}
    result = extender.api.post("/filter", body).must(200).json
    assert result["NodeNames"] == ["node-0"]
    assert sorted(result["FailedNodes"]) == ["", "ghost"]


def test_slow_clients_do_not_block_others(extender: Extender) -> None:
    whole = request(encoded())
    clients = [extender.connect() for _ in range(20)]
    try:
        for number, client in enumerate(clients):
            client.sendall(whole[: 1 + number * len(whole) // 20])
        assert extender.filters()["NodeNames"] == KEPT
        for number, client in enumerate(clients):
            client.sendall(whole[1 + number * len(whole) // 20 :])
        for client in clients:
            assert answer(client)["NodeNames"] == KEPT
    finally:
        for client in clients:
            client.close()


def test_clients_that_do_not_read_do_not_block_others(extender: Extender) -> None:
    names = [f"unknown-{number:06}" for number in range(20_000)]
    body = json.dumps({**extender_args(), "NodeNames": names}).encode()
    with extender.connect() as client:
        client.sendall(request(body) * 3)
        for _ in range(20):
            assert extender.filters()["NodeNames"] == KEPT
        for _ in range(3):
            assert len(answer(client)["FailedNodes"]) == len(names)


def test_concurrent_clients_get_their_own_responses(extender: Extender) -> None:
    pods = ["web" if number % 3 == 0 else f"other-{number}" for number in range(300)]

    def call(pod: str) -> list[str]:
        with extender.connect() as client:
            client.sendall(request(encoded(pod)))
            names: list[str] = answer(client)["NodeNames"]
            return names

    with ThreadPoolExecutor(60) as threads:
        answers = list(threads.map(call, pods))
    assert answers == [KEPT if pod == "web" else NODES for pod in pods]


def test_a_huge_body_is_served(extender: Extender) -> None:
    padding = {"example.com/notes": "x" * 200_000}
    nodes = []
    for number in range(300):
        node = a_node(f"large-{number}", labels={"rejected": "web"} if number % 2 else {})
        node["metadata"]["annotations"] = padding
        nodes.append(node)
    body = {"Pod": a_pod("web"), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    data = json.dumps(body).encode()
    assert len(data) > 50 * MB
    result = extender.api.post("/filter", data).must(200).json
    kept = [node["metadata"]["name"] for node in result["Nodes"]["items"]]
    assert kept == [f"large-{number}" for number in range(0, 300, 2)]
    assert len(result["FailedNodes"]) == 150
    assert extender.filters()["NodeNames"] == KEPT


def test_an_impossible_length_takes_no_memory(extender: Extender) -> None:
    before = usage_of(extender.pid).resident_mb
    for length in (10**12, 10**30):
        with extender.connect() as client:
            client.sendall(request(b"{", length=length))
            assert received(client)[9:13] == b"413 "
    with extender.connect() as client:
        client.sendall(request(b"{", length=500 * MB))
        assert extender.filters()["NodeNames"] == KEPT
    assert usage_of(extender.pid).resident_mb < before + 50


def test_chunked_bodies_and_100_continue(extender: Extender) -> None:
    body = encoded()
    half = len(body) // 2
    head = "POST /filter HTTP/1.1\r\nHost: extender\r\n"
    with extender.connect() as client:
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{half:x}\r\n".encode())
        client.sendall(body[:half] + f"\r\n{len(body) - half:x}\r\n".encode() + body[half:])
        client.sendall(b"\r\n0\r\n\r\n")
        assert answer(client)["NodeNames"] == KEPT
        more = f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        client.sendall(f"{head}{more}".encode())
        assert exactly(client, 25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert answer(client)["NodeNames"] == KEPT


def test_shutdown_with_idle_and_active_clients(cluster: ApiServer, tmp_path: Path) -> None:
    body = encoded()
    with (
        running(tmp_path, cluster.kubeconfig) as extender,
        extender.connect() as idle,
        extender.connect() as within,
    ):
        idle.sendall(request(body))
        assert answer(idle)["NodeNames"] == KEPT
        within.sendall(request(body)[:-1])
        # A later response on another connection shows that this has been read.
        assert extender.filters()["NodeNames"] == KEPT
        extender.process.terminate()
        assert idle.recv(1) == b""
        within.sendall(body[-1:])
        assert answer(within)["NodeNames"] == KEPT
        assert within.recv(1) == b""
        assert extender.process.wait(WAIT_S) == 0
