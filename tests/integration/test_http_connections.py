"""Connections to a small server: order, clients that misbehave, and the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kubesched.kit.log import NullLog
from kubesched.kit.tasks import Tasks
from kubesched.web.answers import Answer
from kubesched.web.http_connections import HttpServer, Limits
from kubesched.web.http_requests import HttpRequest, SizeLimits
from tests.unit.client.request_world import on_a_loop

WAIT_S = 20.0
LARGE = 4_000_000
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def post(path: str, body: bytes = b"", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + body


@dataclass
class World:
    """A server that says back what it was sent, and what it was asked."""

    port: int = 0
    asked: list[HttpRequest] = field(default_factory=list)
    seen: asyncio.Queue[HttpRequest] = field(default_factory=asyncio.Queue)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """What `/later` waits for."""
    server: HttpServer | None = None

    def handle(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        self.asked.append(request)
        self.seen.put_nowait(request)
        if request.path == "/later":
            return self._later(request)
        if request.path == "/bug":
            raise ZeroDivisionError
        if request.path == "/large":
            return Answer(b"x" * LARGE)
        return Answer(request.body)

    async def _later(self, request: HttpRequest) -> Answer:
        await self.gate.wait()
        return Answer(request.body)

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=2 * LARGE)

    async def until_asked(self, count: int = 1) -> None:
        """Wait until so many more requests have been seen."""
        for _ in range(count):
            await self.seen.get()


@asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[World]:
    world = World()
    listener = socket.create_server(("127.0.0.1", 0))
    world.port = listener.getsockname()[1]
    server = world.server = HttpServer(world.handle, log=NullLog(), limits=limits)
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
async def test_one_connection_takes_many_requests() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        for body in (b"one", b"two", b""):
            writer.write(post("/", body))
            assert await answer(reader) == (200, body)
        assert len({one.remote for one in world.asked}) == 1
        assert world.asked[0].remote.startswith("127.0.0.1:")
        writer.close()


@on_a_loop
async def test_answers_come_in_the_order_of_the_requests() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second") + post("/", b"third"))
        await world.until_asked()
        world.gate.set()
        assert [await answer(reader) for _ in range(3)] == [
            (200, b"first"),
            (200, b"second"),
            (200, b"third"),
        ]
        writer.close()


@on_a_loop
async def test_nothing_is_heard_after_the_last_request() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        last = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast"
        writer.write(post("/", b"first") + last + post("/", b"more"))
        assert await answer(reader) == (200, b"first")
        assert await answer(reader) == (200, b"last")
        assert await reader.read() == b""
        assert [one.body for one in world.asked] == [b"first", b"last"]
        writer.close()


@on_a_loop
async def test_who_sends_no_more_still_gets_the_answers() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second"))
        writer.write_eof()
        await world.until_asked()
        world.gate.set()
        assert await answer(reader) == (200, b"first")
        assert await answer(reader) == (200, b"second")
        assert await reader.read() == b""
        writer.close()


@on_a_loop
async def test_a_body_cut_off_reaches_the_handler_as_it_is() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/", b"half", length=8))
        writer.write_eof()
        assert await answer(reader) == (200, b"half")
        assert await reader.read() == b""
        assert world.asked[0].is_cut
        writer.close()


@on_a_loop
async def test_a_client_that_is_gone_leaves_nothing_behind() -> None:
    async with serving() as world:
        _, writer = await world.connect()
        writer.write(post("/later", b"first") + post("/", b"second"))
        await world.until_asked()
        writer.transport.abort()
        world.gate.set()
        reader, writer = await world.connect()
        writer.write(post("/", b"next"))
        assert await answer(reader) == (200, b"next")
        writer.close()


@on_a_loop
async def test_who_does_not_read_is_not_read_from() -> None:
    count = 30
    async with serving() as world:
        reader, writer = await world.connect()
        # No more is taken out of the socket than this client asks for.
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(post("/large") * count)
        other_reader, other = await world.connect()
        for number in range(50):
            other.write(post("/", b"%d" % number))
            assert await answer(other_reader) == (200, b"%d" % number)
        large = sum(one.path == "/large" for one in world.asked)
        assert 0 < large < count
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(count):
            code, body = await answer(reader)
            assert (code, len(body)) == (200, LARGE)
        writer.close()
        other.close()


@on_a_loop
async def test_a_slow_sender_holds_up_nobody() -> None:
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
async def test_who_stands_still_is_sent_away(sent: bytes) -> None:
    async with serving(Limits(idle_s=0.05, stalled_s=0.05)) as world:
        reader, writer = await world.connect()
        writer.write(sent)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        assert world.asked == []
        writer.close()


@on_a_loop
async def test_there_are_only_so_many_connections() -> None:
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
async def test_a_refusal_reaches_who_goes_on_sending() -> None:
    async with serving(Limits(size=SizeLimits(body_bytes=1000))) as world:
        reader, writer = await world.connect()
        writer.write(post("/", b"x" * 1001))
        for _ in range(20):
            writer.write(b"x" * 1000)
            await writer.drain()
        code, text = await answer(reader)
        assert (code, text) == (413, b"413 Request Entity Too Large")
        assert await reader.read() == b""
        assert world.asked == []
        writer.close()


@on_a_loop
async def test_a_client_that_waits_for_a_word_gets_it_once() -> None:
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
async def test_a_failure_is_answered_and_ends_nothing() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(post("/bug"))
        assert await answer(reader) == (500, b"Internal Server Error\n")
        writer.write(post("/", b"still"))
        assert await answer(reader) == (200, b"still")
        writer.close()


@on_a_loop
async def test_a_head_is_answered_without_a_body() -> None:
    async with serving() as world:
        reader, writer = await world.connect()
        writer.write(b"HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n" + post("/", b"next"))
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"Content-Length: {LARGE}".encode() in head
        assert await answer(reader) == (200, b"next")
        writer.close()


@on_a_loop
async def test_the_end_waits_for_what_is_under_way() -> None:
    async with serving() as world:
        assert world.server is not None
        idle_reader, idle = await world.connect()
        idle.write(post("/", b"idle"))
        await answer(idle_reader)
        reader, writer = await world.connect()
        writer.write(post("/later", b"under way"))
        await world.until_asked(2)
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
async def test_the_end_does_not_wait_for_ever() -> None:
    async with serving() as world:
        assert world.server is not None
        reader, writer = await world.connect()
        writer.write(post("/later", b"never"))
        await world.until_asked()
        await world.server.stop(timeout_s=0.01)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
