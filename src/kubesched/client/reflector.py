"""One kind of object, mirrored: everything there is, then every change, each told once.

Owns list, watch, resume and relist of one kind, and when to try again. Never holds an object and
never compares: mirror tells a sink what is new.
Upstream: staging/src/k8s.io/client-go/tools/cache/reflector.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesched.client.backoff import Backoff
from kubesched.client.change import Change
from kubesched.client.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from kubesched.client.list_body import ListBody, ListMeta
from kubesched.client.mirror import KeepRaw, Mirror, version_number
from kubesched.client.resources import Resource
from kubesched.client.watch import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    UNREADABLE,
    EventStream,
    StreamingClient,
)
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator

__all__ = ["OnForbidden", "Reflector"]

_PAGE_ITEMS: Final = 500
_WATCH_S_MIN: Final = 300
_WATCH_S_MAX: Final = 600
# Bookmarks come every minute. A stream that was silent for longer than two of them is opened anew,
# which loses nothing: whoever sent it may be gone without a word.
_SILENCE_S_MAX: Final = 150.0
_SHORT_WATCH_S: Final = 1.0
_FAILURES_MAX: Final = 3
_NOT_SERVED_S: Final = 300.0
_KNOWN_TYPES: Final = frozenset((ADDED, MODIFIED, DELETED, BOOKMARK))
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

OnForbidden = Callable[[Resource, str, ForbiddenError], None]
_Query = dict[str, str | int | bool]


class Reflector:
    """Tells a sink of every object of one kind, and of every change."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        client: StreamingClient,
        resource: Resource,
        sink: Callable[[Change], None],
        *,
        decode: type,
        field_selector: str = "",
        keep_raw: KeepRaw = False,
        use_watch_list: bool = False,
        clock: Clock,
        rng: Generator,
        log: Log,
        initial_done: Callable[[Resource], None] | None = None,
        on_forbidden: OnForbidden | None = None,
    ) -> None:
        """Make a reflector; nothing is asked before `run`.

        Args:
            client: Who opens streams.
            resource: What is mirrored.
            sink: Who is told.
            decode: The struct of kubesched.objects that objects are read into; dict for a kind
                that has none.
            field_selector: Which objects; one that leaves the selection is told as DELETED.
            keep_raw: Whether, or of which objects, a copy of the JSON is given to the sink.
            use_watch_list: Whether everything there is comes as the beginning of a watch where the
                server can do that. A list takes half as long and a third of the server's time:
                docs/start-up.md.
            clock: What time it is, and how to wait.
            rng: Where jitter comes from.
            log: Where lines go.
            initial_done: Called once, when everything there is has been told for the first time,
                or when it turned out that the server does not serve the kind.
            on_forbidden: Called with the verb when we have no right to it; once, until we have.
        """
        self.resource = resource
        self._client = client
        self._path = resource.path()
        self._selection: _Query = {"fieldSelector": field_selector} if field_selector else {}
        self._use_watch_list = use_watch_list
        self._clock = clock
        self._rng = rng
        self._type = _type_of(resource, decode)
        self._log = log.with_values(reflector=resource.group_resource, type=self._type)
        self._initial_done = initial_done
        self._on_forbidden = on_forbidden
        self._backoff = Backoff(clock, rng)
        self._mirror = Mirror(
            resource, sink, decode=decode, keep_raw=keep_raw, clock=clock, log=self._log
        )
        self._version = ""
        """Of what was heard last: where a watch goes on, and what no list may be older than."""
        self._is_version_unavailable = False
        self._is_paginated = False
        self._is_served = True
        self._was_served = False
        self._verb = "list"
        """What was asked for last."""
        self._refused: dict[str, None] = {}
        """The verbs that we have no right to."""

    @property
    def has_synced(self) -> bool:
        """Return whether everything was told once, and no right is missing that is needed now."""
        return not self._mirror.is_initial and not self._refused

    @property
    def last_sync_resource_version(self) -> str:
        """Return the version up to which everything was told."""
        return self._version

    def __len__(self) -> int:
        """Return how many objects are known."""
        return len(self._mirror)

    async def run(self) -> None:
        """Mirror until cancelled."""
        self._log.info("Starting reflector", level=3, resyncPeriod="0s")
        try:
            while True:
                await self._clock.sleep(await self._round())
        finally:
            self._log.info("Stopping reflector", level=3, resyncPeriod="0s")

    async def _round(self) -> float:
        """List and watch until that fails; return how long to wait before the next time."""
        try:
            await self._list_and_watch()
        except NotFoundError as error:
            return self._skip(error)
        except ForbiddenError as error:
            self._refuse(error)
        except (ApiError, TransportError) as error:
            text = f"failed to list {self._type}: {error}" if self._verb == "list" else error
            self._log.error("Failed to watch", err=text)
        return self._backoff.next_s()

    async def _list_and_watch(self) -> None:
        self._log.info("Listing and watching", level=3)
        stream = await self._watch_list() if self._use_watch_list else None
        if stream is None:
            await self._list()
        self._log.info("Caches populated", level=2)
        await self._watch(stream)

    # Everything there is, as a list.

    async def _list(self) -> None:
        """List everything, in one piece or in pages, and tell the difference."""
        version = self._relist_version()
        is_whole = version not in ("", "0") and not self._is_paginated
        limit = 0 if is_whole else _PAGE_ITEMS
        try:
            is_paginated = await self._list_from(version, limit)
        except ApiError as error:
            if not _is_version_refused(error):
                raise
            self._is_version_unavailable = True
            is_paginated = await self._list_from("", limit)
        # Parity: reflector.go list, v1.36: a watch cache answers a list from version 0 whole; who
        # pages it has none, so that nothing is spared by asking for all at once.
        if version == "0" and is_paginated:
            self._is_paginated = True

    def _relist_version(self) -> str:
        if self._is_version_unavailable:
            return ""
        return self._version or "0"

    async def _list_from(self, version: str, limit: int) -> bool:
        """List from a version on; return whether it came in pages."""
        self._mirror.begin_pass()
        try:
            listed, is_paginated = await self._list_pages(version, limit)
        except BaseException:
            self._abandon_pass()
            raise
        await self._end_pass(listed)
        return is_paginated

    async def _list_pages(self, version: str, limit: int) -> tuple[str, bool]:
        """Tell all pages of a list; return its version, and whether it had more than one."""
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
                # The pages were too slow; what they told stays told, and all is asked for at once.
                self._mirror.begin_pass()
                page = await self._list_page(start)
                return page.resource_version, is_paginated
            listed = listed or page.resource_version
            if not page.continue_token:
                return listed, is_paginated
            is_paginated = True
            query = {**self._selection, "limit": limit, "continue": page.continue_token}

    async def _list_page(self, query: _Query) -> ListMeta:
        """Tell the items of one answer while it comes in."""
        self._verb = "list"
        body = ListBody()
        opening = self._client.stream(self._path, query=query, idle_timeout_s=_SILENCE_S_MAX)
        async with opening as chunks:
            self._refused.pop("list", None)
            async for chunk in chunks:
                await self._mirror.tell_items(body.feed(chunk))
        try:
            page = body.finish()
        except UNREADABLE as problem:
            raise TransportError(f"unable to understand list result: {problem}") from problem
        await self._mirror.tell_items(page.items or [])
        return page.metadata

    def _abandon_pass(self) -> None:
        """Give up a look at everything; what it showed stays told, so nothing older may follow."""
        self._mirror.abandon_pass()
        if self._mirror.newest > version_number(self._version):
            self._version = str(self._mirror.newest)

    async def _end_pass(self, version: str) -> None:
        """Tell what is gone, and go on from there."""
        await self._mirror.end_pass()
        self._version = version
        self._is_version_unavailable = False
        if not self._is_served:
            self._log.info("The API server serves this kind now", resource=self.resource.plural)
        self._is_served = self._was_served = True
        self._sync()

    def _sync(self) -> None:
        if self._mirror.is_initial:
            self._mirror.is_initial = False
            if self._initial_done is not None:
                self._initial_done(self.resource)

    # Everything there is, as the beginning of a watch.

    async def _watch_list(self) -> EventStream | None:
        """Have everything streamed; return the stream, or None where only a list will do."""
        # Parity: reflector.go watchList, v1.36.
        while True:
            query: _Query = {
                **self._watch_query("" if self._is_version_unavailable else self._version),
                "sendInitialEvents": True,
                "resourceVersionMatch": "NotOlderThan",
            }
            try:
                stream = await self._open(query)
                if await self._consume_initial(stream):
                    return stream
                self._log.info("The initial events ended before their bookmark", level=2)
                return None
            except (ForbiddenError, NotFoundError):
                raise
            except (ApiError, TransportError) as error:
                if _is_version_refused(error) and not self._is_version_unavailable:
                    self._is_version_unavailable = True
                elif _says_later(error):
                    self._log.info("watch-list failed - backing off", level=2, err=error)
                    await self._wait_after(error)
                else:
                    self._log.info(
                        "Data couldn't be fetched in watchlist mode. Falling back to regular list. "
                        "This is expected if watchlist is not supported or disabled in "
                        "kube-apiserver.",
                        level=4,
                        err=error,
                    )
                    return None

    async def _consume_initial(self, stream: EventStream) -> bool:
        """Tell the initial events; return whether they were all, closing the stream if not."""
        self._mirror.begin_pass()
        has_ended = False
        try:
            has_ended = await self._consume(stream)
        finally:
            if not has_ended:
                self._abandon_pass()
                await stream.close()
        return has_ended

    # Every change.

    async def _watch(self, stream: EventStream | None) -> None:
        """Watch, again and again from where the last watch ended, until that does not help."""
        failures = 0
        while True:
            began_s, heard = self._clock.monotonic_s(), 0
            error: ApiError | TransportError | None = None
            try:
                stream = stream or await self._open(self._watch_query(self._version))
                heard = stream.event_count
                await self._consume(stream)
            except (ApiError, TransportError) as problem:
                error = problem
            finally:
                if stream is not None:
                    heard = stream.event_count - heard
                    await stream.close()
            was_open, stream = stream is not None, None
            lasted_s = self._clock.monotonic_s() - began_s
            if was_open and (heard or lasted_s >= _SHORT_WATCH_S):
                failures = 0
                if error is None:
                    self._log.info("Watch close", level=4, totalItems=heard)
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
        """Wait after a watch that failed; False or the error if only a list will help.

        Differs: client-go lists again after most failures. A version that is too old is what only
        a list can mend; everything else a watch from the same version mends as well, which costs
        the server next to nothing.
        """
        if error is None:
            error = TransportError(
                f"very short watch: {self.resource.group_resource}: Unexpected watch close - "
                "watch lasted less than a second and no items received"
            )
        if isinstance(error, ApiError) and _is_version_refused(error):
            self._log.info("Watch closed", level=4, err=error)
            return False
        if not _says_later(error) and (failures > _FAILURES_MAX or not _may_pass(error)):
            raise error
        self._log.info("Watch failed - backing off", level=4, err=error)
        await self._wait_after(error)
        return True

    async def _open(self, query: _Query) -> EventStream:
        self._verb = "watch"
        stream = EventStream()
        await stream.open(self._client, self._path, query, idle_timeout_s=_SILENCE_S_MAX)
        self._refused.pop("watch", None)
        return stream

    async def _consume(self, stream: EventStream) -> bool:
        """Tell the events of a stream; return True at the end of initial ones, False at its own."""
        mirror = self._mirror
        is_initial = mirror.is_in_pass
        while (lines := await stream.lines()) is not None:
            for place, line in enumerate(lines, start=1):
                event = mirror.tell_line(line)
                stream.event_count += 1
                meta = event.metadata
                if event.type not in _KNOWN_TYPES:
                    self._log.error("Unknown watch event", event=event.type)
                elif is_initial:
                    if meta.annotations.get(_INITIAL_EVENTS_END) == "true":
                        stream.hold(lines[place:])
                        await self._end_pass(meta.resource_version)
                        return True
                elif meta.resource_version:
                    self._version = meta.resource_version
                if mirror.is_due():
                    await mirror.give_way()
        return False

    def _watch_query(self, version: str) -> _Query:
        timeout_s = _WATCH_S_MIN + self._rng.below(_WATCH_S_MAX - _WATCH_S_MIN + 1)
        query: _Query = {
            **self._selection,
            "watch": True,
            "allowWatchBookmarks": True,
            "timeoutSeconds": timeout_s,
        }
        return {**query, "resourceVersion": version} if version else query

    # What does not work.

    async def _wait_after(self, error: ApiError | TransportError) -> None:
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        await self._clock.sleep(max(self._backoff.next_s(), asked_s or 0.0))

    def _skip(self, error: NotFoundError) -> float:
        """Go on without a kind that is not served; return how long until it is asked for again."""
        if self._is_served:
            self._is_served = False
            self._log.info(
                "Skipping a kind that the API server does not serve",
                resource=self.resource.plural,
                apiVersion=self.resource.api_version,
                err=error,
            )
        self._sync()
        return self._backoff.next_s() if self._was_served else _NOT_SERVED_S

    def _refuse(self, error: ForbiddenError) -> None:
        """Say once which right is missing."""
        if self._verb in self._refused:
            self._log.info("Failed to watch", level=2, err=error)
            return
        self._refused[self._verb] = None
        if self._on_forbidden is not None:
            self._on_forbidden(self.resource, self._verb, error)
        else:
            self._log.error("Failed to watch", err=error)


def _type_of(resource: Resource, decode: type) -> str:
    """Return the type as upstream's lines have it."""
    if decode is dict:
        return f"{resource.api_version}, Kind={resource.kind}"
    return f"*{resource.version}.{resource.kind}"


def _is_version_refused(error: ApiError | TransportError) -> bool:
    """Return whether a version is too old, or newer than anything the server has."""
    if isinstance(error, GoneError):
        return True
    if not isinstance(error, ApiError):
        return False
    causes = error.details.get("causes") or ()
    return any(one.get("reason") == "ResourceVersionTooLarge" for one in causes)


def _says_later(error: ApiError | TransportError) -> bool:
    """Return whether the server is not there or has too much to do: asking otherwise is no use."""
    if isinstance(error, TransportError):
        return error.is_refused
    return isinstance(error, TooManyRequestsError)


def _may_pass(error: ApiError | TransportError) -> bool:
    """Return whether an error says nothing about what was asked for."""
    return isinstance(error, (TransportError, UnauthorizedError)) or error.code >= 500
