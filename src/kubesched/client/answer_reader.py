"""One HTTP/1.1 answer at a time, read from the bytes of a connection.

Owns where an answer ends and what its head says. Never does I/O and never decides what an answer
means.
Upstream: Go's net/http/response.go ReadResponse, net/http/transfer.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from multidict import CIMultiDict

_HEAD_BYTES_MAX: Final = 256 << 10
_LINE_BYTES_MAX: Final = 4096
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?=[ \r]|\Z)")
_FIELD: Final = re.compile(r"\r\n([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*)")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})[ \t]*(?=\r\n|\Z)")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class AnswerError(Exception):
    """What came is no answer, or not the whole of one."""


class Headers(Mapping[str, str]):
    """The fields of a head, taken apart when one is asked for: of most answers nobody does.

    Whether a field is there is seen in the bytes: a line that begins with its name is it.
    """

    __slots__ = ("_fields", "_head", "_lowered")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._lowered = head.lower()
        self._fields: CIMultiDict[str] | None = None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and f"\r\n{name.lower()}:".encode() in self._lowered

    def __getitem__(self, name: str) -> str:
        return self.check()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.check())

    def __len__(self) -> int:
        return len(self.check())

    def check(self) -> CIMultiDict[str]:
        """Take the head apart; AnswerError if it is none."""
        if self._fields is None:
            head = self._head.decode("latin-1")
            found: list[tuple[str, str]] = _FIELD.findall(head)
            if len(found) != head.count("\r\n"):
                raise AnswerError(f"malformed HTTP response {head[:80]!r}")
            self._fields = CIMultiDict(found)
        return self._fields

    def says(self, name: str, word: str) -> bool:
        """Return whether a field has a word in its list."""
        listed = ",".join(self.check().getall(name, [])).split(",")
        return any(one.strip(" \t").lower() == word for one in listed)

    def plain_length(self) -> int | None:
        """Return the length of the body, if that is all the head says of it and the connection."""
        lowered = self._lowered
        if b"\r\ntransfer-encoding" in lowered or b"\r\nconnection" in lowered:
            return None
        shown = _LENGTH.search(lowered)
        if shown is None or lowered.count(b"\r\ncontent-length") != 1:
            return None
        return int(shown[1])

    def length(self) -> int:
        """Return the length of the body; AnswerError if it is none, or said twice differently."""
        shown = _LENGTH.findall(self._lowered)
        if len(set(shown)) != 1 or len(shown) != len(self.check().getall("Content-Length")):
            raise AnswerError("bad Content-Length")
        return int(shown[0])


class _Part(Enum):
    """What comes next."""

    HEAD = "head"
    LENGTH = "length"
    """A body whose length is known."""
    SIZE = "size"
    """The size of the next piece of a body."""
    PIECE = "piece"
    PIECE_END = "piece end"
    TRAILERS = "trailers"
    REST = "rest"
    """A body that ends with the connection."""
    NOTHING = "nothing"


class AnswerReader:
    """Reads the answers of one connection."""

    __slots__ = ("_buffer", "_left", "_part", "_pieces", "body", "headers", "is_kept", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers = Headers(b"")
        self.body = b""
        self.is_kept = True
        """Whether the connection can be used for another request."""
        self._buffer = b""
        self._left = 0
        self._part = _Part.NOTHING
        self._pieces: list[bytes] = []

    def begin(self) -> None:
        """Expect the answer to a request."""
        self._part = _Part.HEAD
        self.body = b""
        self._pieces = []

    def feed(self, data: bytes) -> bool:
        """Take more bytes; return whether the answer is whole. AnswerError if it is none."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._step():
            pass
        if self._part is not _Part.NOTHING:
            return False
        if self._buffer:
            # Nobody asked for more: whatever it is, it belongs to no request of ours.
            self._buffer = b""
            self.is_kept = False
        return True

    def end(self) -> None:
        """Say that the connection has ended; AnswerError if something is missing."""
        self.is_kept = False
        if self._part is not _Part.REST:
            raise AnswerError("unexpected EOF")
        self._finish(self._buffer)

    def _step(self) -> bool:
        """Read one part; return whether the next may be there, too."""
        match self._part:
            case _Part.HEAD:
                return self._read_head()
            case _Part.LENGTH:
                return self._read_length()
            case _Part.SIZE:
                return self._read_size()
            case _Part.PIECE:
                return self._read_piece()
            case _Part.PIECE_END:
                return self._read_piece_end()
            case _Part.TRAILERS:
                return self._read_trailer()
            case _:
                return False

    def _finish(self, body: bytes) -> None:
        self.body = body
        self._buffer = b""
        self._part = _Part.NOTHING

    # -- the head ---------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                raise AnswerError("the head of the answer is too long")
            return False
        head = self._buffer[:end]
        self._buffer = self._buffer[end + 4 :]
        began = _STATUS.match(head)
        if began is None:
            raise AnswerError(f"malformed HTTP response {head[:80]!r}")
        self.status = int(began[2])
        if self.status < 200:
            # Only that the answer will come; what it says is not ours to use.
            if self.status == 101:
                raise AnswerError("the server changed the protocol")
            return True
        self.headers = headers = Headers(head)
        self.is_kept = began[1] == b"1"
        length = headers.plain_length()
        if length is None or self.status in (204, 304):
            self._begin_body(headers)
        else:
            self._left = length
            self._part = _Part.LENGTH
        return self._part is not _Part.NOTHING

    def _begin_body(self, headers: Headers) -> None:
        """Find out where a body ends that is not simply some bytes long."""
        headers.check()
        if headers.says("Connection", "close"):
            self.is_kept = False
        if self.status in (204, 304):
            self._part = _Part.NOTHING
        elif "Transfer-Encoding" in headers:
            if not headers.says("Transfer-Encoding", "chunked"):
                raise AnswerError(f"unsupported transfer encoding {headers['Transfer-Encoding']!r}")
            # Who gives a length as well is not to be relied on any further.
            self.is_kept = self.is_kept and "Content-Length" not in headers
            self._part = _Part.SIZE
        elif "Content-Length" in headers:
            self._left = headers.length()
            self._part = _Part.LENGTH
        else:
            self.is_kept = False
            self._part = _Part.REST

    # -- the body ---------------------------------------------------------------------------------

    def _read_length(self) -> bool:
        have = len(self._buffer)
        if have < self._left:
            # Joined once, when all is there.
            self._pieces.append(self._buffer)
            self._left -= have
            self._buffer = b""
            return False
        last, rest = self._buffer[: self._left], self._buffer[self._left :]
        self._finish(b"".join((*self._pieces, last)) if self._pieces else last)
        self._buffer = rest
        return False

    def _line(self) -> bytes | None:
        """Return the next line of what frames a body, without its end."""
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _LINE_BYTES_MAX:
                raise AnswerError("a line of the answer is too long")
            return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _read_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _SIZE.fullmatch(line)
        if size is None:
            raise AnswerError("invalid byte in chunk length")
        self._left = int(size[1], 16)
        self._part = _Part.PIECE if self._left else _Part.TRAILERS
        return True

    def _read_piece(self) -> bool:
        have = len(self._buffer)
        if have < self._left:
            self._pieces.append(self._buffer)
            self._left -= have
            self._buffer = b""
            return False
        self._pieces.append(self._buffer[: self._left])
        self._buffer = self._buffer[self._left :]
        self._part = _Part.PIECE_END
        return True

    def _read_piece_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise AnswerError("malformed chunked encoding")
        self._buffer = self._buffer[2:]
        self._part = _Part.SIZE
        return True

    def _read_trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if line:
            return True
        rest = self._buffer
        self._finish(b"".join(self._pieces))
        self._buffer = rest
        return False
