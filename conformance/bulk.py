"""Many requests at once: creates thousands of nodes and pods in seconds.

Owns a small HTTP/1.1 client over persistent connections, without retries and redirects, which uses
less CPU during measurements than a library. Single requests go through `cluster/launch/http.py`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubesched.cluster.launch.server import ADMIN, ApiServer, TokenUser

_CONNECTIONS = 24
_TIMEOUT_S = 120.0


class BulkError(RuntimeError):
    """A bulk request was rejected; the message is the server's."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with a JSON body."""

    method: str
    path: str
    body: bytes = b""


class Connection:
    """A persistent connection for one request at a time."""

    def __init__(self, url: str, *, ca_file: Path | None = None, token: str = "") -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "", address.port
        is_secure = address.scheme == "https"
        self._tls = ssl.create_default_context(cafile=ca_file) if is_secure else None
        self._head = f"Host: {self._host}\r\nAccept: application/json\r\n".encode()
        if token:
            self._head += f"Authorization: Bearer {token}\r\n".encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    def to(cls, server: ApiServer, user: TokenUser = ADMIN) -> Connection:
        """Return a connection to an API server, as a user."""
        return cls(server.url, ca_file=server.ca_file, token=user.token)

    async def open(self) -> None:
        """Connect."""
        self._streams = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, limit=2**20
        )

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            writer = self._streams[1]
            self._streams = None
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request; return the status code and the body of the response."""
        code, head, reader = await self._request(request)
        return code, await _body(reader, head)

    async def lines(self, request: Request) -> AsyncIterator[bytes]:
        """Send a request, and yield the lines of the response as they arrive."""
        code, head, reader = await self._request(request)
        if code != 200 or not _is_chunked(head):
            raise BulkError(f"{request.path}: {code} {head.decode(errors='replace')}")
        rest = b""
        async for chunk in _chunks(reader):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line

    async def _request(self, request: Request) -> tuple[int, bytes, asyncio.StreamReader]:
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(
            b"%b %b HTTP/1.1\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (
                request.method.encode(),
                request.path.encode(),
                self._head,
                len(request.body),
                request.body,
            )
        )
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), head.lower(), reader


def send_all(
    server: ApiServer,
    requests: Iterable[Request],
    *,
    user: TokenUser = ADMIN,
    connections: int = _CONNECTIONS,
    tolerated: Iterable[int] = (),
) -> int:
    """Send all requests, in any order, and return their number; BulkError if one is rejected.

    Args:
        server: The server.
        requests: The requests; the iterable is consumed as they are sent.
        user: The user who sends them.
        connections: The number of concurrent connections.
        tolerated: Status codes from 300 on that are not errors.
    """
    return asyncio.run(_send_all(server, requests, user, connections, frozenset(tolerated)))


async def _send_all(
    server: ApiServer,
    requests: Iterable[Request],
    user: TokenUser,
    connections: int,
    tolerated: frozenset[int],
) -> int:
    left = iter(requests)
    workers = [_send_some(Connection.to(server, user), left, tolerated) for _ in range(connections)]
    return sum(await asyncio.gather(*workers))


async def _send_some(
    connection: Connection, left: Iterator[Request], tolerated: frozenset[int]
) -> int:
    count = 0
    try:
        for request in left:
            if not count:
                await connection.open()
            async with asyncio.timeout(_TIMEOUT_S):
                code, body = await connection.send(request)
            if code >= 300 and code not in tolerated:
                raise BulkError(f"{request.method} {request.path}: {code} {body.decode()[:1000]}")
            count += 1
    finally:
        await connection.close()
    return count


def _is_chunked(head: bytes) -> bool:
    return b"\r\ntransfer-encoding: chunked" in head


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if _is_chunked(head):
        return b"".join([chunk async for chunk in _chunks(reader)])
    _, _, rest = head.partition(b"\r\ncontent-length: ")
    length = int(rest.split(b"\r\n", 1)[0]) if rest else 0
    return await reader.readexactly(length) if length else b""
