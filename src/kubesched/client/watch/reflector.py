"""List-and-watch for one resource; reports each change exactly once.

Owns list, watch, resume, relist and backoff of one resource. Never holds an object and never
compares versions: changes does.
Upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from kubesched.client.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from kubesched.client.resources import Resource
from kubesched.client.watch.changes import Change, ChangeTracker, KeepRaw, version_number
from kubesched.client.watch.stream import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    UNREADABLE,
    LineSplitter,
    ListBody,
    ListMeta,
    StreamingClient,
)
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import RandomStream

__all__ = ["OnForbidden", "Reflector"]

_PAGE_ITEMS: Final = 500
_WATCH_S_MIN: Final = 300
_WATCH_S_MAX: Final = 600
# Bookmarks come every minute. A stream that is silent for longer than two of them is reopened,
# which loses nothing: the server may be gone without closing the connection.
_SILENCE_S_MAX: Final = 150.0
_SHORT_WATCH_S: Final = 1.0
_FAILURES_MAX: Final = 3
_NOT_SERVED_S: Final = 300.0
_KNOWN_TYPES: Final = frozenset((ADDED, MODIFIED, DELETED, BOOKMARK))

OnForbidden = Callable[[Resource, str, ForbiddenError], None]
_Query = dict[str, str | int | bool]
_BACKOFF_INITIAL_S: Final = 0.8
_BACKOFF_MAX_S: Final = 30.0
_BACKOFF_FACTOR: Final = 2.0
_BACKOFF_RESET_S: Final = 120.0
_BACKOFF_GRAINS: Final = 1 << 20


class Reflector:
    """Passes every object of one resource, and every change, to a sink."""

    def __init__(  # noqa: PLR0913  # Dependencies, keyword-only.
        self,
        client: StreamingClient,
        resource: Resource,
        sink: Callable[[Change], None],
        *,
        decode: type,
        field_selector: str = "",
        keep_raw: KeepRaw = False,
        clock: Clock,
        rng: RandomStream,
        log: Log,
        initial_done: Callable[[Resource], None] | None = None,
        on_forbidden: OnForbidden | None = None,
    ) -> None:
        """Create a reflector; nothing is requested before `run`.

        Args:
            client: Opens streams.
            resource: The resource to watch.
            sink: Called with every change.
            decode: The struct of kubesched.api for its objects; dict for a resource without one.
            field_selector: Selects objects; one that leaves the selection is reported as DELETED.
            keep_raw: Whether, or for which objects, a change has a copy of the JSON.
            clock: The clock.
            rng: The source of jitter.
            log: The log.
            initial_done: Called once, after all initial objects were reported, or when the server
                turns out not to serve the resource.
            on_forbidden: Called with the verb when the right to it is missing; once until it is
                granted.
        """
        self.resource = resource
        self._client = client
        self._path = resource.path()
        self._selection: _Query = {"fieldSelector": field_selector} if field_selector else {}
        self._clock = clock
        self._rng = rng
        self._type = f"*{resource.version}.{resource.kind}"
        """The type as upstream logs it."""
        if decode is dict:
            self._type = f"{resource.api_version}, Kind={resource.kind}"
        self._log = log.with_values(reflector=resource.group_resource, type=self._type)
        self._initial_done = initial_done
        self._on_forbidden = on_forbidden
        self._backoff = Backoff(clock, rng)
        self._tracker = ChangeTracker(
            resource, sink, decode=decode, keep_raw=keep_raw, clock=clock, log=self._log
        )
        self._version = ""
        """The last version received: where a watch resumes, and the minimum for a list."""
        self._is_version_unavailable = False
        self._is_paginated = False
        self._is_served = True
        self._was_served = False
        self._verb = "list"
        """The verb of the last request."""
        self._event_count = 0
        """The number of events of the last watch."""
        self._rejected: dict[str, None] = {}
        """The verbs that the server forbids."""

    @property
    def has_synced(self) -> bool:
        """Return whether the initial objects were reported, and no right is missing."""
        return not self._tracker.is_initial and not self._rejected

    async def run(self) -> None:
        """List and watch until canceled."""
        self._log.info("Starting reflector", level=3, resyncPeriod="0s")
        try:
            while True:
                await self._clock.sleep(await self._round())
        finally:
            self._log.info("Stopping reflector", level=3, resyncPeriod="0s")

    async def _round(self) -> float:
        """List and watch until a failure; return the wait before the next round."""
        try:
            await self._list_and_watch()
        except NotFoundError as error:
            return self._skip(error)
        except ForbiddenError as error:
            self._reject(error)
        except (ApiError, TransportError) as error:
            text = f"failed to list {self._type}: {error}" if self._verb == "list" else error
            self._log.error("Failed to watch", err=text)
        return self._backoff.next_s()

    async def _list_and_watch(self) -> None:
        self._log.info("Listing and watching", level=3)
        await self._list()
        self._log.info("Caches populated", level=2)
        await self._watch()

    # -- list -------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """List all objects, whole or in pages, and report the differences."""
        version = "" if self._is_version_unavailable else self._version or "0"
        is_whole = version not in ("", "0") and not self._is_paginated
        limit = 0 if is_whole else _PAGE_ITEMS
        try:
            is_paginated = await self._list_from(version, limit)
        except ApiError as error:
            if not _is_version_rejected(error):
                raise
            self._is_version_unavailable = True
            is_paginated = await self._list_from("", limit)
        # Parity: reflector.go list, v1.36: a watch cache returns a list from version 0 whole. A
        # server that pages it has no watch cache, and a whole list would not be cheaper.
        if version == "0" and is_paginated:
            self._is_paginated = True

    async def _list_from(self, version: str, limit: int) -> bool:
        """List from a version on; return whether the list had pages."""
        self._tracker.begin_pass()
        try:
            listed, is_paginated = await self._list_pages(version, limit)
        except BaseException:
            # The objects of the pass stay reported, so that no older version may follow.
            self._tracker.abandon_pass()
            if self._tracker.newest > version_number(self._version):
                self._version = str(self._tracker.newest)
            raise
        await self._tracker.end_pass()
        self._version = listed
        self._is_version_unavailable = False
        if not self._is_served:
            self._log.info("Resource is now served", resource=self.resource.plural)
        self._is_served = self._was_served = True
        self._sync()
        return is_paginated

    async def _list_pages(self, version: str, limit: int) -> tuple[str, bool]:
        """Report all pages of a list; return its version, and whether it had several pages."""
        # Parity: tools/pager/pager.go list, v1.36.
        start: _Query = {**self._selection}
        if version:
            start["resourceVersion"] = version
        query = {**start, "limit": limit} if limit else start
        listed, is_paginated = "", False
        while True:
            try:
                page = await self._list_page(query)
            except GoneError:
                if "continue" not in query:
                    raise
                # The continue token expired: list everything at once.
                self._tracker.begin_pass()
                page = await self._list_page(start)
                return page.resource_version, is_paginated
            listed = listed or page.resource_version
            if not page.continue_token:
                return listed, is_paginated
            is_paginated = True
            query = {**self._selection, "limit": limit, "continue": page.continue_token}

    async def _list_page(self, query: _Query) -> ListMeta:
        """Report the items of one response while it arrives."""
        self._verb = "list"
        body = ListBody()
        opening = self._client.stream(self._path, query=query, idle_timeout_s=_SILENCE_S_MAX)
        async with opening as chunks:
            self._rejected.pop("list", None)
            async for chunk in chunks:
                await self._tracker.report_items(body.feed(chunk))
        try:
            page = body.finish()
        except UNREADABLE as problem:
            raise TransportError(f"unable to understand list result: {problem}") from problem
        await self._tracker.report_items(page.items or [])
        return page.metadata

    def _sync(self) -> None:
        if self._tracker.is_initial:
            self._tracker.is_initial = False
            if self._initial_done is not None:
                self._initial_done(self.resource)

    # -- watch ------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Watch, and resume after each end, until only a list helps."""
        self._verb = "watch"
        failures = 0
        while True:
            began_s, self._event_count = self._clock.monotonic_s(), 0
            was_open = False
            error: ApiError | TransportError | None = None
            opening = self._client.stream(
                self._path, query=self._watch_query(), idle_timeout_s=_SILENCE_S_MAX
            )
            try:
                async with opening as chunks:
                    was_open = True
                    self._rejected.pop("watch", None)
                    await self._report_events(chunks)
            except (ApiError, TransportError) as failure:
                error = failure
            lasted_s = self._clock.monotonic_s() - began_s
            if was_open and (self._event_count or lasted_s >= _SHORT_WATCH_S):
                failures = 0
                if error is None:
                    self._log.info("Watch close", level=4, totalItems=self._event_count)
                    continue
                if isinstance(error, TransportError):
                    self._log.info("Watch closed with unexpected EOF", level=1, err=error)
                    continue
            failures += 1
            if not await self._can_watch_again(error, failures):
                return

    async def _can_watch_again(
        self, error: ApiError | TransportError | None, failures: int
    ) -> bool:
        """Wait after a failed watch; return False or raise the error if only a list helps.

        Differs: client-go lists again after most failures. Only a version that is too old needs a
        list; after any other failure a watch from the same version costs the server far less.
        """
        if error is None:
            error = TransportError(
                f"very short watch: {self.resource.group_resource}: Unexpected watch close - "
                "watch lasted less than a second and no items received"
            )
        if isinstance(error, ApiError) and _is_version_rejected(error):
            self._log.info("Watch closed", level=4, err=error)
            return False
        if not _is_overload(error) and (failures > _FAILURES_MAX or not _is_transient(error)):
            raise error
        self._log.info("Watch failed - backing off", level=4, err=error)
        retry_after_s = error.retry_after_s if isinstance(error, ApiError) else None
        await self._clock.sleep(max(self._backoff.next_s(), retry_after_s or 0.0))
        return True

    async def _report_events(self, chunks: AsyncIterator[bytes]) -> None:
        """Report the events of a watch until its end."""
        tracker, splitter = self._tracker, LineSplitter()
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                event = tracker.report_line(line)
                self._event_count += 1
                if event.type not in _KNOWN_TYPES:
                    self._log.error("Unknown watch event", event=event.type)
                elif event.metadata.resource_version:
                    self._version = event.metadata.resource_version
                if tracker.is_due():
                    await tracker.yield_to_loop()

    def _watch_query(self) -> _Query:
        timeout_s = _WATCH_S_MIN + self._rng.below(_WATCH_S_MAX - _WATCH_S_MIN + 1)
        query: _Query = {
            **self._selection,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": timeout_s,
        }
        return {**query, "resourceVersion": self._version} if self._version else query

    # -- failures ---------------------------------------------------------------------------------

    def _skip(self, error: NotFoundError) -> float:
        """Continue without a resource that is not served; return the wait before the next try."""
        if self._is_served:
            self._is_served = False
            self._log.info(
                "Skipping a resource that the API server does not serve",
                resource=self.resource.plural,
                apiVersion=self.resource.api_version,
                err=error,
            )
        self._sync()
        return self._backoff.next_s() if self._was_served else _NOT_SERVED_S

    def _reject(self, error: ForbiddenError) -> None:
        """Report a missing right once."""
        if self._verb in self._rejected:
            self._log.info("Failed to watch", level=2, err=error)
            return
        self._rejected[self._verb] = None
        if self._on_forbidden is not None:
            self._on_forbidden(self.resource, self._verb, error)
        else:
            self._log.error("Failed to watch", err=error)


def _is_version_rejected(error: ApiError | TransportError) -> bool:
    """Return whether a version is too old, or newer than any version of the server."""
    if isinstance(error, GoneError):
        return True
    if not isinstance(error, ApiError):
        return False
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)


def _is_overload(error: ApiError | TransportError) -> bool:
    """Return whether the server is unreachable or overloaded, so that only waiting helps."""
    if isinstance(error, TransportError):
        return error.is_refused
    return isinstance(error, TooManyRequestsError)


def _is_transient(error: ApiError | TransportError) -> bool:
    """Return whether an error is independent of the request."""
    return isinstance(error, (TransportError, UnauthorizedError)) or error.code >= 500


class Backoff:
    """Waits that double from 0.8 s to 30 s, each with a jitter of up to its length."""

    __slots__ = ("_base_s", "_clock", "_rng", "_since_s")

    def __init__(self, clock: Clock, rng: RandomStream) -> None:
        self._clock = clock
        self._rng = rng
        self._base_s = _BACKOFF_INITIAL_S
        self._since_s = clock.monotonic_s()

    def next_s(self) -> float:
        """Return the next wait."""
        # Parity: wait/backoff.go backoffManager.Step, v1.36: it resets every two minutes,
        # even in a long outage.
        now_s = self._clock.monotonic_s()
        if now_s - self._since_s > _BACKOFF_RESET_S:
            self._base_s, self._since_s = _BACKOFF_INITIAL_S, now_s
        base_s = self._base_s
        self._base_s = min(base_s * _BACKOFF_FACTOR, _BACKOFF_MAX_S)
        return base_s * (1.0 + self._rng.below(_BACKOFF_GRAINS) / _BACKOFF_GRAINS)
