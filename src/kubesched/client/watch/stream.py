"""Decoding of list and watch responses while they arrive.

Owns the splitting into lines and items, and their decoding. Never sends a request, and never
compares objects: reflector and changes do.
Upstream: staging/src/k8s.io/apimachinery/pkg/watch/streamwatcher.go,
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/collections.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import msgspec

from kubesched.api.decode import decode_as
from kubesched.api.errors import MalformedObject
from kubesched.api.meta import ObjectMeta
from kubesched.api.wire import Wire
from kubesched.client.errors import TransportError, error_of_status

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

# The exceptions of decoding malformed JSON.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)

_CHANGES: Final = frozenset((ADDED, MODIFIED, DELETED))
_OPENINGS: Final = {type_: f'{{"type":"{type_}","object":'.encode() for type_ in _CHANGES}
_ITEMS: Final = b'"items":['
_FIRST_KEY_BYTES_MAX: Final = 256
_ARRAYS: Final = msgspec.json.Decoder(list[msgspec.Raw])


class StreamingClient(Protocol):
    """Opens streams, as client.rest's Client does."""

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class Event(msgspec.Struct, gc=False):
    """One event of a watch, or one item of a list."""

    type: str
    object: Any
    """None if it cannot be decoded."""
    metadata: ObjectMeta
    problem: str = ""
    """Why it cannot be decoded."""


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Headed(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


_RAW_EVENTS: Final = msgspec.json.Decoder(_RawEvent)


class LineSplitter:
    """Splits chunks into lines; a line is copied at most twice."""

    __slots__ = ("_partial",)

    def __init__(self) -> None:
        self._partial: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add bytes; return the complete lines without their ends."""
        lines, partial = chunk.split(b"\n"), self._partial
        if len(lines) == 1:
            partial.append(chunk)
            return []
        if partial:
            partial.append(lines[0])
            lines[0] = b"".join(partial)
        last = lines.pop()
        self._partial = [last] if last else []
        return lines


class ObjectDecoder:
    """Decodes events and items of one resource into a struct of kubesched.api or a dict."""

    def __init__(self, cls: type) -> None:
        self._cls = cls if issubclass(cls, Wire) else None
        event = msgspec.defstruct("TypedEvent", [("type", str), ("object", cls)], gc=False)
        self._events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event)
        self._items: msgspec.json.Decoder[Any] = msgspec.json.Decoder(cls)

    def event(self, line: bytes) -> Event:
        """Return the event of a line; ApiError for an ERROR, TransportError for malformed JSON."""
        if self._cls is not None:
            try:
                event = self._events.decode(line)
            except UNREADABLE:
                return self._other_event(line)
            if event.type in _CHANGES:
                obj = event.object
                return Event(event.type, obj, obj.metadata)
        return self._other_event(line)

    def item(self, raw: msgspec.Raw) -> Event:
        """Return an item of a list as an ADDED event."""
        if self._cls is not None:
            try:
                obj = self._items.decode(raw)
            except UNREADABLE:
                return self._other_object(ADDED, raw)
            return Event(ADDED, obj, obj.metadata)
        return self._other_object(ADDED, raw)

    def _other_event(self, line: bytes) -> Event:
        """Decode other events, dicts, objects with unexpected nulls, and malformed JSON."""
        try:
            event = _RAW_EVENTS.decode(line)
            if event.type != ERROR:
                return self._other_object(event.type, event.object)
            error = error_of_status(bytes(event.object))
        except UNREADABLE as problem:
            raise TransportError(f"unable to decode watch event: {problem}") from problem
        raise error

    def _other_object(self, type_: str, raw: msgspec.Raw) -> Event:
        metadata = _meta_in(raw)
        if type_ not in _CHANGES:
            return Event(type_, None, metadata)
        try:
            if self._cls is not None:
                return Event(type_, decode_as(self._cls, raw), metadata)
            return Event(type_, msgspec.json.decode(raw, type=dict[str, Any]), metadata)
        except (MalformedObject, *UNREADABLE) as problem:
            return Event(type_, None, metadata, str(problem))


def raw_object(type_: str, line: bytes) -> bytes:
    """Return a copy of the JSON of an event's object."""
    opening = _OPENINGS[type_]
    # The form that API servers write; any other form is decoded.
    if line.startswith(opening) and line.endswith(b"}}"):
        return line[len(opening) : -1]
    return bytes(_RAW_EVENTS.decode(line).object)


def _meta_in(raw: msgspec.Raw) -> ObjectMeta:
    try:
        return decode_as(_Headed, raw).metadata
    except MalformedObject as problem:
        raise TransportError(f"unable to understand watch event: {problem}") from problem


class ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """The metadata of a list."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """The end of a list."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


_PAGES: Final = msgspec.json.Decoder(ListPage)


class ListBody:
    """Splits the bytes of one list into items, without holding the whole list.

    The end of an item is guessed and then verified: `},` followed by the first bytes of the first
    item is most likely a border between items, and certainly one if everything before it is valid
    JSON. Quotation marks inside strings are escaped, so that no string contains a border, and a
    border inside an item leaves brackets open before it. If no guess holds (other spacing, or items
    that begin differently), items come later, at worst all at the end, but never wrong.
    """

    __slots__ = ("_border", "_buffer", "_head", "_searched")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head = b""
        """The bytes before the items, with the opening bracket."""
        self._border = b""
        self._searched = 0

    def feed(self, chunk: bytes) -> list[msgspec.Raw]:
        """Add bytes; return the complete items."""
        self._buffer += chunk
        if not self._head and not self._has_head():
            return []
        if not self._border and not self._has_border():
            return []
        return self._cut()

    def finish(self) -> ListPage:
        """Return the remaining items and the metadata; msgspec.DecodeError if truncated."""
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
                pass  # A border inside an item, which is rare; a later one will hold.
        self._searched = len(buffer)
        return items
