"""Changes of one resource: watch events and list items, reported to a sink exactly once, in order.

Owns the record of a change, uid and version of every reported object in about 250 bytes each, and
yielding to the event loop during long lists. Never holds an object, and never sends a request.
Upstream: staging/src/k8s.io/client-go/tools/cache/{the_real_fifo,delta_fifo,store}.go
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.client.resources import Resource
from kubesched.client.watch.stream import ADDED, DELETED, MODIFIED, Event, ObjectDecoder, raw_object
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

_SLICE_S: Final = 0.002

KeepRaw = bool | Callable[[Any], bool]


class LoopTurn:
    """Awaiting it yields to the event loop once."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


class ChangeTracker:
    """Compares objects with the reported ones, and reports the changes."""

    def __init__(
        self,
        resource: Resource,
        sink: Callable[[Change], None],
        *,
        decode: type,
        keep_raw: KeepRaw,
        clock: Clock,
        log: Log,
    ) -> None:
        self._resource = resource
        self._sink = sink
        self._decoder = ObjectDecoder(decode)
        self._keep_raw = keep_raw
        self._clock = clock
        self._log = log
        self._known = KnownObjects()
        self._yielded_s = clock.monotonic_s()
        self.is_initial = True
        """Whether the initial objects are not completely reported yet."""
        self.newest = 0
        """The highest object version of the last pass."""

    def begin_pass(self) -> None:
        """Begin a pass, and abandon an active one."""
        self._known.begin_pass()
        self.newest = 0

    def abandon_pass(self) -> None:
        """Abandon a pass; reported objects stay reported."""
        self._known.abandon_pass()

    async def end_pass(self) -> None:
        """End a pass: report the objects that it did not contain as deleted."""
        for key, uid in self._known.end_pass():
            self._report(DELETED, key, uid, None)
            if self.is_due():
                await self.yield_to_loop()

    async def report_items(self, items: list[msgspec.Raw]) -> None:
        """Report the new and changed items of a list."""
        decode = self._decoder.item
        for raw in items:
            self._put(decode(raw), raw)
            if self.is_due():
                await self.yield_to_loop()

    def report_line(self, line: bytes) -> Event:
        """Report the event of a watch line, and return it; ApiError for an ERROR event."""
        event = self._decoder.event(line)
        if event.type in (ADDED, MODIFIED):
            self._put(event, line)
        elif event.type == DELETED:
            self._remove(event, line)
        return event

    def is_due(self) -> bool:
        """Return whether it is time to yield to the event loop."""
        return self._clock.monotonic_s() - self._yielded_s >= _SLICE_S

    async def yield_to_loop(self) -> None:
        """Yield to the event loop.

        Buffered bytes are read without suspending, so that a long list would block the loop.
        """
        await LoopTurn()
        self._yielded_s = self._clock.monotonic_s()

    def _put(self, event: Event, source: bytes | msgspec.Raw) -> None:
        meta, obj = event.metadata, event.object
        if obj is None:
            self._log.error(
                "Unable to understand watch event",
                err=event.problem,
                namespace=meta.namespace,
                name=meta.name,
                resourceVersion=meta.resource_version,
            )
            return
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        uid, version = meta.uid, meta.resource_version
        type_, replaced_uid = self._known.put(key, uid, version)
        if self._known.is_in_pass and (number := version_number(version)) > self.newest:
            self.newest = number
        if replaced_uid:
            self._report(DELETED, key, replaced_uid, None)
        if type_:
            self._report(type_, key, uid, obj, self._raw(event, source))

    def _remove(self, event: Event, source: bytes) -> None:
        meta = event.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        # An unknown or replaced object has been reported as deleted before.
        if self._known.uid_of(key) != meta.uid:
            return
        self._known.remove(key)
        raw = b"" if event.object is None else self._raw(event, source)
        self._report(DELETED, key, meta.uid, event.object, raw)

    def _raw(self, event: Event, source: bytes | msgspec.Raw) -> bytes:
        keep = self._keep_raw
        if not (keep(event.object) if callable(keep) else keep):
            return b""
        # Always a copy: a view would keep its whole page alive.
        return raw_object(event.type, source) if isinstance(source, bytes) else bytes(source)

    def _report(self, type_: str, key: str, uid: str, obj: Any, raw: bytes = b"") -> None:
        self._sink(Change(self._resource, type_, key, uid, obj, raw, self.is_initial))


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 if it is not one."""
    return int(version) if version.isdecimal() else 0


@dataclass(slots=True)
class Change:
    """One object that was added, changed or deleted."""

    resource: Resource
    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    key: str
    uid: str
    object: Any
    """Its new or last state: a struct of kubesched.api, or a dict for a resource without one. None
    for a deletion that a list implied."""
    raw: bytes = b""
    """The JSON of the object, if it is kept."""
    initial: bool = False
    """Whether it belongs to the initial objects."""


class KnownObjects:
    """Uid and version of every reported object, by key.

    A *pass* is a list of all objects: those that it does not confirm are deleted when it ends.
    """

    __slots__ = ("_confirmed", "_entries")

    def __init__(self) -> None:
        # Uid and version as one string: a tuple takes twice the memory.
        self._entries: dict[str, str] = {}
        self._confirmed: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self._entries) + len(self._confirmed or ())

    @property
    def is_in_pass(self) -> bool:
        """Return whether a pass is active."""
        return self._confirmed is not None

    def begin_pass(self) -> None:
        """Begin a pass, and abandon an active one."""
        self.abandon_pass()
        self._confirmed = {}

    def abandon_pass(self) -> None:
        """Abandon a pass; unconfirmed objects stay known."""
        if self._confirmed is not None:
            self._entries.update(self._confirmed)
            self._confirmed = None

    def end_pass(self) -> Iterator[tuple[str, str]]:
        """End a pass; forget the unconfirmed objects, and yield their keys and uids."""
        assert self._confirmed is not None
        gone, self._entries, self._confirmed = self._entries, self._confirmed, None
        for key, entry in gone.items():
            yield key, _uid_in(entry)

    def put(self, key: str, uid: str, version: str) -> tuple[str, str]:
        """Record an object; return ADDED, MODIFIED or nothing, and the uid of a replaced object.

        An older version is ignored except in a pass: a list is current even if the server was
        restored to an older state.
        """
        entry = f"{uid} {version}"
        entries, confirmed = self._entries, self._confirmed
        if confirmed is not None:
            old = entries.pop(key, None) or confirmed.get(key)
            confirmed[key] = entry
        else:
            old = entries.get(key)
            if old is not None and is_older(version, old.rpartition(" ")[2]):
                return "", ""
            entries[key] = entry
        if old is None:
            return ADDED, ""
        if old == entry:
            return "", ""
        old_uid = _uid_in(old)
        return (MODIFIED, "") if old_uid == uid else (ADDED, old_uid)

    def uid_of(self, key: str) -> str | None:
        """Return the uid of a known key; not in a pass."""
        entry = self._entries.get(key)
        return None if entry is None else _uid_in(entry)

    def remove(self, key: str) -> None:
        """Forget an object; not in a pass."""
        del self._entries[key]


def is_older(version: str, than: str) -> bool:
    """Return whether a resourceVersion is lower than another, if both are numbers."""
    # Parity: apimachinery/pkg/util/resourceversion CompareResourceVersion, v1.36: by length first.
    return version.isdecimal() and than.isdecimal() and (len(version), version) < (len(than), than)


def _uid_in(entry: str) -> str:
    return entry.rpartition(" ")[0]
