"""Garbage collector: deletes objects whose owners are gone, and completes deletions of owners.

Owns the decision about one object at a time, and the watch of every deletable resource, custom
resources included. The graph of owners is `owner_graph`'s; the requests are `requests`'.
Upstream: pkg/controller/garbagecollector/garbagecollector.go

Differs: upstream reads an object and each of its owners from the API server before it deletes the
object. Here the deletion names the resource version it was decided on, so one request suffices
unless the object changed meanwhile; an owner is read only if no watch has delivered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from kubesched.api.documents import Document
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import Resource
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.discovery import (
    ServedResource,
    ServedResources,
    discover_resources,
)
from kubesched.cluster.controllers.garbage_collector.owner_graph import (
    FOREGROUND,
    ORPHAN,
    Node,
    OwnerGraph,
    OwnerState,
    Reference,
)
from kubesched.cluster.controllers.garbage_collector.requests import (
    GarbageRequests,
    default_propagation_policy,
)
from kubesched.golang.strconv import go_quote

# Parity: graph_builder.go ignoredResources, v1.36.
_IGNORED: Final = frozenset((("", "events"), ("events.k8s.io", "events")))
_DEFINING: Final = frozenset(
    (
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
    )
)
_SYNC_S_MAX: Final = 30.0
_POLL_S: Final = 0.01
_REDISCOVER_S: Final = 300.0
# A new CRD is served with a delay, by some servers in several steps.
_AFTER_DEFINITION_S: Final = (0.1, 0.4, 1.5, 5.0)
_REDISCOVER_S_MIN: Final = 5.0
_UNWATCHED_OWNER_S: Final = 5.0
_ORPHAN_BATCH: Final = 16
_NO_MATCH: Final = "NoMatch"


@dataclass(slots=True)
class _Owners:
    """The owners of one object by state."""

    solid: list[Reference] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    dangling: list[Reference] = field(default_factory=list)
    has_unwatched: bool = False
    """Whether an owner was read that no watch has delivered yet."""


class _ForeignOwnerError(Exception):
    """A cluster-scoped object names a namespaced owner, which can never be resolved."""


class GarbageCollectorController(Controller):
    """Deletes objects without owners."""

    name = "garbage-collector"
    component = "garbage-collector-controller"
    workers = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._graph = OwnerGraph()
        self._requests = GarbageRequests(context.api.client)
        self._resources = ServedResources()
        self._discovered_at_s = float("-inf")
        self._watched: dict[Resource, None] = {}
        self._is_synced = False
        self._definitions_changed = asyncio.Event()

    # -- one object -------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Process the object with a uid."""
        node = self._graph.get(key)
        if node is None:
            return
        try:
            if node.is_deleting:
                await self._process_deleting(node)
            elif node.owners:
                await self._attempt_to_delete(node)
        except NotFoundError as error:
            # Otherwise the object is gone, and its watch will deliver that.
            if error.reason == _NO_MATCH:
                raise
        except _ForeignOwnerError:
            self.log.info("Cluster-scoped object refers to a namespaced owner", item=repr(node))

    async def _process_deleting(self, node: Node) -> None:
        """Remove the finalizer of a terminating object once its dependents are processed."""
        if node.orphans_dependents:
            await self._orphan(node)
        elif node.deletes_dependents:
            if not self._graph.is_blocked(node.uid):
                await self._requests.remove_finalizer(node, FOREGROUND)
                return
            for dependent in self._graph.dependents_of(node.uid):
                # The deletion of a terminating one is delivered by its watch.
                if not dependent.is_deleting:
                    self.queue.add(dependent.uid)

    async def _orphan(self, owner: Node) -> None:
        """Orphan the dependents, then remove the owner's finalizer."""
        dependents = self._graph.dependents_of(owner.uid)
        for start in range(0, len(dependents), _ORPHAN_BATCH):
            batch = dependents[start : start + _ORPHAN_BATCH]
            await asyncio.gather(*(self._orphan_dependent(one, owner.uid) for one in batch))
        await self._requests.remove_finalizer(owner, ORPHAN)

    async def _orphan_dependent(self, dependent: Node, owner_uid: str) -> None:
        try:
            await self._requests.remove_owners(dependent, (owner_uid,))
        except NotFoundError:
            return

    async def _attempt_to_delete(self, node: Node) -> None:
        """Delete an object without solid owners; else remove references to absent ones."""
        # Parity: garbagecollector.go attemptToDeleteItem, v1.36.
        owners = await self._classify_owners(node)
        if owners.has_unwatched:
            self.queue.add_after(node.uid, _UNWATCHED_OWNER_S)
        if owners.solid:
            removable = [str(one["uid"]) for one in (*owners.dangling, *owners.waiting)]
            if removable:
                await self._requests.remove_owners(node, removable)
        elif owners.waiting and self._graph.has_dependents(node.uid):
            if any(
                dependent.deletes_dependents for dependent in self._graph.dependents_of(node.uid)
            ):
                # There may be a cycle, in which every object has a dependent.
                await self._requests.unblock_owners(node)
                await self._delete_unblocked(node)
            else:
                await self._requests.delete(node, "Foreground")
        else:
            await self._requests.delete(node, default_propagation_policy(node))

    async def _delete_unblocked(self, node: Node) -> None:
        """Delete an object in the version that unblocking its owners produced."""
        now = await self._requests.metadata_of(node)
        await self._requests.delete(Node(node.resource, now), "Foreground")

    async def _classify_owners(self, node: Node) -> _Owners:
        owners = _Owners()
        for reference in node.owners:
            state = self._graph.owner_state(reference, node)
            if state is OwnerState.UNKNOWN:
                state = await self._read_owner(reference, node, owners)
            if state is OwnerState.DANGLING:
                owners.dangling.append(reference)
            elif state is OwnerState.WAITING:
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    async def _read_owner(self, reference: Reference, node: Node, owners: _Owners) -> OwnerState:
        """Read an owner from the API server, as the reference names it."""
        self._warn_owner_namespace(reference, node)
        resource = await self._resource_of(reference)
        if resource.namespaced and not node.namespace:
            raise _ForeignOwnerError
        name = str(reference.get("name", ""))
        try:
            response = await self.api.client.get(resource, name, namespace=node.namespace)
        except NotFoundError:
            self._graph.record_absent(reference, node)
            return OwnerState.DANGLING
        owner = Node(resource, msgspec.json.decode(response)["metadata"])
        if owner.uid != reference.get("uid"):
            self._graph.record_absent(reference, node)
            return OwnerState.DANGLING
        owners.has_unwatched |= self._graph.get(owner.uid) is None
        return OwnerState.WAITING if owner.deletes_dependents else OwnerState.SOLID

    def _warn_owner_namespace(self, reference: Reference, node: Node) -> None:
        owner = self._graph.get(str(reference.get("uid", "")))
        if owner is None or not owner.namespace or owner.namespace == node.namespace:
            return
        owner_text = (
            f"[{reference.get('apiVersion', '')}/{reference.get('kind', '')}, namespace: "
            f"{node.namespace}, name: {reference.get('name', '')}, uid: {owner.uid}]"
        )
        regarding = {
            "apiVersion": node.resource.api_version,
            "kind": node.resource.kind,
            "metadata": node.metadata,
        }
        note = f"ownerRef {owner_text} does not exist in namespace {go_quote(node.namespace)}"
        self.event(regarding, "Warning", "OwnerRefInvalidNamespace", note)

    async def _resource_of(self, reference: Reference) -> Resource:
        api_version, kind = str(reference.get("apiVersion", "")), str(reference.get("kind", ""))
        resource = self._resources.find(api_version, kind)
        if (
            resource is None
            and self.clock.monotonic_s() - self._discovered_at_s > _REDISCOVER_S_MIN
        ):
            await self._discover()
            resource = self._resources.find(api_version, kind)
        if resource is None:
            text = f"no matches for kind {go_quote(kind)} in version {go_quote(api_version)}"
            raise NotFoundError(text, code=404, reason=_NO_MATCH)
        return resource

    # -- events -----------------------------------------------------------------------------------

    def _changed(self, resource: Resource, old: Document | None, new: Document | None) -> None:
        if new is not None:
            self._enqueue(self._graph.put(resource, new["metadata"]))
        elif old is not None:
            self._enqueue(self._graph.remove(old["metadata"]["uid"]))
        if (resource.group, resource.plural) in _DEFINING:
            self._definitions_changed.set()

    def _enqueue(self, uids: Iterable[str]) -> None:
        # Before the initial sync most owners seem to be absent.
        if self._is_synced:
            for uid in uids:
                self.queue.add(uid)

    # -- resources --------------------------------------------------------------------------------

    async def run_background(self) -> None:
        """Watch all resources, and those that appear later."""
        while not await self._watch_resources():
            await self.clock.sleep(1.0)
        self._is_synced = True
        self._enqueue([node.uid for node in self._graph if self._graph.needs_sync(node)])
        delays_s: tuple[float, ...] = ()
        while True:
            if await self._wait_for_definition_change(delays_s[0] if delays_s else _REDISCOVER_S):
                delays_s = _AFTER_DEFINITION_S
                continue
            delays_s = delays_s[1:]
            await self._watch_resources()

    async def _wait_for_definition_change(self, timeout_s: float) -> bool:
        """Wait for a change of a CRD or APIService; return whether one came."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._definitions_changed.wait()
        except TimeoutError:
            return False
        self._definitions_changed.clear()
        return True

    async def _watch_resources(self) -> bool:
        """Watch exactly the served resources; return whether discovery succeeded."""
        if not await self._discover():
            return False
        collected = {one.resource: None for one in self._resources.preferred if _is_collected(one)}
        new = [one for one in collected if one not in self._watched]
        for resource in new:
            self._watched[resource] = None
            informer = self.informers.metadata_of(resource)
            informer.on_change(partial(self._changed, resource))
        await self._wait_until_synced(new)
        for resource in [one for one in self._watched if one not in collected]:
            if resource.api_version not in self._resources.failures:
                del self._watched[resource]
                await self.informers.drop(resource)
                self._enqueue(self._graph.drop(resource))
        return True

    async def _discover(self) -> bool:
        self._discovered_at_s = self.clock.monotonic_s()
        try:
            self._resources = await discover_resources(self.api.client)
        except (ApiError, TransportError) as error:
            self.log.error("Unable to discover resources", err=error.message, controller=self.name)
            return False
        return True

    async def _wait_until_synced(self, resources: Iterable[Resource]) -> None:
        """Wait for the initial lists, up to a limit: a resource may not respond."""
        until_s = self.clock.monotonic_s() + _SYNC_S_MAX
        informers = [self.informers.metadata_of(resource) for resource in resources]
        while not all(informer.has_synced for informer in informers):
            if self.clock.monotonic_s() > until_s:
                unsynced = [
                    informer.resource.group_resource
                    for informer in informers
                    if not informer.has_synced
                ]
                self.log.info("Timed out waiting for resource informers to sync", kinds=unsynced)
                return
            await self.clock.sleep(_POLL_S)


def _is_collected(served: ServedResource) -> bool:
    owner_text = (served.resource.group, served.resource.plural)
    return owner_text not in _IGNORED and served.supports("delete", "list", "watch")
