"""Bindings and events on connections that are cut, closed, slow or untrusted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest
import uvloop

from kubesched.client.auth.credentials import ClusterAccess, FixedCredential, TlsSettings
from kubesched.client.errors import ConflictError, TooManyRequestsError, TransportError
from kubesched.client.http.lanes import Lane
from kubesched.client.rest import Client
from kubesched.cluster.apiserver.auth.certificates import new_authority
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from tests.integration.client_world import client_of

PATH = "/api/v1/namespaces/default/pods/p/binding"
BODY = b'{"kind":"Binding"}'
FINE = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


P = ParamSpec("P")


def on_both_loops(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on asyncio's loop and on uvloop."""

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*arguments, **named))
        uvloop.run(test(*arguments, **named))

    return run


class Stage:
    """A server with a script per connection; the last script serves all later connections."""

    def __init__(self, *scenes: Play) -> None:
        self.scenes = list(scenes)
        self.connections = 0
        self.ended = asyncio.Semaphore(0)
        self.requests: list[bytes] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        scene = self.scenes[0] if len(self.scenes) == 1 else self.scenes.pop(0)
        try:
            await scene(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client closed first.
        finally:
            writer.close()
            self.ended.release()

    async def request_of(self, reader: asyncio.StreamReader) -> None:
        """Read one request with its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))

    def answering(self, *answers: bytes) -> Play:
        """Return a script that sends one response per request, and then closes."""

        async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await self.request_of(reader)
                writer.write(answer)
            await writer.drain()

        return scene

    @property
    def always_fine(self) -> Play:
        """Return a script that responds to every request."""

        async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await self.request_of(reader)
                writer.write(FINE)

        return scene

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0, ssl=context)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            yield f"{host}:{port}"
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()


def access_to(
    address: str, *, scheme: str = "http", tls: TlsSettings | None = None
) -> ClusterAccess:
    return ClusterAccess(f"{scheme}://{address}", FixedCredential("Bearer t"), tls or TlsSettings())


async def bind(client: Client, *, timeout_s: float | None = None) -> bytes:
    return await client.request("POST", PATH, body=BODY, lane=Lane.BINDING, timeout_s=timeout_s)


@on_both_loops
async def test_one_connection_serves_requests_in_sequence() -> None:
    stage = Stage()
    stage.scenes = [stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        for _ in range(3):
            assert await bind(client) == b"{}"
        assert stage.connections == 1
        await asyncio.gather(*(bind(client) for _ in range(5)))
        assert stage.connections == 5
    assert (
        stage.requests[0]
        == (
            f"POST {PATH} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\n"
            "Accept-Encoding: identity\r\nUser-Agent: test\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer t\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode()
        + BODY
    )


@on_both_loops
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 201 Crea",
        b"HTTP/1.1 201 Created\r\nContent-Length: 20\r\n\r\n{",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
)
async def test_a_truncated_response(answer: bytes) -> None:
    stage = Stage()
    stage.scenes = [stage.answering(answer), stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        with pytest.raises(TransportError, match=f'^Post "http://{address}{PATH}": EOF$') as cut:
            await bind(client)
        assert (cut.value.is_reset, cut.value.was_sent) == (True, True)
        assert await bind(client) == b"{}"
        assert len(stage.requests) == 2, "what may have been done is not sent again"


@on_both_loops
async def test_malformed_responses() -> None:
    stage = Stage()
    stage.scenes = [stage.answering(b"SSH-2.0-OpenSSH\r\n\r\n"), stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        with pytest.raises(TransportError, match="malformed HTTP response") as broken:
            await bind(client)
        assert broken.value.was_sent
        assert await bind(client) == b"{}"
        assert stage.connections == 2


@on_both_loops
async def test_a_rejection_has_its_message_and_the_connection_is_kept() -> None:
    status = (
        b'{"kind":"Status","status":"Failure","message":"taken","reason":"Conflict","code":409}'
    )
    head = b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    stage = Stage()
    stage.scenes = [stage.answering(head % len(status) + status, FINE)]
    async with stage.running() as address, client_of(access_to(address)) as client:
        with pytest.raises(ConflictError, match=r"^taken$"):
            await bind(client)
        assert await bind(client) == b"{}"
        assert stage.connections == 1


@on_both_loops
async def test_a_request_is_repeated_after_retry_after() -> None:
    later = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    never = later.replace(b"Retry-After: 0\r\n", b"")
    stage = Stage()
    stage.scenes = [stage.answering(later, FINE, never)]
    async with stage.running() as address, client_of(access_to(address)) as client:
        assert await bind(client) == b"{}"
        with pytest.raises(TooManyRequestsError):
            await bind(client)
        assert len(stage.requests) == 3


@on_both_loops
@pytest.mark.parametrize(
    "last",
    [
        FINE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        b"HTTP/1.1 201 Created\r\n\r\n{}",
        FINE + b"HTTP/1.1 200 nobody asked",
    ],
)
async def test_a_connection_that_cannot_be_reused_is_closed(last: bytes) -> None:
    stage = Stage()
    stage.scenes = [stage.answering(last), stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        assert [await bind(client), await bind(client)] == [b"{}", b"{}"]
        assert stage.connections == 2


@on_both_loops
async def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    stage = Stage()
    stage.scenes = [stage.answering(FINE), stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        await bind(client)
        await stage.ended.acquire()
        await SystemClock().sleep(0.01)  # Until the socket reports the end.
        await bind(client)
        assert stage.connections == 2


@on_both_loops
async def test_unsolicited_bytes_are_not_the_next_response() -> None:
    stage, is_received = Stage(), asyncio.Event()

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stage.request_of(reader)
        writer.write(FINE)
        await is_received.wait()
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    stage.scenes = [chatty, stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        await bind(client)
        is_received.set()
        await stage.ended.acquire()
        assert await bind(client) == b"{}"
        assert stage.connections == 2


@on_both_loops
async def test_a_response_after_the_timeout() -> None:
    stage = Stage()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stage.request_of(reader)
        await reader.read()

    stage.scenes = [silent, stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        with pytest.raises(TransportError, match="context deadline exceeded") as late:
            await bind(client, timeout_s=0.05)
        assert (late.value.is_timeout, late.value.was_sent) == (True, True)
        await stage.ended.acquire()  # The connection is closed, so that no late bytes arrive.
        assert await bind(client) == b"{}"


@on_both_loops
async def test_the_response_to_a_cancelled_request_is_dropped() -> None:
    stage, is_requested = Stage(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stage.request_of(reader)
        is_requested.set()
        await reader.read()
        writer.write(b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")

    stage.scenes = [slow, stage.always_fine]
    async with stage.running() as address, client_of(access_to(address)) as client:
        given_up = asyncio.ensure_future(bind(client))
        await is_requested.wait()
        given_up.cancel()
        assert await bind(client) == b"{}"
        assert given_up.cancelled()
        assert stage.connections == 2


@on_both_loops
async def test_a_refused_connection() -> None:
    async with Stage().running() as address:
        pass
    async with client_of(access_to(address)) as client:
        with pytest.raises(TransportError, match=f"dial tcp {address}: connect: .*refused") as none:
            await bind(client)
        assert (none.value.is_refused, none.value.was_sent) == (True, False)


@on_both_loops
async def test_an_unknown_host() -> None:
    async with client_of(access_to("nobody.invalid:6443")) as client:
        with pytest.raises(TransportError, match=r"dial tcp: lookup nobody\.invalid: ") as unknown:
            await bind(client)
        assert not unknown.value.was_sent


@on_both_loops
async def test_a_server_that_never_completes_the_handshake() -> None:
    stage = Stage()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass

    stage.scenes = [silent]
    async with stage.running() as address:
        async with client_of(access_to(address, scheme="https")) as client:
            with pytest.raises(TransportError, match="dial tcp: i/o timeout") as late:
                await bind(client, timeout_s=0.05)
            assert (late.value.is_timeout, late.value.was_sent) == (True, False)
        # Closing does not wait for a connection that is being opened.
        client = Client(
            access_to(address, scheme="https"),
            qps=-1,
            user_agent="t",
            clock=SystemClock(),
            log=NullLog(),
        )
        dialling = asyncio.ensure_future(bind(client))
        while stage.connections < 2:
            await SystemClock().sleep(0)
        await client.close()
        with pytest.raises(TransportError, match="the client is closed") as closed:
            await dialling
        assert closed.value.is_closed


@on_both_loops
async def test_closing_cancels_active_requests() -> None:
    stage, is_requested = Stage(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stage.request_of(reader)
        is_requested.set()
        await reader.read()

    stage.scenes = [silent]
    async with stage.running() as address, client_of(access_to(address)) as client:
        waiting = asyncio.ensure_future(bind(client))
        await is_requested.wait()
        await client.close()
        with pytest.raises(TransportError, match="the client is closed") as closed:
            await waiting
        assert (closed.value.is_closed, closed.value.was_sent) == (True, True)
        with pytest.raises(TransportError, match="the client is closed"):
            await bind(client)


class LateClock(SystemClock):
    """The system clock, moved by some seconds."""

    late_s = 0.0

    def monotonic_s(self) -> float:
        return SystemClock.monotonic_s() + self.late_s


# -- TLS ------------------------------------------------------------------------------------------


@on_both_loops
async def test_certificates_of_both_sides(tmp_path: Path) -> None:
    now_s = SystemClock().now_s()
    authority = new_authority(now_s)
    served = authority.serving(["cluster.test"], now_s)
    (tmp_path / "served.pem").write_bytes(served.certificate + served.key)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "served.pem")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    names: list[str] = []
    stage = Stage()

    async def record_name(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = writer.get_extra_info("peercert")["subject"]
        names.append(next(value for ((name, value),) in subject if name == "commonName"))
        await stage.always_fine(reader, writer)

    stage.scenes = [record_name]

    def show(user: str) -> None:
        pair = authority.client(user, ["g"], now_s)
        (tmp_path / "client.pem").write_bytes(pair.certificate)
        (tmp_path / "client.key").write_bytes(pair.key)

    show("first")
    tls = TlsSettings(
        authority_file=str(tmp_path / "ca.pem"),
        certificate_file=str(tmp_path / "client.pem"),
        key_file=str(tmp_path / "client.key"),
        server_name="cluster.test",
    )
    async with stage.running(context) as address:
        clock = LateClock()
        client = Client(
            access_to(address, scheme="https", tls=tls),
            qps=-1,
            user_agent="t",
            clock=clock,
            log=NullLog(),
        )
        await bind(client)
        await bind(client)
        show("second")
        clock.late_s = 60.0
        await bind(client)
        await bind(client)
        await client.close()
        assert names == ["first", "second"]
        other_name = replace(tls, server_name="other.test")
        async with client_of(access_to(address, scheme="https", tls=other_name)) as client:
            with pytest.raises(TransportError, match="tls: failed to verify certificate") as not_it:
                await bind(client)
            assert not not_it.value.was_sent
