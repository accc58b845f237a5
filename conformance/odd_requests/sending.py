"""Misbehaving clients, and checks of the server's responses.

Owns how bytes are sent (whole, a few at a time, half, over a cut connection) and the verdict on the
response: one with a Status, or a closed connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from conformance.odd_requests.making import Sent

ANSWER_S_MAX = 20.0
WATCH_S_MAX = 2.0
# Messages that upstream also sends with codes from 500 on.
KNOWN_FAILURES = (
    "resourceVersion should not be set on objects to be created",
    "failed to convert new object (",
    "failed to create typed patch object (",
    "strconv.ParseUint: ",
    "Too large resource version",
    "needs a way to the cluster's network",
    "no preferred addresses found",
    "dial tcp ",
    "without impersonating a user",
    "target.name: Required value",
    "data type is not struct",
    "list element types are not identical",
    "target.kind: Unsupported value",
)


# Responses of pages outside of the API, where upstream has no Status either.
PLAIN_REJECTIONS = (
    (404, b"404 page not found\n"),
    (404, b""),
    (406, b""),
    (405, b"Method Not Allowed\n"),
)


class Manner(Enum):
    """The way in which a client sends a request."""

    WHOLE = "whole"
    SLOW = "a few bytes at a time"
    HALF_CLOSED = "half-closed after the request"
    CUT = "gone in the middle"
    RESET = "reset in the middle"
    DEAF = "gone before the answer"


MANNERS = (*[Manner.WHOLE] * 12, *[one for one in Manner if one is not Manner.WHOLE])


@dataclass(slots=True)
class Received:
    """A response."""

    data: bytes = b""
    is_closed: bool = False

    @property
    def head(self) -> bytes:
        """Return the head; empty if it is incomplete."""
        head, end, _ = self.data.partition(b"\r\n\r\n")
        return head if end else b""

    @property
    def code(self) -> int:
        """Return the code; 0 if there is none."""
        words = self.head.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0

    @property
    def is_chunked(self) -> bool:
        """Return whether the body is chunked."""
        return b"\r\ntransfer-encoding: chunked" in self.head.lower()

    @property
    def body(self) -> bytes | None:
        """Return the body; None if it is incomplete."""
        head, end, rest = self.data.partition(b"\r\n\r\n")
        if not end:
            return None
        if self.is_chunked:
            return rest if rest.endswith(b"0\r\n\r\n") else None
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
                return rest if len(rest) >= length else None
        return rest if self.is_closed or self.code in {204, 304} else None


@dataclass(slots=True)
class Report:
    """The status codes of the responses, and the problems."""

    codes: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def count(self, code: int) -> None:
        """Count a response; 0 is a closed connection."""
        self.codes[code] = self.codes.get(code, 0) + 1


async def send(url: str, sent: Sent, manner: Manner, rng: random.Random) -> Received:
    """Send a request in a manner; return the response."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    received = Received()
    try:
        writing = asyncio.ensure_future(_write(writer, sent.data, manner, rng))
        try:
            if manner not in {Manner.CUT, Manner.RESET, Manner.DEAF}:
                await _read(reader, sent, received)
            else:
                await writing
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await writing
    except (ConnectionError, BrokenPipeError):
        received.is_closed = True
    finally:
        writer.transport.abort()
    return received


async def _write(
    writer: asyncio.StreamWriter, data: bytes, manner: Manner, rng: random.Random
) -> None:
    if manner in {Manner.CUT, Manner.RESET}:
        data = data[: rng.randrange(len(data) + 1)]
    if manner is Manner.SLOW:
        # At most 300 pieces, so that long requests end.
        step = 1 + len(data) // 300
        for start in range(0, len(data), step):
            writer.write(data[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)  # Lets other tasks run.
    else:
        writer.write(data)
    await writer.drain()
    if manner is Manner.HALF_CLOSED:
        writer.write_eof()
    if manner is Manner.RESET:
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _read(reader: asyncio.StreamReader, sent: Sent, received: Received) -> None:
    """Read one response; of a watch, what arrives within the timeout."""
    wait_s = ANSWER_S_MAX if sent.is_http else WATCH_S_MAX
    try:
        async with asyncio.timeout(wait_s) as limit:
            while chunk := await reader.read(2**16):
                received.data += chunk
                if received.head and (sent.is_head or received.body is not None):
                    if received.code != 100:
                        return
                    received.data = received.data.partition(b"\r\n\r\n")[2]
                if received.is_chunked and wait_s > WATCH_S_MAX:
                    wait_s = WATCH_S_MAX
                    limit.reschedule(asyncio.get_running_loop().time() + wait_s)
            received.is_closed = True
    except TimeoutError:
        return


def problem_of(sent: Sent, manner: Manner, received: Received) -> str:
    """Return the problem of a response; empty if there is none."""
    if manner in {Manner.CUT, Manner.RESET, Manner.DEAF}:
        return ""
    if not received.head:
        was_closed = received.is_closed or not sent.is_http
        return "" if was_closed else "no response, and the connection stays open"
    code, body = received.code, received.body
    if code < 400 or sent.is_head:
        return "" if code >= 200 else f"code {code}"
    if body is None:
        return f"the response {code} is incomplete"
    if (code, body) in PLAIN_REJECTIONS:
        return ""
    status = _status_of(body)
    if status is None:
        return f"{code} without a Status: {body[:300]!r}"
    if status.get("code") != code:
        return f"{code} with a Status of {status.get('code')}"
    text = str(status.get("message"))
    if code >= 500 and not any(known in text for known in KNOWN_FAILURES):
        return f"{code} {text}"
    return ""


def _status_of(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    is_status = isinstance(document, dict) and document.get("kind") == "Status"
    return document if is_status else None
