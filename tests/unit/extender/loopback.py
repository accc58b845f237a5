"""A scripted server on loopback.

Owns the socket; received requests are recorded. Expected values are never computed here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class Request:
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The number of its connection."""


Script: TypeAlias = "Callable[[asyncio.StreamWriter], Awaitable[None]]"


@dataclass(slots=True)
class Loopback:
    """The server's URL, scripts and received requests."""

    port: int = 0
    scripts: list[Script] = field(default_factory=list)
    """One per request; the last one serves all later requests."""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        try:
            while (request := await _request(reader, number)) is not None:
                self.requests.append(request)
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                await script(writer)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # The client closed the connection, as some tests intend.
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader, number: int) -> Request | None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = await reader.readline()
        if not line:
            return None
        head += line
    first, *lines = head.decode().strip().split("\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first, headers, body, number)


@asynccontextmanager
async def loopback(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Loopback]:
    """Listen until the end of the block."""
    loopback_server = Loopback(scripts=list(scripts))
    server = await asyncio.start_server(loopback_server.serve, "127.0.0.1", 0, ssl=tls)
    loopback_server.port = server.sockets[0].getsockname()[1]
    try:
        yield loopback_server
    finally:
        server.close()


def head(length: int | None, code: int = 200) -> bytes:
    """Return the head of a response; chunked if the length is None."""
    form = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"HTTP/1.1 {code} x\r\n{form}\r\n\r\n".encode()


def responds(body: bytes, code: int = 200) -> Script:
    """Send a response, and keep the connection."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(head(len(body), code) + body)

    return script


def sends_and_closes(data: bytes) -> Script:
    """Send bytes, and close the connection."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return script


def stalls(data: bytes = b"") -> Script:
    """Send bytes, and keep the connection open without sending more."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.Event().wait()

    return script
