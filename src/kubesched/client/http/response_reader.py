"""Parses HTTP/1.1 responses of one connection, with httptools.

Owns the limits on a response and whether its connection can be reused. Never does I/O and never
interprets a response.
Upstream: Go's net/http/response.go ReadResponse, net/http/transfer.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from multidict import CIMultiDict

_HEAD_BYTES_MAX: Final = 256 << 10


class ResponseError(Exception):
    """A malformed or incomplete response."""


class ResponseReader:
    """Parses one response after another; httptools calls the methods that begin with `on_`."""

    __slots__ = (
        "_chunks",
        "_fields",
        "_head_bytes",
        "_is_awaited",
        "_is_in_body",
        "_parser",
        "body",
        "headers",
        "is_kept",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = b""
        self.is_kept = True
        """Whether the connection can be used for another request."""
        self._parser = HttpResponseParser(self)
        # A response with both a length and chunks is read, but the connection is not reused.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True)
        self._is_awaited = False
        self._is_in_body = False
        self._head_bytes = 0
        self._fields: list[tuple[str, str]] = []
        self._chunks: list[bytes] = []

    def begin(self) -> None:
        """Expect the response to a request."""
        self._is_awaited = True
        self._head_bytes = 0

    def feed(self, data: bytes) -> bool:
        """Parse more bytes; return whether the response is complete, ResponseError if malformed."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise ResponseError("the server changed the protocol") from None
        except HttpParserError as error:
            if self._is_awaited:
                cause = error.__context__
                if isinstance(cause, ResponseError):
                    raise cause from None
                raise ResponseError(f"malformed HTTP response: {error}") from error
            # Bytes after the response belong to no request.
            self.is_kept = False
        if self._is_awaited and not self._is_in_body:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX:
                raise ResponseError("the head of the response is too long")
        return not self._is_awaited

    def end(self) -> None:
        """Handle the end of the connection; ResponseError if the response is incomplete."""
        self.is_kept = False
        is_framed = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        if is_framed or not self._is_in_body:
            raise ResponseError("unexpected EOF")
        self.on_message_complete()

    # -- callbacks of httptools -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start a response, possibly after an interim one."""
        if not self._is_awaited:
            self.is_kept = False
        self._fields = []
        self._chunks = []
        self._is_in_body = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, or a trailer that nothing reads."""
        self._fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Take the status and the headers."""
        if not self._is_awaited:
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            return
        self._is_in_body = True
        self.headers = headers = CIMultiDict(self._fields)
        self.is_kept = self._parser.should_keep_alive()
        coding = headers.get("Transfer-Encoding")
        if coding is not None:
            if coding.lower() != "chunked":
                raise ResponseError(f"unsupported transfer encoding {coding!r}")
            if "Content-Length" in headers:
                self.is_kept = False

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        """Finish the response, unless it is an interim one."""
        if not self._is_awaited or not self._is_in_body:
            return
        chunks = self._chunks
        self.body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._is_awaited = self._is_in_body = False
