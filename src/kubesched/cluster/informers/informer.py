"""Informers: the objects of each watched kind, in memory and indexed.

Owns the objects, their indexes and the change handlers. Never writes to the API server.
Upstream: staging/src/k8s.io/client-go/tools/cache/{shared_informer,thread_safe_store}.go

A writer records the response of the API server (`record_write`), so that no controller acts twice
on a change that the watch has not delivered yet: upstream's expectations are not needed. A response
may arrive after the watch event of the same object; resource versions are compared, and a deleted
uid never comes back. Writes that the watch never confirms are listed by `unconfirmed`.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

from kubesched.api.documents import Document, key_of, owner_of, uid_of, version_of
from kubesched.client.resources import Resource
from kubesched.client.rest import Client
from kubesched.client.watch.changes import Change, version_number
from kubesched.client.watch.reflector import Reflector
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

Handler: TypeAlias = Callable[[Document | None, Document | None], None]
Index: TypeAlias = Callable[[Document], Iterable[str]]

_OWNER: Final = "controller"
_NAMESPACE: Final = "namespace"
_DELETED_UIDS_MAX: Final = 4096
_POLL_S: Final = 0.01
_METADATA_LIST: Final = "PartialObjectMetadataList"


class Informer:
    """The objects of one kind."""

    def __init__(self, resource: Resource, clock: Clock, log: Log) -> None:
        self.resource = resource
        self.has_synced = False
        self._clock = clock
        self._log = log
        self._objects: dict[str, Document] = {}
        self._indexes: dict[str, Index] = {}
        self._keys_by_value: dict[str, dict[str, dict[str, None]]] = {}
        self._handlers: list[Handler] = []
        self._deleted_uids: dict[str, None] = {}
        self._unconfirmed: dict[str, float] = {}
        self.add_index(_OWNER, _controller_uid)
        if resource.namespaced:
            self.add_index(_NAMESPACE, _namespace)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Document]:
        """Iterate over a copy of the current objects; changes meanwhile are harmless."""
        return iter(list(self._objects.values()))

    def get(self, key: str) -> Document | None:
        """Return an object by `namespace/name`, or by name if the kind is cluster-scoped."""
        return self._objects.get(key)

    def add_index(self, name: str, index: Index) -> None:
        """Index objects by the values that a function returns for them."""
        if name in self._indexes:
            return
        self._indexes[name] = index
        self._keys_by_value[name] = {}
        for key, document in self._objects.items():
            self._add_to_index(name, key, document)

    def by_index(self, index: str, value: str) -> list[Document]:
        """Return the objects that have a value in an index."""
        keys = self._keys_by_value[index].get(value)
        return [self._objects[key] for key in keys] if keys else []

    def count_by_index(self, index: str, value: str) -> int:
        """Return the number of objects that have a value in an index."""
        return len(self._keys_by_value[index].get(value, ()))

    def owned_by(self, uid: str) -> list[Document]:
        """Return the objects whose controller has this uid."""
        return self.by_index(_OWNER, uid)

    def in_namespace(self, namespace: str) -> list[Document]:
        """Return the objects of a namespace."""
        return self.by_index(_NAMESPACE, namespace)

    def on_change(self, handler: Handler) -> None:
        """Call a function with the old and the new object on each change; None means absent."""
        self._handlers.append(handler)
        for document in list(self._objects.values()):
            handler(None, document)

    # -- changes ----------------------------------------------------------------------------------

    def apply_change(self, change: Change) -> None:
        """Apply a watch event."""
        self._unconfirmed.pop(change.uid, None)
        if change.type == "DELETED":
            self._remove(change.key, change.uid)
            return
        self._put(change.key, change.object)

    def record_write(self, document: Document) -> None:
        """Apply the API server's response to a write of ours."""
        key, uid = key_of(document), uid_of(document)
        previous = self._objects.get(key)
        if previous is None or uid_of(previous) != uid:
            self._unconfirmed[uid] = self._clock.monotonic_s()
        self._put(key, document)

    def forget(self, key: str, uid: str) -> None:
        """Remove an object that the API server reported as deleted."""
        self._unconfirmed.pop(uid, None)
        self._remove(key, uid)

    def unconfirmed(self, age_s: float) -> list[Document]:
        """Return objects recorded at least `age_s` ago that the watch has not delivered."""
        if not self._unconfirmed:
            return []
        until_s = self._clock.monotonic_s() - age_s
        old = {uid for uid, at_s in self._unconfirmed.items() if at_s <= until_s}
        return [document for document in self._objects.values() if uid_of(document) in old]

    def confirm(self, uid: str) -> None:
        """Mark a recorded object as existing."""
        self._unconfirmed.pop(uid, None)

    def _put(self, key: str, document: Document) -> None:
        uid = uid_of(document)
        if uid in self._deleted_uids:
            return
        document["metadata"].pop("managedFields", None)
        # List items lack both fields, and PartialObjectMetadata has others.
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
            self._remove_from_indexes(key, old)
        self._objects[key] = document
        for name in self._indexes:
            self._add_to_index(name, key, document)
        self._notify(old, document)

    def _remove(self, key: str, uid: str) -> None:
        self._deleted_uids[uid] = None
        if len(self._deleted_uids) > _DELETED_UIDS_MAX:
            self._deleted_uids.pop(next(iter(self._deleted_uids)))
        old = self._objects.get(key)
        if old is None or uid_of(old) != uid:
            return
        self._remove_from_indexes(key, old)
        del self._objects[key]
        self._notify(old, None)

    def _notify(self, old: Document | None, new: Document | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception as error:  # noqa: BLE001  # The other handlers must run.
                trace = "".join(traceback.format_exception(error))
                self._log.error("Handler failed", err=trace, resource=self.resource.group_resource)

    def _add_to_index(self, name: str, key: str, document: Document) -> None:
        for value in self._indexes[name](document):
            self._keys_by_value[name].setdefault(value, {})[key] = None

    def _remove_from_indexes(self, key: str, document: Document) -> None:
        for name, index in self._indexes.items():
            keys_by_value = self._keys_by_value[name]
            for value in index(document):
                keys = keys_by_value.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del keys_by_value[value]


class MetadataClient:
    """Opens list and watch streams of PartialObjectMetadata."""

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
    """One informer per requested kind."""

    def __init__(self, client: Client, clock: Clock, log: Log, rng: RandomStream) -> None:
        self._client = client
        self._clock = clock
        self._log = log
        self._rng = rng
        self._informers: dict[Resource, Informer] = {}
        self._watch_tasks: dict[Resource, Tasks] = {}
        self._metadata_only: dict[Resource, None] = {}
        self._is_running = False

    def of(self, resource: Resource) -> Informer:
        """Return the informer of a kind; it watches from `start` on, or at once if started.

        Request whole objects before `start`: after `metadata_of` a kind has metadata only.
        """
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._informers[resource] = Informer(resource, self._clock, self._log)
            if self._is_running:
                self._watch(informer)
        return informer

    def metadata_of(self, resource: Resource) -> Informer:
        """Return the informer of a kind, watching metadata only unless it exists already."""
        if resource not in self._informers:
            self._metadata_only[resource] = None
        return self.of(resource)

    def __contains__(self, resource: Resource) -> bool:
        return resource in self._informers

    def all_informers(self) -> list[Informer]:
        """Return all informers."""
        return list(self._informers.values())

    def start(self) -> None:
        """Start watching."""
        self._is_running = True
        for informer in self.all_informers():
            self._watch(informer)

    async def drop(self, resource: Resource) -> None:
        """Stop watching a kind that is no longer served."""
        self._informers.pop(resource, None)
        self._metadata_only.pop(resource, None)
        tasks = self._watch_tasks.pop(resource, None)
        if tasks is not None:
            await tasks.stop()

    async def wait_until_synced(self) -> None:
        """Wait until every kind has been listed once."""
        while not all(informer.has_synced for informer in self.all_informers()):
            await self._clock.sleep(_POLL_S)

    async def stop(self) -> None:
        """Stop all watches."""
        self._is_running = False
        for tasks in self._watch_tasks.values():
            await tasks.stop()
        self._watch_tasks.clear()

    def _watch(self, informer: Informer) -> None:
        def synced(_resource: Resource) -> None:
            informer.has_synced = True

        is_partial = informer.resource in self._metadata_only
        reflector = Reflector(
            MetadataClient(self._client) if is_partial else self._client,
            informer.resource,
            informer.apply_change,
            decode=dict,
            clock=self._clock,
            rng=self._rng,
            log=self._log,
            initial_done=synced,
        )
        tasks = self._watch_tasks[informer.resource] = Tasks()
        tasks.start(reflector.run(), name=f"watch {informer.resource.group_resource}")


def _controller_uid(document: Document) -> Iterable[str]:
    owner = owner_of(document)
    return () if owner is None else (owner["uid"],)


def _namespace(document: Document) -> Iterable[str]:
    metadata: dict[str, Any] = document["metadata"]
    return (metadata.get("namespace", ""),)
