"""Watch: a watcher and its queue of events.

Never writes to a socket: the server takes encoded events from the queue.
Upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/{cacher,cache_watcher}.go
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kubesched.cluster.apiserver.errors import ApiError, expired
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.storage.watch_cache import (
    Change,
    ChangeType,
    Entry,
    History,
    TooOldError,
)
from kubesched.cluster.apiserver.verbs.context import Context
from kubesched.cluster.apiserver.verbs.list_options import ListOptions, parse_version

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_BACKLOG_BYTES_MAX: Final = 32 * 1024 * 1024
_TIMEOUT_S_MIN: Final = 1800
_LEFT: Final = "LEFT"


class Rendering(Protocol):
    """Encodes events."""

    key: str
    """Cache key: renderings with the same key encode events in the same way."""

    def frame(self, kind: str, entry: Entry) -> bytes:
        """Return a watch event, encoded."""

    def frame_as_of(self, kind: str, entry: Entry, version: int) -> bytes:
        """Return an event whose object gets another resourceVersion, encoded."""

    def bookmark(self, version: int, *, ends_initial_events: bool) -> bytes:
        """Return a bookmark, encoded."""


class Watcher:
    """One watch; it is subscribed from construction until `close`."""

    def __init__(
        self,
        context: Context,
        resource: Resource,
        namespace: str,
        options: ListOptions,
        rendering: Rendering,
    ) -> None:
        options.check(is_watch=True)
        self._context = context
        self._options = options
        self._rendering = rendering
        self._prefix = f"{namespace}/" if namespace and resource.is_namespaced else ""
        self._selects_all = options.selects_all
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.is_closed = False
        self.has_overflowed = False
        self.when_overflowed: Callable[[], None] | None = None
        """Called when the queue is full, so that a slow client does not block writers."""
        self._history: History = context.bucket(resource).history
        self._initial: list[Entry] = []
        self._after = 0
        self.sends_bookmarks = options.sends_bookmarks
        self.timeout_s = float(options.timeout_s or _default_timeout_s(context))
        self._begin(context.bucket(resource).range(self._prefix))

    def _begin(self, entries: Iterator[Entry]) -> None:
        options, current = self._options, self._context.store.version
        version = _watch_version(options.version)
        has_initial = options.sends_initial_events
        if has_initial is None:
            has_initial = version == 0
        if has_initial:
            self._initial = [entry for entry in entries if self._selects(entry)]
        elif 0 < version < current:
            try:
                changes = self._history.since(version)
            except TooOldError as error:
                text = f"too old resource version: {version} ({error.oldest})"
                raise WatchExpiredError(expired(text)) from None
            # No limit applies here: the client had no chance to read yet.
            self._queue.extend(filter(None, map(self._event, changes)))
        self._after = version if version > current else 0
        self._history.subscribers[self] = None

    def initial_frames(self) -> Iterator[bytes]:
        """Yield the initial events in chunks of about 256 KiB."""
        rendering = self._rendering
        pending: list[bytes] = []
        size = 0
        for entry in self._initial:
            frame = rendering.frame(ChangeType.ADDED, entry)
            pending.append(frame)
            size += len(frame)
            if size > 256 * 1024:
                yield b"".join(pending)
                pending, size = [], 0
        self._initial = []
        if self._options.sends_initial_events and self._options.sends_bookmarks:
            version = self._context.store.version
            pending.append(rendering.bookmark(version, ends_initial_events=True))
        if pending:
            yield b"".join(pending)

    def _selects(self, entry: Entry) -> bool:
        options = self._options
        return self._selects_all or (
            options.labels.matches(entry.labels) and options.fields.matches(entry.fields)
        )

    def notice(self, change: Change) -> None:
        """Queue the event of a change, if this watcher gets one."""
        if frame := self._event(change):
            self._push(frame)

    def _event(self, change: Change) -> bytes:
        """Return the event of a change for this watcher; empty if there is none."""
        if self._prefix and not change.entry.key.startswith(self._prefix):
            return b""
        if change.version <= self._after:
            return b""
        kind: str = change.type
        if not self._selects_all:
            found = self._transition(change)
            if found is None:
                return b""
            kind = found
        return self._frame(change, kind)

    def _transition(self, change: Change) -> str | None:
        """Return the event type of a change for a watcher with a selector."""
        is_in = change.type is not ChangeType.DELETED and self._selects(change.entry)
        was_in = change.previous is not None and self._selects(change.previous)
        if is_in:
            return ChangeType.MODIFIED if was_in else ChangeType.ADDED
        if not was_in:
            return None
        return ChangeType.DELETED if change.type is ChangeType.DELETED else _LEFT

    def _frame(self, change: Change, kind: str) -> bytes:
        rendering = self._rendering
        frames = change.frames
        frame = frames.get((rendering.key, kind))
        if frame is None:
            if kind == _LEFT:
                # The event of an object that left the selection has its last selected state.
                assert change.previous is not None
                frame = rendering.frame_as_of(ChangeType.DELETED, change.previous, change.version)
            else:
                frame = rendering.frame(kind, change.entry)
            frames[rendering.key, kind] = frame
        return frame

    def _push(self, frame: bytes) -> None:
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        if self._queued_bytes > _BACKLOG_BYTES_MAX:
            self.has_overflowed = True
            self._queue.clear()
            self.close()
            if self.when_overflowed is not None:
                self.when_overflowed()
        self._wake()

    def bookmark(self) -> bytes:
        """Return a bookmark at the current version; valid only while the queue is empty."""
        return self._rendering.bookmark(self._context.store.version, ends_initial_events=False)

    def take(self) -> bytes:
        """Drain the queue."""
        if not self._queue:
            return b""
        data = b"".join(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        return data

    async def wait(self) -> None:
        """Wait until the queue has events or the watch has ended."""
        if self._queue or self.is_closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def close(self) -> None:
        """End the watch."""
        self._history.subscribers.pop(self, None)
        self.is_closed = True
        self._wake()


def _default_timeout_s(context: Context) -> float:
    # Parity: handlers/get.go ListResource, v1.36: 30 to 60 minutes at random, so that
    # watches that started together do not end together.
    return _TIMEOUT_S_MIN + context.identities.below(_TIMEOUT_S_MIN)


class WatchExpiredError(Exception):
    """The requested version is too old: the stream consists of one ERROR event."""

    def __init__(self, rejection: ApiError) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


def _watch_version(text: str) -> int:
    try:
        return parse_version(text)
    except ValueError as error:
        raise ApiError(500, "", str(error)) from None
