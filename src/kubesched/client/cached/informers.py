"""Everything there is of the kinds that a process works with.

Owns the objects by key and by index, who hears of changes, and that what we wrote ourselves is
known at once. Never writes to the API server.
Upstream: staging/src/k8s.io/client-go/tools/cache/{shared_informer,thread_safe_store}.go

Whoever writes notes the answer (`noted`), so that nobody acts twice on what the watch has not told
yet: there is no need for upstream's expectations. An answer may come later than what the watch said
of the same object; versions are compared, and a uid that is gone stays gone. What was noted and
never confirmed by the watch is asked for after a while (`unconfirmed`).
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

from kubesched.client.cached.documents import Document, key_of, owner_of, uid_of, version_of
from kubesched.client.change import Change
from kubesched.client.mirror import version_number
from kubesched.client.reflector import Reflector
from kubesched.client.resources import Resource
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

Handler: TypeAlias = Callable[[Document | None, Document | None], None]
Index: TypeAlias = Callable[[Document], Iterable[str]]

_OWNER: Final = "controller"
_NAMESPACE: Final = "namespace"
_GONE_MAX: Final = 4096
_LOOK_S: Final = 0.01
_METADATA_LIST: Final = "PartialObjectMetadataList"


class Informer:
    """One kind of object."""

    def __init__(self, resource: Resource, clock: Clock, log: Log) -> None:
        self.resource = resource
        self.has_synced = False
        self._clock = clock
        self._log = log
        self._objects: dict[str, Document] = {}
        self._indexes: dict[str, Index] = {}
        self._found: dict[str, dict[str, dict[str, None]]] = {}
        self._handlers: list[Handler] = []
        self._gone: dict[str, None] = {}
        self._unconfirmed: dict[str, float] = {}
        self.add_index(_OWNER, _controller_uid)
        if resource.namespaced:
            self.add_index(_NAMESPACE, _namespace)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Document]:
        """Return everything there is now; changes while reading do no harm."""
        return iter(list(self._objects.values()))

    def get(self, key: str) -> Document | None:
        """Return `namespace/name`, or the name of a kind without namespaces."""
        return self._objects.get(key)

    def add_index(self, name: str, index: Index) -> None:
        """Have objects found by what a function says of them."""
        if name in self._indexes:
            return
        self._indexes[name] = index
        self._found[name] = {}
        for key, document in self._objects.items():
            self._enter(name, key, document)

    def by(self, index: str, value: str) -> list[Document]:
        """Return the objects of which an index says this."""
        keys = self._found[index].get(value)
        return [self._objects[key] for key in keys] if keys else []

    def count(self, index: str, value: str) -> int:
        """Return of how many objects an index says this."""
        return len(self._found[index].get(value, ()))

    def owned_by(self, uid: str) -> list[Document]:
        """Return the objects whose controller this is."""
        return self.by(_OWNER, uid)

    def in_namespace(self, namespace: str) -> list[Document]:
        """Return the objects of a namespace."""
        return self.by(_NAMESPACE, namespace)

    def on_change(self, handler: Handler) -> None:
        """Have a function called with what an object was and what it is now; None for nothing."""
        self._handlers.append(handler)
        for document in list(self._objects.values()):
            handler(None, document)

    # -- what comes in ----------------------------------------------------------------------------

    def take(self, change: Change) -> None:
        """Take over what a watch tells."""
        self._unconfirmed.pop(change.uid, None)
        if change.type == "DELETED":
            self._remove(change.key, change.uid)
            return
        self._put(change.key, change.object)

    def noted(self, document: Document) -> None:
        """Take over what the API server answered to a write of ours."""
        key, uid = key_of(document), uid_of(document)
        known = self._objects.get(key)
        if known is None or uid_of(known) != uid:
            self._unconfirmed[uid] = self._clock.monotonic_s()
        self._put(key, document)

    def forget(self, key: str, uid: str) -> None:
        """Take note that an object is gone, as the API server answered."""
        self._unconfirmed.pop(uid, None)
        self._remove(key, uid)

    def unconfirmed(self, age_s: float) -> list[Document]:
        """Return what was noted so long ago, and the watch has never told of."""
        if not self._unconfirmed:
            return []
        until_s = self._clock.monotonic_s() - age_s
        old = {uid for uid, at_s in self._unconfirmed.items() if at_s <= until_s}
        return [one for one in self._objects.values() if uid_of(one) in old] if old else []

    def confirmed(self, uid: str) -> None:
        """Take note that an object is there."""
        self._unconfirmed.pop(uid, None)

    def _put(self, key: str, document: Document) -> None:
        uid = uid_of(document)
        if uid in self._gone:
            return
        document["metadata"].pop("managedFields", None)
        # Items of a list do not say it, and metadata alone says something else.
        document["kind"] = self.resource.kind
        document["apiVersion"] = self.resource.api_version
        old = self._objects.get(key)
        if old is not None and uid_of(old) != uid:
            if version_number(version_of(document)) < version_number(version_of(old)):
                return
            self._remove(key, uid_of(old))
            old = None
        if old is not None:
            if version_number(version_of(document)) <= version_number(version_of(old)):
                return
            self._leave_indexes(key, old)
        self._objects[key] = document
        for name in self._indexes:
            self._enter(name, key, document)
        self._tell(old, document)

    def _remove(self, key: str, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.pop(next(iter(self._gone)))
        old = self._objects.get(key)
        if old is None or uid_of(old) != uid:
            return
        self._leave_indexes(key, old)
        del self._objects[key]
        self._tell(old, None)

    def _tell(self, old: Document | None, new: Document | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception as error:  # noqa: BLE001  # The others must hear of it all the same.
                told = "".join(traceback.format_exception(error))
                self._log.error("Handler failed", err=told, resource=self.resource.group_resource)

    def _enter(self, name: str, key: str, document: Document) -> None:
        found = self._found[name]
        for value in self._indexes[name](document):
            found.setdefault(value, {})[key] = None

    def _leave_indexes(self, key: str, document: Document) -> None:
        for name, index in self._indexes.items():
            found = self._found[name]
            for value in index(document):
                keys = found.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del found[value]


class MetadataClient:
    """Opens streams of objects' metadata alone."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str | int | bool] | None = None,
        idle_timeout_s: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream."""
        form = "PartialObjectMetadata" if query and query.get("watch") else _METADATA_LIST
        accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
        return self._client.stream(path, query=query, idle_timeout_s=idle_timeout_s, accept=accept)


class Informers:
    """One informer for each kind that somebody asked for."""

    def __init__(self, client: Client, clock: Clock, log: Log, rng: Generator) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._rng = rng
        self._informers: dict[Resource, Informer] = {}
        self._watching: dict[Resource, Tasks] = {}
        self._metadata_only: dict[Resource, None] = {}
        self._is_running = False

    def of(self, resource: Resource) -> Informer:
        """Return the informer of a kind; it watches from `start`, or from now if that has been.

        Who needs whole objects asks before `start`: after `metadata_of` there is only metadata.
        """
        found = self._informers.get(resource)
        if found is None:
            found = self._informers[resource] = Informer(resource, self._clock, self._log)
            if self._is_running:
                self._watch(found)
        return found

    def metadata_of(self, resource: Resource) -> Informer:
        """Return the informer of a kind; if nobody has asked for it yet, one of metadata alone."""
        if resource not in self._informers:
            self._metadata_only[resource] = None
        return self.of(resource)

    def __contains__(self, resource: Resource) -> bool:
        return resource in self._informers

    def known(self) -> list[Informer]:
        """Return the informers there are."""
        return list(self._informers.values())

    def start(self) -> None:
        """Begin to watch."""
        self._is_running = True
        for informer in self.known():
            self._watch(informer)

    async def drop(self, resource: Resource) -> None:
        """Watch a kind no longer: it is not served any more."""
        self._informers.pop(resource, None)
        self._metadata_only.pop(resource, None)
        tasks = self._watching.pop(resource, None)
        if tasks is not None:
            await tasks.stop()

    async def wait_until_synced(self) -> None:
        """Wait until every kind has been read once."""
        while not all(informer.has_synced for informer in self.known()):
            await self._clock.sleep(_LOOK_S)

    async def stop(self) -> None:
        """End every watch."""
        self._is_running = False
        for tasks in self._watching.values():
            await tasks.stop()
        self._watching.clear()

    def _watch(self, informer: Informer) -> None:
        def synced(_resource: Resource) -> None:
            informer.has_synced = True

        is_partial = informer.resource in self._metadata_only
        reflector = Reflector(
            MetadataClient(self._client) if is_partial else self._client,
            informer.resource,
            informer.take,
            decode=dict,
            clock=self._clock,
            rng=self._rng,
            log=self._log,
            initial_done=synced,
        )
        tasks = self._watching[informer.resource] = Tasks()
        tasks.start(reflector.run(), name=f"watch {informer.resource.group_resource}")


def _controller_uid(document: Document) -> Iterable[str]:
    owner = owner_of(document)
    return () if owner is None else (owner["uid"],)


def _namespace(document: Document) -> Iterable[str]:
    metadata: dict[str, Any] = document["metadata"]
    return (metadata.get("namespace", ""),)
