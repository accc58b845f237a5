"""Who owns whom, of everything there is.

Owns the objects as far as ownership goes, the dependents of each owner whether it was seen or not,
and who has to be looked at after a change. Never asks the API server: garbage_collector does.
Upstream: pkg/controller/garbagecollector/{graph,graph_builder}.go

An owner that is only known by a reference has no node here (upstream: a "virtual" node): its
dependents are kept by its uid, and whoever judges a dependent asks the API server about it.
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
    """An object, as far as ownership goes."""

    __slots__ = ("is_deleting", "metadata", "resource")

    def __init__(self, resource: Resource, metadata: Mapping[str, Any]) -> None:
        self.resource = resource
        # The informer's own: nothing is copied, and nothing here writes to it.
        self.metadata = metadata
        self.is_deleting = bool(metadata.get("deletionTimestamp"))

    @property
    def uid(self) -> str:
        """Return its uid."""
        return str(self.metadata.get("uid", ""))

    @property
    def name(self) -> str:
        """Return its name."""
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        """Return its namespace, empty for what has none."""
        return str(self.metadata.get("namespace", ""))

    @property
    def owners(self) -> Sequence[Reference]:
        """Return the references to its owners."""
        return self.metadata.get("ownerReferences") or ()

    @property
    def finalizers(self) -> Sequence[str]:
        """Return what holds its deletion."""
        return self.metadata.get("finalizers") or ()

    @property
    def deletes_dependents(self) -> bool:
        """Return whether it waits, being deleted, for its dependents to be gone."""
        return self.is_deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        """Return whether it waits, being deleted, for its dependents to be set free."""
        return self.is_deleting and ORPHAN in self.finalizers

    def __repr__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name} {self.uid}"


class Standing(Enum):
    """What an owner is to its dependent."""

    SOLID = "solid"
    """It is there."""
    WAITING = "waiting"
    """It is there until its dependents are gone."""
    DANGLING = "dangling"
    """It is not there."""
    UNKNOWN = "unknown"
    """It has not been seen, or not as the reference has it: the API server knows."""


class OwnerGraph:
    """The objects, their dependents, and what is known to be gone."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._blockers: dict[str, dict[str, None]] = {}
        self._absent: dict[str, None] = {}
        self._not_found: dict[tuple[str, ...], None] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        """Return everything there is now; changes while reading do no harm."""
        return iter(list(self._nodes.values()))

    def get(self, uid: str) -> Node | None:
        """Return an object that was seen."""
        return self._nodes.get(uid)

    def dependents_of(self, uid: str) -> list[Node]:
        """Return the objects that name this one as an owner."""
        return [self._nodes[one] for one in self._dependents.get(uid, _NONE)]

    def has_dependents(self, uid: str) -> bool:
        """Return whether an object names this one as an owner."""
        return uid in self._dependents

    def is_blocked(self, uid: str) -> bool:
        """Return whether a dependent has to be gone before this object may."""
        return uid in self._blockers

    # -- what comes in: each returns the uids of those who have to be looked at -------------------

    def put(self, resource: Resource, metadata: Mapping[str, Any]) -> list[str]:
        """Take an object as it is now."""
        uid = str(metadata.get("uid", ""))
        old = self._nodes.get(uid)
        new = self._nodes[uid] = Node(resource, metadata)
        if old is not None and _is_alike(old, new):
            return []
        freed: list[str] = []
        if old is None or old.owners != new.owners:
            freed = self._link(new, old.owners if old is not None else ())
        looked_at = [*freed, *self._after_change(new, old)]
        return looked_at if old is not None else [*looked_at, *self._mistaken(new)]

    def remove(self, uid: str) -> list[str]:
        """Take note that an object is gone."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return []
        freed = self._unlink(uid, node.owners)
        dependents = list(self._dependents.get(uid, _NONE))
        if dependents:
            _remember(self._absent, uid)
        return [*dependents, *freed]

    def note_absent(self, reference: Reference, dependent: Node) -> None:
        """Remember that the API server has nothing of what a reference means."""
        _remember(self._not_found, _place(reference, dependent))

    def drop(self, resource: Resource) -> list[str]:
        """Forget a kind that is served no more; whether its objects are gone is not known."""
        gone = [node for node in self if node.resource == resource]
        looked_at: list[str] = []
        for node in gone:
            del self._nodes[node.uid]
            looked_at += self._dependents.get(node.uid, _NONE)
            looked_at += self._unlink(node.uid, node.owners)
        return looked_at

    # -- what an object is to others --------------------------------------------------------------

    def standing_of(self, reference: Reference, dependent: Node) -> Standing:
        """Return what the owner that a reference means is, as far as is known here."""
        uid = reference.get("uid", "")
        owner = self._nodes.get(uid)
        if owner is None and uid in self._absent:
            return Standing.DANGLING
        if owner is None or not _means(reference, owner, dependent.namespace):
            is_absent = self._not_found and _place(reference, dependent) in self._not_found
            return Standing.DANGLING if is_absent else Standing.UNKNOWN
        return Standing.WAITING if owner.deletes_dependents else Standing.SOLID

    def needs_a_look(self, node: Node) -> bool:
        """Return whether something may have to be done about an object."""
        if node.is_deleting:
            return node.deletes_dependents or node.orphans_dependents
        return any(
            self.standing_of(reference, node) is not Standing.SOLID for reference in node.owners
        )

    # -- changes ----------------------------------------------------------------------------------

    def _link(self, node: Node, before: Iterable[Reference]) -> list[str]:
        """Enter an object with its owners instead of with those it had; return who is freed."""
        uid = node.uid
        # The new ones first: an owner that stays must not be without dependents in between.
        for reference in node.owners:
            self._dependents.setdefault(reference.get("uid", ""), {})[uid] = None
        blocked = {
            str(one.get("uid", "")): None for one in node.owners if one.get("blockOwnerDeletion")
        }
        for owner in blocked:
            self._blockers.setdefault(owner, {})[uid] = None
        kept = {one.get("uid", "") for one in node.owners}
        freed = [one for one in before if one.get("uid", "") not in blocked]
        for reference in before:
            if reference.get("uid", "") not in kept:
                _discard(self._dependents, reference.get("uid", ""), uid)
        return self._unblock(uid, freed)

    def _unlink(self, uid: str, owners: Iterable[Reference]) -> list[str]:
        """Take an object from its owners; return those that waited for it alone."""
        listed = list(owners)
        for reference in listed:
            _discard(self._dependents, reference.get("uid", ""), uid)
        return self._unblock(uid, listed)

    def _unblock(self, uid: str, owners: Iterable[Reference]) -> list[str]:
        freed: list[str] = []
        for reference in owners:
            owner_uid = reference.get("uid", "")
            _discard(self._blockers, owner_uid, uid)
            owner = self._nodes.get(owner_uid)
            if owner is not None and owner.deletes_dependents and owner_uid not in self._blockers:
                freed.append(owner_uid)
        return freed

    def _after_change(self, new: Node, old: Node | None) -> list[str]:
        """Return who has to be looked at because an object is new, or is not what it was."""
        found = [new.uid] if self.needs_a_look(new) else []
        starts = new.deletes_dependents and not (old is not None and old.deletes_dependents)
        return [*found, *self._dependents.get(new.uid, _NONE)] if starts else found

    def _mistaken(self, new: Node) -> list[str]:
        """Return the dependents that have another idea of an object than it turns out to be."""
        return [
            node.uid
            for node in self.dependents_of(new.uid)
            if any(
                one.get("uid") == new.uid and not _means(one, new, node.namespace)
                for one in node.owners
            )
        ]


def _remember(what: dict[_Key, None], key: _Key) -> None:
    what[key] = None
    if len(what) > _ABSENT_MAX:
        del what[next(iter(what))]


def _place(reference: Reference, dependent: Node) -> tuple[str, ...]:
    """Return where a reference points: for one uid there may be references to several places."""
    parts = (str(reference.get(part, "")) for part in ("uid", "apiVersion", "kind", "name"))
    return (*parts, dependent.namespace)


def _discard(of: dict[str, dict[str, None]], owner: str, uid: str) -> None:
    found = of.get(owner)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del of[owner]


def _is_alike(old: Node, new: Node) -> bool:
    """Return whether a change is none to who looks at ownership: that most are."""
    return (
        old.is_deleting == new.is_deleting
        and old.owners == new.owners
        and old.finalizers == new.finalizers
    )


def _means(reference: Reference, owner: Node, namespace: str) -> bool:
    """Return whether a reference from a namespace has an object as it is."""
    # Differs: upstream takes another version of the same group for another object, and asks.
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    if owner.namespace and owner.namespace != namespace:
        return False
    return (
        reference.get("kind") == owner.resource.kind
        and reference.get("name") == owner.name
        and group == owner.resource.group
    )
