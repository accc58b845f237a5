"""One watch: from the bytes of a stream to events.

Owns the splitting into lines, the decoding of events and of listed items, and the request that a
stream is. Never decides what an event means for what is known, and never asks twice: reflector
does.
Upstream: staging/src/k8s.io/apimachinery/pkg/watch/streamwatcher.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Final, Protocol

import msgspec

from kubesched.client.errors import TransportError, error_of_status
from kubesched.objects.decode import decode_as
from kubesched.objects.errors import MalformedObject
from kubesched.objects.meta import ObjectMeta
from kubesched.objects.wire import Wire

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

# What reading bytes that are no JSON of ours can raise.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)

_CHANGES: Final = frozenset((ADDED, MODIFIED, DELETED))
_OPENINGS: Final = {one: f'{{"type":"{one}","object":'.encode() for one in sorted(_CHANGES)}


class StreamingClient(Protocol):
    """What can open a stream: client.rest's Client."""

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
    """None where it could not be read."""
    metadata: ObjectMeta
    problem: str = ""
    """Why it could not be read."""


class _RawEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Headed(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


_RAW_EVENTS: Final = msgspec.json.Decoder(_RawEvent)


class LineSplitter:
    """Cuts chunks into lines; a line is copied at most twice, however many chunks it spans."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take more bytes; return the lines that are complete, without their ends."""
        lines = chunk.split(b"\n")
        begun = self._begun
        if len(lines) == 1:
            begun.append(chunk)
            return []
        if begun:
            begun.append(lines[0])
            lines[0] = b"".join(begun)
        last = lines.pop()
        self._begun = [last] if last else []
        return lines


class ObjectDecoder:
    """Reads events and items of one kind, into a struct of kubesched.objects or into a dict."""

    def __init__(self, cls: type) -> None:
        self._cls = cls if issubclass(cls, Wire) else None
        event = msgspec.defstruct("TypedEvent", [("type", str), ("object", cls)], gc=False)
        self._events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event)
        self._items: msgspec.json.Decoder[Any] = msgspec.json.Decoder(cls)

    def event(self, line: bytes) -> Event:
        """Return the event of a line; ApiError for an ERROR, TransportError for what is no JSON."""
        if self._cls is not None:
            try:
                event = self._events.decode(line)
            except UNREADABLE:
                return self._seldom_event(line)
            if event.type in _CHANGES:
                shown = event.object
                return Event(event.type, shown, shown.metadata)
        return self._seldom_event(line)

    def item(self, raw: msgspec.Raw) -> Event:
        """Return an item of a list, as if it had been added."""
        if self._cls is not None:
            try:
                shown = self._items.decode(raw)
            except UNREADABLE:
                return self._seldom_object(ADDED, raw)
            return Event(ADDED, shown, shown.metadata)
        return self._seldom_object(ADDED, raw)

    def _seldom_event(self, line: bytes) -> Event:
        """Read what is no change, is a dict, has nulls where no struct has them, or is no JSON."""
        try:
            event = _RAW_EVENTS.decode(line)
            if event.type != ERROR:
                return self._seldom_object(event.type, event.object)
            error = error_of_status(bytes(event.object))
        except UNREADABLE as problem:
            raise TransportError(f"unable to decode watch event: {problem}") from problem
        raise error

    def _seldom_object(self, type_: str, raw: msgspec.Raw) -> Event:
        metadata = _meta_in(raw)
        if type_ not in _CHANGES:
            return Event(type_, None, metadata)
        try:
            if self._cls is not None:
                return Event(type_, decode_as(self._cls, raw), metadata)
            return Event(type_, msgspec.json.decode(raw, type=dict[str, Any]), metadata)
        except (MalformedObject, *UNREADABLE) as problem:
            return Event(type_, None, metadata, str(problem))


class EventStream:
    """One watch that is open: batches of lines, and a way to end it."""

    __slots__ = ("_chunks", "_held", "_splitter", "_stack", "event_count")

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._chunks: AsyncIterator[bytes] | None = None
        self._splitter = LineSplitter()
        self._held: list[bytes] = []
        self.event_count = 0

    async def open(
        self,
        client: StreamingClient,
        path: str,
        query: Mapping[str, str | int | bool],
        *,
        idle_timeout_s: float,
    ) -> None:
        """Send the request; ApiError, TransportError."""
        opening = client.stream(path, query=query, idle_timeout_s=idle_timeout_s)
        self._chunks = await self._stack.enter_async_context(opening)

    async def lines(self) -> list[bytes] | None:
        """Return the next lines; None when the stream has ended. A line cut short never comes."""
        if self._held:
            held, self._held = self._held, []
            return held
        assert self._chunks is not None
        async for chunk in self._chunks:
            if lines := self._splitter.feed(chunk):
                return lines
        return None

    def hold(self, lines: list[bytes]) -> None:
        """Give lines back that were not used; they come first next time."""
        self._held = lines

    async def close(self) -> None:
        """End the stream."""
        await self._stack.aclose()


def raw_object(type_: str, line: bytes) -> bytes:
    """Return a copy of the JSON of an event's object."""
    opening = _OPENINGS[type_]
    # What API servers write; anything else that is an event takes the longer road.
    if line.startswith(opening) and line.endswith(b"}}"):
        return line[len(opening) : -1]
    return bytes(_RAW_EVENTS.decode(line).object)


def _meta_in(raw: msgspec.Raw) -> ObjectMeta:
    try:
        return decode_as(_Headed, raw).metadata
    except MalformedObject as problem:
        raise TransportError(f"unable to understand watch event: {problem}") from problem
