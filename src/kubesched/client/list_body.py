"""A list as it comes in: its items before its end is there.

Owns the taking apart of a list's JSON while it is being received, so that neither memory nor the
event loop ever holds all of it. Never decodes an item, never does I/O.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/collections.go
"""

from __future__ import annotations

from typing import Final

import msgspec

_ITEMS: Final = b'"items":['
_FIRST_KEY_BYTES_MAX: Final = 256


class ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """What a list says of itself."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """The end of a list."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


_ARRAYS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_PAGES: Final = msgspec.json.Decoder(ListPage)


class ListBody:
    """Takes the bytes of one list, gives its items back.

    Where an item ends is guessed and then proved: the text `},` followed by the beginning that the
    first item has is most likely a border between items, and it is one if all before it is valid
    JSON. A quotation mark within a text is always escaped, so that no text can hold a border, and
    a border within an item leaves brackets open before it. Where no guess holds (other spacing, or
    items that begin differently) items come later, at worst all at the end, but never wrong.
    """

    __slots__ = ("_border", "_buffer", "_head", "_searched")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head = b""
        """What came before the items, with the bracket that opens them."""
        self._border = b""
        self._searched = 0

    def feed(self, chunk: bytes) -> list[msgspec.Raw]:
        """Take more bytes; return the items that are complete."""
        self._buffer += chunk
        if not self._head and not self._has_head():
            return []
        if not self._border and not self._has_border():
            return []
        return self._cut()

    def finish(self) -> ListPage:
        """Return the items that are left, and the metadata; msgspec.DecodeError if it broke off."""
        document = self._head + bytes(self._buffer)
        self._buffer.clear()
        return _PAGES.decode(document)

    def _has_head(self) -> bool:
        place = self._buffer.find(_ITEMS, self._searched)
        if place < 0:
            self._searched = max(0, len(self._buffer) - len(_ITEMS) + 1)
            return False
        end = place + len(_ITEMS)
        self._head = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._searched = 0
        return True

    def _has_border(self) -> bool:
        place = self._buffer.find(b'":', 0, _FIRST_KEY_BYTES_MAX)
        if place < 0 or not self._buffer.startswith(b'{"'):
            return False
        self._border = b"}," + bytes(self._buffer[: place + 2])
        return True

    def _cut(self) -> list[msgspec.Raw]:
        buffer, border = self._buffer, self._border
        place = buffer.rfind(border, max(0, self._searched - len(border) + 1))
        items: list[msgspec.Raw] = []
        if place >= 0:
            try:
                items = _ARRAYS.decode(b"".join((b"[", memoryview(buffer)[: place + 1], b"]")))
                del buffer[: place + 2]
            except msgspec.DecodeError:
                pass  # A border within an item, which is seldom: a later one will hold.
        self._searched = len(buffer)
        return items
