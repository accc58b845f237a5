"""From what an API server shows to what a sink is told: each change once, in order.

Owns the comparison of events and lists with what was told before, the copies of JSON that are
kept, and giving way to others while much is told. Never asks a server: reflector does.
Upstream: staging/src/k8s.io/client-go/tools/cache/the_real_fifo.go
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from kubesched.client.change import Change
from kubesched.client.known_objects import KnownObjects, News
from kubesched.client.resources import Resource
from kubesched.client.watch import ADDED, DELETED, MODIFIED, Event, ObjectDecoder, raw_object
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

_SLICE_S: Final = 0.002

KeepRaw = bool | Callable[[Any], bool]


class Turn:
    """One turn of the event loop for everybody else."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


class Mirror:
    """What was told of one kind, and the telling of the rest."""

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
        self._gave_way_s = clock.monotonic_s()
        self.is_initial = True
        """Whether everything there is has yet to be told for the first time."""
        self.newest = 0
        """The highest version of an object that was shown in the last pass."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_in_pass(self) -> bool:
        """Return whether a look at everything is under way."""
        return self._known.is_in_pass

    def begin_pass(self) -> None:
        """Begin a look at everything, instead of one that is under way."""
        self._known.begin_pass()
        self.newest = 0

    def abandon_pass(self) -> None:
        """Give up a look at everything; what was told stays told."""
        self._known.abandon_pass()

    async def end_pass(self) -> None:
        """Tell what is gone: what a look at everything did not show."""
        for key, uid in self._known.end_pass():
            self._tell(DELETED, key, uid, None)
            await self.give_way()

    async def tell_items(self, items: list[msgspec.Raw]) -> None:
        """Tell what items of a list are new or changed."""
        decode = self._decoder.item
        for raw in items:
            self._put(decode(raw), raw)
            if self.is_due():
                await self.give_way()

    def tell_line(self, line: bytes) -> Event:
        """Tell what the line of a watch says, and return it; ApiError if it says ERROR."""
        event = self._decoder.event(line)
        if event.type in (ADDED, MODIFIED):
            self._put(event, line)
        elif event.type == DELETED:
            self._remove(event, line)
        return event

    def is_due(self) -> bool:
        """Return whether others have waited long enough."""
        return self._clock.monotonic_s() - self._gave_way_s >= _SLICE_S

    async def give_way(self) -> None:
        """Let others run if they have waited long enough.

        Bytes that have come already are read without waiting, so that a long list would keep the
        event loop to itself.
        """
        if self.is_due():
            await Turn()
            self._gave_way_s = self._clock.monotonic_s()

    def _put(self, event: Event, source: bytes | msgspec.Raw) -> None:
        meta, shown = event.metadata, event.object
        if shown is None:
            self._say_unreadable(event)
            return
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        uid, version = meta.uid, meta.resource_version
        news, old_uid = self._known.put(key, uid, version)
        if self._known.is_in_pass and (number := version_number(version)) > self.newest:
            self.newest = number
        if news is News.SAME or news is News.OLDER:
            return
        if news is News.REPLACED:
            self._tell(DELETED, key, old_uid, None)
        type_ = MODIFIED if news is News.CHANGED else ADDED
        self._tell(type_, key, uid, shown, self._raw(event, source))

    def _remove(self, event: Event, source: bytes) -> None:
        meta = event.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        # Who is not known, or is known as somebody else by now, has been told gone before.
        if self._known.uid_of(key) != meta.uid:
            return
        self._known.remove(key)
        raw = b"" if event.object is None else self._raw(event, source)
        self._tell(DELETED, key, meta.uid, event.object, raw)

    def _raw(self, event: Event, source: bytes | msgspec.Raw) -> bytes:
        keep = self._keep_raw
        if not (keep(event.object) if callable(keep) else keep):
            return b""
        # Always a copy of its own: a view would keep the page alive in which it came.
        return raw_object(event.type, source) if isinstance(source, bytes) else bytes(source)

    def _tell(self, type_: str, key: str, uid: str, shown: Any, raw: bytes = b"") -> None:
        self._sink(Change(self._resource, type_, key, uid, shown, raw, self.is_initial))

    def _say_unreadable(self, event: Event) -> None:
        """Say of which object there is no news, because what the server sent does not fit."""
        meta = event.metadata
        self._log.error(
            "Unable to understand watch event",
            err=event.problem,
            namespace=meta.namespace,
            name=meta.name,
            resourceVersion=meta.resource_version,
        )


def version_number(version: str) -> int:
    """Return a resourceVersion as a number; 0 for one that is none."""
    return int(version) if version.isdecimal() else 0
