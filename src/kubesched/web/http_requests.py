"""HTTP/1.1 requests out of bytes, as they come.

Owns where a request begins and ends, and what is refused because it can be read in two ways. Never
reads from a socket and never answers. For servers that are asked thousands of times a second; the
others use aiohttp.
Upstream: Go's net/http readRequest and readTransfer
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from multidict import CIMultiDict, CIMultiDictProxy

from kubesched.web.answers import Asked
from kubesched.web.peers import peer_of

_HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_FIRST_LINE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^\s]+) HTTP/1\.([01])")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")
_CHUNK_LINE_BYTES_MAX: Final = 4096


class HttpError(Exception):
    """What came is no request; the connection cannot be used any longer."""

    def __init__(self, code: int, text: str = "") -> None:
        phrase = HTTPStatus(code).phrase
        super().__init__(f"{code} {phrase}: {text}" if text else f"{code} {phrase}")
        self.code = code


@dataclass(slots=True)
class HttpRequest:
    """A request, whole."""

    method: str
    uri: str
    """As it came, with the query."""
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes
    is_last: bool
    """Whether the connection ends with the answer."""
    is_cut: bool = False
    """Whether the client stopped sending before the body was whole."""
    remote: str = ""
    tls: Any = None
    """The ssl.SSLObject of the connection, if it has one."""

    @property
    def path(self) -> str:
        """Return the decoded path."""
        return unquote(self.uri.partition("?")[0])

    def asked(self) -> Asked:
        """Return the request as the pages of a PathMux want it."""
        headers = CIMultiDictProxy(CIMultiDict(self.headers))
        return Asked(
            self.method, self.path, self.uri, headers, self._read, peer_of(self.tls), self.remote
        )

    async def _read(self) -> bytes:
        return self.body


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """How much one request may be."""

    head_bytes: int = 1 << 16
    body_bytes: int = 1 << 29
    """Whole nodes of a cluster with tens of thousands."""


class RequestReader:
    """Takes bytes, gives requests; one for each connection."""

    def __init__(self, limits: SizeLimits) -> None:
        self._limits = limits
        self._pending = bytearray()
        self._searched = 0
        self._head: HttpRequest | None = None
        self._parts: list[bytes] = []
        self._size = 0
        """What has come of the body."""
        self._missing: int | None = 0
        """What is still to come of the body; None where it comes in chunks."""

    @property
    def pending_bytes(self) -> int:
        """Return how much has come that belongs to no request yet."""
        return len(self._pending)

    @property
    def is_within(self) -> bool:
        """Return whether part of a request has come."""
        return self._head is not None or bool(self._pending)

    @property
    def awaits_continue(self) -> bool:
        """Return whether the client sends the body only when it is told to."""
        head = self._head
        return (
            head is not None
            and not self._size
            and not self._pending
            and head.headers.get("expect", "").lower() == "100-continue"
        )

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        if self._head is not None and self._missing and not self._pending:
            # The usual way of a large body: nothing is looked at, nothing is copied.
            if len(data) <= self._missing:
                self._take(data)
                return
            cut = self._missing
            self._take(data[:cut])
            data = data[cut:]
        self._pending += data

    def next(self) -> HttpRequest | None:
        """Return the next request, None if more has to come; HttpError if it cannot be one."""
        if self._head is None and not self._read_head():
            return None
        is_whole = self._read_chunks() if self._missing is None else self._read_length()
        return self._taken() if is_whole else None

    def cut(self) -> HttpRequest | None:
        """Return the request that ends here since nothing more comes; HttpError within a head."""
        if self._head is not None:
            self._head.is_cut = self._head.is_last = True
            return self._taken()
        if self._pending.strip(_LINE_END):
            raise HttpError(400)
        return None

    def _take(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._missing is not None:
            self._missing -= len(data)

    def _taken(self) -> HttpRequest:
        request = self._head
        assert request is not None
        request.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._head = None
        self._parts = []
        self._size = self._missing = 0
        return request

    def _read_head(self) -> bool:
        pending = self._pending
        # Empty lines before a request are tolerated, as RFC 9112 asks.
        while pending.startswith(_LINE_END):
            del pending[:2]
            self._searched = 0
        end = pending.find(_HEAD_END, max(0, self._searched - 3))
        if max(end, len(pending) if end < 0 else 0) > self._limits.head_bytes:
            raise HttpError(431)
        if end < 0:
            self._searched = len(pending)
            return False
        text = pending[:end].decode("latin-1")
        del pending[: end + 4]
        self._searched = 0
        self._head = _parsed(text)
        self._missing = self._length(self._head.headers)
        return True

    def _length(self, headers: Mapping[str, str]) -> int | None:
        """Return how long the body is, None if it comes in chunks."""
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise HttpError(501, "unsupported transfer encoding")
            if length is not None:
                # Two readers could see two different requests.
                raise HttpError(400, "both a length and chunks")
            return None
        if length is None:
            return 0
        if not (length.isascii() and length.isdigit()):
            raise HttpError(400, "bad Content-Length")
        return self._allowed(int(length) if len(length) < 20 else 1 << 64)

    def _allowed(self, size: int) -> int:
        if size > self._limits.body_bytes:
            raise HttpError(413)
        return size

    def _read_length(self) -> bool:
        missing = self._missing or 0
        if missing and self._pending:
            self._take(bytes(self._pending[:missing]))
            del self._pending[:missing]
        return not self._missing

    def _read_chunks(self) -> bool:
        pending = self._pending
        while True:
            end = pending.find(_LINE_END, 0, _CHUNK_LINE_BYTES_MAX)
            if end < 0:
                if len(pending) >= _CHUNK_LINE_BYTES_MAX:
                    raise HttpError(400, "malformed chunked encoding")
                return False
            found = _CHUNK.fullmatch(pending, 0, end)
            if found is None:
                raise HttpError(400, "invalid byte in chunk length")
            size = int(found[1], 16)
            if not size:
                return self._read_trailer(end)
            self._allowed(self._size + size)
            first, last = end + 2, end + 2 + size
            if len(pending) < last + 2:
                return False
            if pending[last : last + 2] != _LINE_END:
                raise HttpError(400, "malformed chunked encoding")
            self._take(bytes(pending[first:last]))
            del pending[: last + 2]

    def _read_trailer(self, start: int) -> bool:
        # Trailers say nothing that a reader of whole bodies could use.
        end = self._pending.find(_HEAD_END, start)
        if end < 0:
            if len(self._pending) > self._limits.head_bytes:
                raise HttpError(431)
            return False
        del self._pending[: end + 4]
        return True


def _parsed(text: str) -> HttpRequest:
    first, *lines = text.split("\r\n")
    start = _FIRST_LINE.fullmatch(first)
    if start is None:
        if first.rpartition(" ")[2].startswith("HTTP/") and not first.endswith(
            ("HTTP/1.0", "HTTP/1.1")
        ):
            raise HttpError(505)
        raise HttpError(400)
    method, uri, minor = start.groups()
    headers = _headers(lines)
    is_old = minor == "0"
    if not is_old and "host" not in headers:
        raise HttpError(400, "missing required Host header")
    wishes = headers.get("connection", "").lower()
    is_last = "keep-alive" not in wishes if is_old else "close" in wishes
    return HttpRequest(method, uri, headers, b"", is_last)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise HttpError(400, "malformed header")
        name, value = found[1].lower(), found[2].rstrip(" \t")
        if name in headers:
            if name in {"host", "content-length", "transfer-encoding"}:
                if headers[name] != value or name != "content-length":
                    raise HttpError(400, f"too many {found[1]} headers")
            else:
                value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers
