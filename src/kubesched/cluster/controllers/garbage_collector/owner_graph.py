"""The graph of objects, their owners and their dependents.

Owns which objects must be processed after a change. Never sends requests: the controller does.
Upstream: pkg/controller/garbagecollector/{graph,graph_builder}.go

An owner known only by a reference has no node here (upstream: a "virtual" node): its dependents are
kept by its uid, and the controller reads the owner when it processes one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from kubesched.client.resources import Resource

Reference: TypeAlias = Mapping[str, Any]
_Key = TypeVar("_Key")

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_ABSENT_MAX: Final = 8192
_NONE: Final[dict[str, None]] = {}


class Node:
    """An object in the graph."""

    __slots__ = ("is_deleting", "metadata", "resource")

    def __init__(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        self.resource = resource
        # Shared with the informer: never copied, never modified.
        self.metadata = metadata
        self.is_deleting = bool(metadata.get("deletionTimestamp"))

    @property
    def uid(self) -> str:
        """Return the uid."""
        return str(self.metadata.get("uid", ""))

    @property
    def name(self) -> str:
        """Return the name."""
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """Return the namespace; empty for cluster-scoped objects."""
        return str(self.metadata.get("namespace", ""))

    @property
    def owners(self) -> Sequence[Reference]:
        """Return the owner references."""
        return self.metadata.get("ownerReferences") or ()

    @property
    def finalizers(self) -> Sequence[str]:
        """Return the finalizers."""
        return self.metadata.get("finalizers") or ()

    @property
    def deletes_dependents(self) -> bool:
        """Return whether it is terminating and waits for the deletion of its dependents."""
        return self.is_deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Return whether it is terminating and waits for its dependents to be orphaned."""
        return self.is_deleting and ORPHAN in self.finalizers

    def __repr__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name} {self.uid}"


class OwnerState(Enum):
    """State of an owner, from the dependent's view."""

    SOLID = "solid"
    """It exists."""
    WAITING = "waiting"
    """It exists until its dependents are deleted."""
    DANGLING = "dangling"
    """It does not exist."""
    UNKNOWN = "unknown"
    """No watch has delivered it as the reference names it; it must be read from the API server."""


class OwnerGraph:
    """Objects, their dependents, and owners known to be absent."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._blockers: dict[str, dict[str, None]] = {}
        self._absent: dict[str, None] = {}
        self._not_found: dict[tuple[str, ...], None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        """Iterate over a copy of the current nodes."""
        return iter(list(self._nodes.values()))

    def get(self, uid: str) -> Node | None:
        """Return a node."""
        return self._nodes.get(uid)

    def dependents_of(self, uid: str) -> list[Node]:
        """Return the objects that name this one as an owner."""
        return [self._nodes[one] for one in self._dependents.get(uid, _NONE)]

    def has_dependents(self, uid: str) -> bool:
        """Return whether an object names this one as an owner."""
        return uid in self._dependents

    def is_blocked(self, uid: str) -> bool:
        """Return whether a dependent blocks the deletion of this object."""
        return uid in self._blockers

    # -- changes; each method returns the uids to process -----------------------------------------

    def put(self, resource: Resource, metadata: Mapping[str, Any]) -> list[str]:
        """Add or update an object."""
        uid = str(metadata.get("uid", ""))
        old = self._nodes.get(uid)
        new = self._nodes[uid] = Node(resource, metadata)
        if old is not None and _is_same_ownership(old, new):
            return []
        unblocked: list[str] = []
        if old is None or old.owners != new.owners:
            unblocked = self._link(new, old.owners if old is not None else ())
        to_process = [*unblocked, *self._after_change(new, old)]
        return to_process if old is not None else [*to_process, *self._mismatched_dependents(new)]

    def remove(self, uid: str) -> list[str]:
        """Remove a deleted object."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return []
        unblocked = self._unlink(uid, node.owners)
        dependents = list(self._dependents.get(uid, _NONE))
        if dependents:
            _add_bounded(self._absent, uid)
        return [*dependents, *unblocked]

    def record_absent(self, reference: Reference, dependent: Node) -> None:
        """Record that the API server does not have the object of a reference."""
        _add_bounded(self._not_found, _reference_key(reference, dependent))

    def drop(self, resource: Resource) -> list[str]:
        """Remove a resource that is no longer served; its objects may still exist."""
        removed = [node for node in self if node.resource == resource]
        to_process: list[str] = []
        for node in removed:
            del self._nodes[node.uid]
            to_process += self._dependents.get(node.uid, _NONE)
            to_process += self._unlink(node.uid, node.owners)
        return to_process

    # -- owner states -----------------------------------------------------------------------------

    def owner_state(self, reference: Reference, dependent: Node) -> OwnerState:
        """Return the state of the owner that a reference names, as far as known."""
        uid = reference.get("uid", "")
        owner = self._nodes.get(uid)
        if owner is None and uid in self._absent:
            return OwnerState.DANGLING
        if owner is None or not _refers_to(reference, owner, dependent.namespace):
            is_absent = self._not_found and _reference_key(reference, dependent) in self._not_found
            return OwnerState.DANGLING if is_absent else OwnerState.UNKNOWN
        return OwnerState.WAITING if owner.deletes_dependents else OwnerState.SOLID

    def needs_sync(self, node: Node) -> bool:
        """Return whether an object may have to be processed."""
        if node.is_deleting:
            return node.deletes_dependents or node.orphans_dependents
        return any(
            self.owner_state(reference, node) is not OwnerState.SOLID for reference in node.owners
        )

    # -- edges ------------------------------------------------------------------------------------

    def _link(self, node: Node, before: Iterable[Reference]) -> list[str]:
        """Replace the owners of an object; return the owners that it unblocks."""
        uid = node.uid
        # Add first: an owner that stays must not lose its dependents in between.
        for reference in node.owners:
            self._dependents.setdefault(reference.get("uid", ""), {})[uid] = None
        blocked = {
            str(owner.get("uid", "")): None
            for owner in node.owners
            if owner.get("blockOwnerDeletion")
        }
        for owner in blocked:
            self._blockers.setdefault(owner, {})[uid] = None
        kept = {owner.get("uid", "") for owner in node.owners}
        unblocked = [one for one in before if one.get("uid", "") not in blocked]
        for reference in before:
            if reference.get("uid", "") not in kept:
                _discard(self._dependents, reference.get("uid", ""), uid)
        return self._unblock(uid, unblocked)

    def _unlink(self, uid: str, owners: Iterable[Reference]) -> list[str]:
        """Remove an object from its owners; return those that only it blocked."""
        references = list(owners)
        for reference in references:
            _discard(self._dependents, reference.get("uid", ""), uid)
        return self._unblock(uid, references)

    def _unblock(self, uid: str, owners: Iterable[Reference]) -> list[str]:
        unblocked: list[str] = []
        for reference in owners:
            owner_uid = reference.get("uid", "")
            _discard(self._blockers, owner_uid, uid)
            owner = self._nodes.get(owner_uid)
            if owner is not None and owner.deletes_dependents and owner_uid not in self._blockers:
                unblocked.append(owner_uid)
        return unblocked

    def _after_change(self, new: Node, old: Node | None) -> list[str]:
        """Return the uids to process because an object is new or has changed."""
        uids = [new.uid] if self.needs_sync(new) else []
        starts = new.deletes_dependents and not (old is not None and old.deletes_dependents)
        return [*uids, *self._dependents.get(new.uid, _NONE)] if starts else uids

    def _mismatched_dependents(self, new: Node) -> list[str]:
        """Return the dependents whose reference does not match the object."""
        return [
            node.uid
            for node in self.dependents_of(new.uid)
            if any(
                owner.get("uid") == new.uid and not _refers_to(owner, new, node.namespace)
                for owner in node.owners
            )
        ]


def _add_bounded(known_absent: dict[_Key, None], key: _Key) -> None:
    known_absent[key] = None
    if len(known_absent) > _ABSENT_MAX:
        del known_absent[next(iter(known_absent))]


def _reference_key(reference: Reference, dependent: Node) -> tuple[str, ...]:
    """Return the identity of a reference: one uid may be referenced in several ways."""
    fields = (str(reference.get(field, "")) for field in ("uid", "apiVersion", "kind", "name"))
    return (*fields, dependent.namespace)


def _discard(by_owner: dict[str, dict[str, None]], owner: str, uid: str) -> None:
    dependents = by_owner.get(owner)
    if dependents is not None:
        dependents.pop(uid, None)
        if not dependents:
            del by_owner[owner]


def _is_same_ownership(old: Node, new: Node) -> bool:
    """Return whether a change does not concern ownership; most do not."""
    return (
        old.is_deleting == new.is_deleting
        and old.owners == new.owners
        and old.finalizers == new.finalizers
    )


def _refers_to(reference: Reference, owner: Node, namespace: str) -> bool:
    """Return whether a reference from a namespace matches an object."""
    # Differs: upstream treats another version of the group as another object, and reads it.
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    if owner.namespace and owner.namespace != namespace:
        return False
    return (
        reference.get("kind") == owner.resource.kind
        and reference.get("name") == owner.name
        and group == owner.resource.group
    )
