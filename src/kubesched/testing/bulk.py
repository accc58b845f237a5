"""Many small requests at once: thousands of nodes and pods in seconds.

Owns a narrow HTTP/1.1 client over kept connections: no retries, no redirects, bodies as bytes. What
a test asks one by one goes through `http`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from kubesched.testing.server import ADMIN, ApiServer, TokenUser

_CONNECTIONS = 24
_TIMEOUT_S = 120.0


class BulkError(RuntimeError):
    """A request of many was refused; the message has the server's words."""


@dataclass(frozen=True, slots=True)
class Request:
    """One of many; the body is JSON."""

    method: str
    path: str
    body: bytes = b""


class Connection:
    """One kept connection; one request at a time."""

    def __init__(self, server: ApiServer, user: TokenUser = ADMIN) -> None:
        address = urlsplit(server.url)
        self._host, self._port = address.hostname or "", address.port or 443
        self._tls = ssl.create_default_context(cafile=str(server.ca_file))
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {user.token}\r\n".encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect."""
        self._streams = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, limit=2**20
        )

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request and return code and body of the answer."""
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(
            b"%b %b HTTP/1.1\r\n%bAccept: application/json\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b"
            % (
                request.method.encode(),
                request.path.encode(),
                self._head,
                len(request.body),
                request.body,
            )
        )
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head[9:12]), await _body(reader, head.lower())

    async def lines(self, path: str) -> asyncio.StreamReader:
        """Ask for a stream and return it where its body begins, chunk marks included."""
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(
            b"GET %b HTTP/1.1\r\n%bAccept: application/json\r\n\r\n" % (path.encode(), self._head)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if int(head[9:12]) != 200:
            raise BulkError(f"{path}: {head.decode(errors='replace')}")
        return reader


def send_all(
    server: ApiServer,
    requests: Iterable[Request],
    *,
    user: TokenUser = ADMIN,
    connections: int = _CONNECTIONS,
    tolerated: Iterable[int] = (),
) -> int:
    """Send all requests, in any order, and return how many there were.

    Args:
        server: Whom to ask.
        requests: What to ask; taken one by one.
        user: Who asks.
        connections: How many at a time.
        tolerated: Codes that are well although they are no success.
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
    workers = [_send_some(Connection(server, user), left, tolerated) for _ in range(connections)]
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
        connection.close()
    return count


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if b"\r\ntransfer-encoding: chunked" in head:
        pieces = []
        while size := int(await reader.readline(), 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readline()
        return b"".join(pieces)
    _, _, rest = head.partition(b"\r\ncontent-length: ")
    length = int(rest.split(b"\r\n", 1)[0]) if rest else 0
    return await reader.readexactly(length) if length else b""
