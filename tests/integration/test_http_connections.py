"""Connections to the extender's server: order, misbehaving clients, and draining."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from kubesched.extender.server.http_connections import HttpServer, Limits
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.tasks import Tasks
from kubesched.ops.http_messages import Request, Response
from tests.unit.client.request_world import on_a_loop

WAIT_S = 20.0
LARGE = 4_000_000
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def post(path: str, body: bytes = b"", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + body


@dataclass(frozen=True)
class Received:
    path: str
    body: bytes
    remote: str


@dataclass
class World:
    """An echo server, and the requests it received."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    seen: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """What `/later` waits for."""
    server: HttpServer | None = None
    rejections: list[str] = field(default_factory=list)

    def handle(self, request: Request, body: bytes) -> Response | Awaitable[Response]:
        self.received.append(Received(request.path, body, request.remote))
        self.seen.put_nowait(None)
        if request.path == "/later":
            return self._later(body)
        if request.path == "/bug":
            raise ZeroDivisionError
        if request.path == "/large":
            return Response(b"x" * LARGE)
        return Response(body)

    def reject(self, remote: str, problem: str) -> None:
        assert remote.startswith("127.0.0.1:")
        self.rejections.append(problem)

    async def _later(self, body: bytes) -> Response:
        await self.gate.wait()
        return Response(body)

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2 * LARGE)

    async def until_received(self, count: int = 1) -> None:
        """Wait until a number of further requests has been received."""
        for _ in range(count):
            await self.seen.get()


@asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[World]:
    world = World()
    listener = socket.create_server(("127.0.0.1", 0))
    world.port = listener.getsockname()[1]
    server = world.server = HttpServer(
        world.handle, log=NullLog(), on_rejection=world.reject, limits=limits or Limits()
    )
    async with asyncio.timeout(WAIT_S):
        await server.start(listener)
        try:
            yield world
        finally:
            await server.stop(timeout_s=0)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].split("\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


@on_a_loop
async def test_one_connection_serves_many_requests() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        for body in (b"one", b"two", b""):
            writer.write(post("/", body))
            assert await answer(reader) == (200, body)
        assert len({one.remote for one in world.received}) == 1
        assert world.received[0].remote.startswith("127.0.0.1:")
        writer.close()


@on_a_loop
async def test_responses_have_the_order_of_the_requests() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second") + post("/", b"third"))
        await world.until_received()
        world.gate.set()
        assert [await answer(reader) for _ in range(3)] == [
            (200, b"first"),
            (200, b"second"),
            (200, b"third"),
        ]
        writer.close()


@on_a_loop
async def test_bytes_after_the_last_request_are_ignored() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        last = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast"
        writer.write(post("/later", b"first") + last)
        await world.until_received()
        writer.write(post("/", b"more"))
        other_reader, other = await world.connect()
        other.write(post("/other"))
        assert await answer(other_reader) == (200, b"")
        other.close()
        world.gate.set()
        assert await answer(reader) == (200, b"first")
        assert await answer(reader) == (200, b"last")
        assert await reader.read() == b""
        bodies = [one.body for one in world.received if one.path != "/other"]
        assert bodies == [b"first", b"last"]
        writer.close()


@on_a_loop
async def test_a_half_closed_client_gets_all_responses() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second"))
        writer.write_eof()
        await world.until_received()
        world.gate.set()
        assert await answer(reader) == (200, b"first")
        assert await answer(reader) == (200, b"second")
        assert await reader.read() == b""
        writer.close()


@on_a_loop
async def test_a_truncated_body_reaches_the_handler() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/", b"half", length=8))
        writer.write_eof()
        assert await answer(reader) == (200, b"half")
        assert await reader.read() == b""
        writer.close()


@on_a_loop
async def test_an_aborted_connection_leaks_nothing() -> None:
    async with serving() as world:
        _, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second"))
        await world.until_received()
        writer.transport.abort()
        world.gate.set()
        reader, writer = await world.connect()
        writer.write(post("/", b"next"))
        assert await answer(reader) == (200, b"next")
        writer.close()


@on_a_loop
async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    count = 30
    async with serving() as world:
        reader, writer = await world.connect()
        # The client reads nothing more from the socket.
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(post("/large") * count)
        other_reader, other = await world.connect()
        for number in range(50):
            other.write(post("/", b"%d" % number))
            assert await answer(other_reader) == (200, b"%d" % number)
        large = sum(one.path == "/large" for one in world.received)
        assert 0 < large < count
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(count):
            code, body = await answer(reader)
            assert (code, len(body)) == (200, LARGE)
        writer.close()
        other.close()


@on_a_loop
async def test_a_slow_sender_does_not_block_others() -> None:
    async with serving() as world:
        slow_reader, slow = await world.connect()
        request = post("/", b"slowly")
        reader, writer = await world.connect()
        for i in range(len(request)):
            slow.write(request[i : i + 1])
            await slow.drain()
            writer.write(post("/", b"%d" % i))
            assert await answer(reader) == (200, b"%d" % i)
        assert await answer(slow_reader) == (200, b"slowly")
        slow.close()
        writer.close()


@on_a_loop
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"POST / HT", id="half a head"),
        pytest.param(post("/", b"half", length=8), id="half a body"),
    ],
)
async def test_idle_and_stalled_connections_are_closed(sent: bytes) -> None:
    async with serving(Limits(idle_s=0.05, stalled_s=0.05)) as world:
        reader, writer = await world.connect()
        writer.write(sent)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        assert world.received == []
        writer.close()


@on_a_loop
async def test_the_number_of_connections_is_limited() -> None:
    async with serving(Limits(connections=2)) as world:
        kept = [await world.connect() for _ in range(2)]
        for one_reader, one in kept:
            one.write(post("/", b"first"))
            assert await answer(one_reader) == (200, b"first")
        reader, writer = await world.connect()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        for one_reader, one in kept:
            one.write(post("/", b"kept"))
            assert await answer(one_reader) == (200, b"kept")
            one.close()
        writer.close()


@on_a_loop
async def test_a_rejection_reaches_a_client_that_keeps_sending() -> None:
    async with serving(Limits(body_bytes=1000)) as world:
        reader, writer = await world.connect()
        writer.write(post("/", b"x" * 1001, length=21_001))
        for _ in range(20):
            writer.write(b"x" * 1000)
            await writer.drain()
        code, text = await answer(reader)
        assert (code, text) == (413, b"413 Request Entity Too Large")
        assert await reader.read() == b""
        assert world.received == []
        writer.close()


@on_a_loop
async def test_100_continue_is_sent_once() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"bo")
        await writer.drain()
        writer.write(b"dy")
        assert await answer(reader) == (200, b"body")
        writer.close()


@on_a_loop
async def test_a_failed_request_does_not_end_the_connection() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/bug"))
        assert await answer(reader) == (500, b"Internal Server Error\n")
        writer.write(post("/", b"still"))
        assert await answer(reader) == (200, b"still")
        writer.close()


@on_a_loop
async def test_the_response_to_head_has_no_body() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(b"HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n" + post("/", b"next"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"Content-Length: {LARGE}".encode() in head
        assert await answer(reader) == (200, b"next")
        writer.close()


@on_a_loop
async def test_stop_waits_for_active_requests() -> None:
    async with serving() as world:
        assert world.server is not None
        idle_reader, idle = await world.connect()
        idle.write(post("/", b"idle"))
        await answer(idle_reader)
        reader, writer = await world.connect()
        writer.write(post("/later", b"under way"))
        await world.until_received(2)
        stopping = Tasks().start(world.server.stop(timeout_s=WAIT_S), name="stop")
        assert await idle_reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await world.connect()
        assert not stopping.done()
        world.gate.set()
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Connection: close" in head
        assert await reader.read() == b"under way"
        await stopping
        idle.close()
        writer.close()


@on_a_loop
async def test_stop_ends_after_its_timeout() -> None:
    async with serving() as world:
        assert world.server is not None
        reader, writer = await world.connect()
        writer.write(post("/later", b"never"))
        await world.until_received()
        await world.server.stop(timeout_s=0.01)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


POST = b"POST /filter HTTP/1.1\r\nHost: here\r\n"
STREAM = b"".join(
    [
        POST + b"Content-Length: 5\r\n\r\nhello",
        b"\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n",
        b"GET /readyz?a=%20 HTTP/1.1\r\nHOST:here\r\nX-One: 1\r\nx-one: 2 \r\n\r\n",
        POST + b"content-length: 0\r\nConnection: close\r\n\r\n",
    ]
)


@on_a_loop
@pytest.mark.parametrize("step", [1, 2, 3, 7, 20, 50, len(STREAM)])
async def test_requests_do_not_depend_on_how_their_bytes_arrive(step: int) -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        for at in range(0, len(STREAM), step):
            writer.write(STREAM[at : at + step])
            await writer.drain()
        assert [await answer(reader) for _ in range(4)] == [
            (200, b"hello"),
            (200, b"abcde"),
            (200, b""),
            (200, b""),
        ]
        assert await reader.read() == b""
        assert [one.path for one in world.received] == ["/filter", "/filter", "/readyz", "/filter"]
        writer.close()


@on_a_loop
@pytest.mark.parametrize(
    ("request_text", "is_last"),
    [
        ("GET / HTTP/1.0\r\n\r\n", True),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", False),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", False),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", True),
    ],
)
async def test_keep_alive_of_each_http_version(request_text: str, is_last: bool) -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(request_text.encode())
        assert await answer(reader) == (200, b"")
        if is_last:
            assert await reader.read() == b""
        else:
            writer.write(post("/", b"next"))
            assert await answer(reader) == (200, b"next")
        writer.close()


@on_a_loop
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: +1\r\n\r\na", 400),
        (POST + "Content-Length: ²\r\n\r\na".encode("latin-1"), 400),
        (POST + b"Content-Length: 5001\r\n\r\n", 413),
        (POST + b"Content-Length: " + b"9" * 500 + b"\r\n\r\n", 413),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n" + b"x" * 5001, 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400),
        (POST + b"X: " + b"x" * 1001, 431),
        (POST + b"X: " + b"x" * 1001 + b"\r\n\r\n", 431),
        (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST host:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 400),
        (POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab", 501),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nT: " + b"x" * 6001, 413),
    ],
)
async def test_malformed_requests_are_rejected(data: bytes, code: int) -> None:
    async with serving(Limits(header_bytes=1000, body_bytes=5000)) as world:
        reader, writer = await world.connect()
        writer.write(data)
        status, text = await answer(reader)
        assert status == code
        assert text.startswith(f"{code} {HTTPStatus(code).phrase}".encode())
        assert world.rejections == [text.decode()]
        assert await reader.read() == b""
        assert world.received == []
        writer.close()


@on_a_loop
async def test_a_rejected_body_is_not_served_when_its_client_closes() -> None:
    async with serving(Limits(body_bytes=1000)) as world:
        reader, writer = await world.connect()
        chunk = b"\r\n\r\n7d0\r\n" + b"x" * 2000
        writer.write(post("/later", b"first") + POST + b"Transfer-Encoding: chunked" + chunk)
        writer.write_eof()
        await world.until_received()
        world.gate.set()
        assert await answer(reader) == (200, b"first")
        assert (await answer(reader))[0] == 413
        assert await reader.read() == b""
        assert [request.body for request in world.received] == [b"first"]
        writer.close()


@on_a_loop
async def test_a_rejected_connection_is_closed_soon() -> None:
    async with serving(Limits(body_bytes=1000)) as world:
        reader, writer = await world.connect()
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000)
        assert (await answer(reader))[0] == 413
        # The client keeps its side open.
        while world.server is not None and world.server.connections:
            await SystemClock().sleep(0.01)
        writer.close()


@on_a_loop
async def test_requests_before_malformed_bytes_are_served() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/", b"first") + b"hello\r\n\r\n")
        assert await answer(reader) == (200, b"first")
        assert (await answer(reader))[0] == 400
        assert await reader.read() == b""
        writer.close()
