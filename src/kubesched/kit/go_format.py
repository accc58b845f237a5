"""What Go's fmt makes of a text that was taken for a format.

Owns one rule: upstream hands the failure message of a pod to a formatter without arguments, so that
a percent sign in it is rendered as a verb that misses its argument.
Upstream: Go's fmt/print.go doPrintf, argNumber, parseArgNumber, parsenum
"""

from __future__ import annotations

_FLAGS = b"#0+- "
_NUMBER_MAX = 1_000_000


def go_format_without_args(text: str) -> str:
    """Return what fmt.Sprintf(text) returns."""
    if "%" not in text:
        return text
    return _Formatter(text.encode()).run().decode(errors="replace")


class _Formatter:
    """One pass over a format; there is never an argument, whichever is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._out = bytearray()
        self._is_good = True

    def run(self) -> bytes:
        """Return the text."""
        data = self._data
        while self._at < len(data):
            percent = data.find(b"%", self._at)
            if percent < 0:
                self._out += data[self._at :]
                break
            self._out += data[self._at : percent]
            self._at = percent + 1
            if not self._directive():
                break
        return bytes(self._out)

    def _directive(self) -> bool:
        """Write one directive; return whether there is more to come."""
        data = self._data
        self._is_good = True
        while self._at < len(data) and data[self._at] in _FLAGS:
            self._at += 1
        is_after_index = self._width(self._index())
        is_after_index = self._precision(is_after_index)
        if not is_after_index:
            self._index()
        if self._at >= len(data):
            self._out += b"%!(NOVERB)"
            return False
        verb = self._verb()
        if verb == b"%":
            self._out += verb
        else:
            self._out += b"%!" + verb + (b"(MISSING)" if self._is_good else b"(BADINDEX)")
        return True

    def _width(self, is_after_index: bool) -> bool:
        if self._peek() == b"*":
            self._at += 1
            self._out += b"%!(BADWIDTH)"
            return False
        has_width, self._at = _number(self._data, self._at, len(self._data))
        if is_after_index and has_width:
            self._is_good = False
        return is_after_index

    def _precision(self, is_after_index: bool) -> bool:
        if self._peek() != b"." or self._at + 1 >= len(self._data):
            return is_after_index
        self._at += 1
        if is_after_index:
            self._is_good = False
        is_after_index = self._index()
        if self._peek() == b"*":
            self._at += 1
            self._out += b"%!(BADPREC)"
            return False
        _, self._at = _number(self._data, self._at, len(self._data))
        return is_after_index

    def _index(self) -> bool:
        """Skip an index of an argument, which can only be a bad one; return whether it reads."""
        if self._peek() != b"[":
            return False
        self._is_good = False
        data, start = self._data, self._at
        close = data.find(b"]", start + 1)
        if len(data) - start < 3 or close < 0:
            self._at = start + 1
            return False
        self._at = close + 1
        is_number, end = _number(data, start + 1, close)
        return is_number and end == close

    def _verb(self) -> bytes:
        rest = self._data[self._at : self._at + 4]
        for size in range(1, len(rest) + 1):
            try:
                rest[:size].decode()
            except UnicodeDecodeError:
                continue
            self._at += size
            return rest[:size]
        self._at += 1
        return "\ufffd".encode()

    def _peek(self) -> bytes:
        return self._data[self._at : self._at + 1]


def _number(data: bytes, start: int, end: int) -> tuple[bool, int]:
    """Return whether there is a number, and where it ends; the very end for one too large."""
    if start >= end:
        return False, end
    value, at = 0, start
    while at < end and 0x30 <= data[at] <= 0x39:
        if value > _NUMBER_MAX:
            return False, end
        value = value * 10 + data[at] - 0x30
        at += 1
    return at > start, at
