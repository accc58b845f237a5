"""Objects go when their last owner is gone; owners go when their dependents have.

Owns the judgement over one object at a time, and which kinds are watched for it: every kind that
can be deleted, those of definitions too, from when they are served until they are not. Who owns
whom is owner_graph's; the requests are garbage_requests'.
Upstream: pkg/controller/garbagecollector/garbagecollector.go

Differs: upstream asks the API server for an object and each of its owners before it deletes the
object. Here the deletion itself names the version that was judged, so that one request does unless
somebody changed the object meanwhile; an owner is asked for only if no watch has shown it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from kubesched.client.cached.documents import Document
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import Resource
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.garbage_requests import GarbageRequests, policy_for
from kubesched.controllers.owner_graph import (
    FOREGROUND,
    ORPHAN,
    Node,
    OwnerGraph,
    Reference,
    Standing,
)
from kubesched.controllers.served_kinds import ServedKind, ServedKinds, served_kinds
from kubesched.objects.field_errors import go_quote

# Parity: graph_builder.go ignoredResources, v1.36.
_IGNORED: Final = frozenset((("", "events"), ("events.k8s.io", "events")))
_DEFINING: Final = frozenset(
    (
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
    )
)
_SYNC_S_MAX: Final = 30.0
_LOOK_S: Final = 0.01
_REDISCOVER_S: Final = 300.0
# A definition that was made is served a little later, by some servers in a few steps.
_AFTER_DEFINITION_S: Final = (0.1, 0.4, 1.5, 5.0)
_KINDS_AGE_S_MIN: Final = 5.0
_UNSEEN_OWNER_S: Final = 5.0
_AT_ONCE: Final = 16
_NO_MATCH: Final = "NoMatch"


@dataclass(slots=True)
class _Owners:
    """The owners of one object, by what they are to it."""

    solid: list[Reference] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    dangling: list[Reference] = field(default_factory=list)
    are_unseen: bool = False
    """Whether one was found at the API server that no watch has shown yet."""


class _ForeignOwnerError(Exception):
    """An object without a namespace names an owner that has one: that can never be resolved."""


class GarbageCollector(Controller):
    """Deletes what nobody owns any more."""

    name = "garbage-collector"
    component = "garbage-collector-controller"
    workers = 8

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._graph = OwnerGraph()
        self._requests = GarbageRequests(parts.api.client)
        self._kinds = ServedKinds()
        self._kinds_s = float("-inf")
        self._watched: dict[Resource, None] = {}
        self._is_ready = False
        self._is_outdated = asyncio.Event()

    # -- one object -------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Judge the object of a uid."""
        node = self._graph.get(key)
        if node is None:
            return
        try:
            if node.is_deleting:
                await self._finish(node)
            elif node.owners:
                await self._judge(node)
        except NotFoundError as error:
            # Otherwise it is gone, and its watch will say so.
            if error.reason == _NO_MATCH:
                raise
        except _ForeignOwnerError:
            self.log.info("Cluster-scoped object refers to a namespaced owner", item=repr(node))

    async def _finish(self, node: Node) -> None:
        """Take away what holds a deletion, when its dependents are as they should be."""
        if node.orphans_dependents:
            await self._orphan(node)
        elif node.deletes_dependents:
            if not self._graph.is_blocked(node.uid):
                await self._requests.remove_finalizer(node, FOREGROUND)
                return
            for dependent in self._graph.dependents_of(node.uid):
                # One that goes already says so when it is gone.
                if not dependent.is_deleting:
                    self.queue.add(dependent.uid)

    async def _orphan(self, owner: Node) -> None:
        """Set the dependents free, then let the owner go."""
        dependents = self._graph.dependents_of(owner.uid)
        for start in range(0, len(dependents), _AT_ONCE):
            some = dependents[start : start + _AT_ONCE]
            await asyncio.gather(*(self._set_free(one, owner.uid) for one in some))
        await self._requests.remove_finalizer(owner, ORPHAN)

    async def _set_free(self, dependent: Node, owner_uid: str) -> None:
        try:
            await self._requests.remove_owners(dependent, (owner_uid,))
        except NotFoundError:
            return

    async def _judge(self, node: Node) -> None:
        """Delete an object that no owner holds; take the references from one that some hold."""
        # Parity: garbagecollector.go attemptToDeleteItem, v1.36.
        owners = await self._classified(node)
        if owners.are_unseen:
            self.queue.add_after(node.uid, _UNSEEN_OWNER_S)
        if owners.solid:
            gone = [str(one["uid"]) for one in (*owners.dangling, *owners.waiting)]
            if gone:
                await self._requests.remove_owners(node, gone)
        elif owners.waiting and self._graph.has_dependents(node.uid):
            if any(one.deletes_dependents for one in self._graph.dependents_of(node.uid)):
                # A circle may be closing: nobody in it would ever be without a dependent.
                await self._requests.unblock_owners(node)
                await self._delete_unblocked(node)
            else:
                await self._requests.delete(node, "Foreground")
        else:
            await self._requests.delete(node, policy_for(node))

    async def _delete_unblocked(self, node: Node) -> None:
        """Delete an object whose owners were just changed by us, in the version that this made."""
        now = await self._requests.metadata_of(node)
        await self._requests.delete(Node(node.resource, now), "Foreground")

    async def _classified(self, node: Node) -> _Owners:
        found = _Owners()
        for reference in node.owners:
            standing = self._graph.standing_of(reference, node)
            if standing is Standing.UNKNOWN:
                standing = await self._look_up(reference, node, found)
            if standing is Standing.DANGLING:
                found.dangling.append(reference)
            elif standing is Standing.WAITING:
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    async def _look_up(self, reference: Reference, node: Node, found: _Owners) -> Standing:
        """Ask the API server for an owner, as the reference has it."""
        self._warn_of_namespace(reference, node)
        resource = await self._resource_of(reference)
        if resource.namespaced and not node.namespace:
            raise _ForeignOwnerError
        name = str(reference.get("name", ""))
        try:
            answer = await self.api.client.get(resource, name, namespace=node.namespace)
        except NotFoundError:
            self._graph.note_absent(reference, node)
            return Standing.DANGLING
        owner = Node(resource, msgspec.json.decode(answer)["metadata"])
        if owner.uid != reference.get("uid"):
            self._graph.note_absent(reference, node)
            return Standing.DANGLING
        found.are_unseen |= self._graph.get(owner.uid) is None
        return Standing.WAITING if owner.deletes_dependents else Standing.SOLID

    def _warn_of_namespace(self, reference: Reference, node: Node) -> None:
        owner = self._graph.get(str(reference.get("uid", "")))
        if owner is None or not owner.namespace or owner.namespace == node.namespace:
            return
        place = (
            f"[{reference.get('apiVersion', '')}/{reference.get('kind', '')}, namespace: "
            f"{node.namespace}, name: {reference.get('name', '')}, uid: {owner.uid}]"
        )
        regarding = {
            "apiVersion": node.resource.api_version,
            "kind": node.resource.kind,
            "metadata": node.metadata,
        }
        note = f"ownerRef {place} does not exist in namespace {go_quote(node.namespace)}"
        self.event(regarding, "Warning", "OwnerRefInvalidNamespace", note)

    async def _resource_of(self, reference: Reference) -> Resource:
        api_version, kind = str(reference.get("apiVersion", "")), str(reference.get("kind", ""))
        found = self._kinds.find(api_version, kind)
        if found is None and self.clock.monotonic_s() - self._kinds_s > _KINDS_AGE_S_MIN:
            await self._discover()
            found = self._kinds.find(api_version, kind)
        if found is None:
            text = f"no matches for kind {go_quote(kind)} in version {go_quote(api_version)}"
            raise NotFoundError(text, code=404, reason=_NO_MATCH)
        return found

    # -- every object -----------------------------------------------------------------------------

    def _changed(self, resource: Resource, old: Document | None, new: Document | None) -> None:
        if new is not None:
            self._look_at(self._graph.put(resource, new["metadata"]))
        elif old is not None:
            self._look_at(self._graph.remove(old["metadata"]["uid"]))
        if (resource.group, resource.plural) in _DEFINING:
            self._is_outdated.set()

    def _look_at(self, uids: Iterable[str]) -> None:
        # Before everything was read once, most owners look as if they were not there.
        if self._is_ready:
            for uid in uids:
                self.queue.add(uid)

    # -- every kind -------------------------------------------------------------------------------

    async def run_beside(self) -> None:
        """Watch every kind there is, and those that come."""
        while not await self._watch_kinds():
            await self.clock.sleep(1.0)
        self._is_ready = True
        self._look_at([node.uid for node in self._graph if self._graph.needs_a_look(node)])
        delays_s: tuple[float, ...] = ()
        while True:
            if await self._wait_until_outdated(delays_s[0] if delays_s else _REDISCOVER_S):
                delays_s = _AFTER_DEFINITION_S
                continue
            delays_s = delays_s[1:]
            await self._watch_kinds()

    async def _wait_until_outdated(self, longest_s: float) -> bool:
        """Wait until a definition changes, but not for longer; return whether one has."""
        try:
            async with asyncio.timeout(longest_s):
                await self._is_outdated.wait()
        except TimeoutError:
            return False
        self._is_outdated.clear()
        return True

    async def _watch_kinds(self) -> bool:
        """Watch the kinds that are served now and no others; return whether they are known."""
        if not await self._discover():
            return False
        wanted = {one.resource: None for one in self._kinds.preferred if _is_collected(one)}
        new = [one for one in wanted if one not in self._watched]
        for resource in new:
            self._watched[resource] = None
            informer = self.informers.metadata_of(resource)
            informer.on_change(partial(self._changed, resource))
        await self._wait_until_synced(new)
        for resource in [one for one in self._watched if one not in wanted]:
            if resource.api_version not in self._kinds.failures:
                del self._watched[resource]
                await self.informers.drop(resource)
                self._look_at(self._graph.drop(resource))
        return True

    async def _discover(self) -> bool:
        self._kinds_s = self.clock.monotonic_s()
        try:
            self._kinds = await served_kinds(self.api.client)
        except (ApiError, TransportError) as error:
            self.log.error("Unable to discover kinds", err=error.message, controller=self.name)
            return False
        return True

    async def _wait_until_synced(self, resources: Iterable[Resource]) -> None:
        """Wait for the kinds to be read once, but not for ever: one may not answer."""
        until_s = self.clock.monotonic_s() + _SYNC_S_MAX
        informers = [self.informers.metadata_of(one) for one in resources]
        while not all(one.has_synced for one in informers):
            if self.clock.monotonic_s() > until_s:
                silent = [one.resource.group_resource for one in informers if not one.has_synced]
                self.log.info("Not all kinds could be read, going on anyway", kinds=silent)
                return
            await self.clock.sleep(_LOOK_S)


def _is_collected(kind: ServedKind) -> bool:
    place = (kind.resource.group, kind.resource.plural)
    return place not in _IGNORED and kind.can("delete", "list", "watch")
