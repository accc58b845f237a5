"""Tracks field managers in metadata.managedFields for create and update.

Apply is in apply.py. Changes nothing else of a document.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/*.go,
sigs.k8s.io/structured-merge-diff/v6/merge/update.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.patch.field_sets import (
    FieldSet,
    FieldSetError,
    canonical,
    difference,
    from_paths,
    recursive_difference,
    union,
)
from kubesched.cluster.apiserver.patch.walkers import Comparison, empty_document, walker_of

MAX_UPDATE_MANAGERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_STRIPPED: Final = from_paths(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Manager:
    """A field manager and its operation."""

    name: str
    operation: str = "Update"
    """`Update` or `Apply`."""
    api_version: str = "v1"
    time: str = ""
    subresource: str = ""
    reset_fields: FieldSet = field(default_factory=dict)
    """Fields that writes of the resource or subresource reset (see reset_fields)."""


@dataclass(slots=True)
class Entry:
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    time: str | None
    subresource: str
    fields: FieldSet

    @property
    def is_applied(self) -> bool:
        """Return whether the entry belongs to an apply."""
        return self.operation == "Apply"


Entries = dict[str, Entry]
"""By identity: manager, operation, subresource and, for updates, version."""


@lru_cache(maxsize=4096)
def identity(manager: str, operation: str, api_version: str, subresource: str) -> str:
    """Return the identity of a manager, as a sort key."""
    # Parity: managedfields.go BuildManagerIdentifier: appliers keep their entry across versions.
    found = {"manager": manager, "operation": operation}
    if operation != "Apply":
        found["apiVersion"] = api_version
    if subresource:
        found["subresource"] = subresource
    return msgspec.json.encode(found).decode()


def identity_of(by: Manager) -> str:
    """Return the identity of the writing manager."""
    return identity(by.name or "unknown", by.operation, by.api_version, by.subresource)


def track_create(of: Struct | None, new: Document, by: Manager) -> None:
    """Set managedFields of an object that is created."""
    sent = new.setdefault("metadata", {}).pop("managedFields", None)
    _set(new, _updated(of, empty_document(of), new, _decoded_or_none(sent) or {}, by))


def track_update(of: Struct | None, old: Document, new: Document, by: Manager) -> None:
    """Set managedFields of an object that replaces another."""
    sent = new.setdefault("metadata", {}).pop("managedFields", None)
    live = (old.get("metadata") or {}).get("managedFields")
    entries = _sent_or_live(sent, live, by)
    if entries:  # An untracked object stays untracked until it is applied.
        _set(new, _updated(of, old, new, entries, by))


def keep_times(old: Document, new: Document) -> None:
    """Restore timestamps if nothing else changed, so that a no-op write stays one."""
    # Parity: equality.go IgnoreManagedFieldsTimestampsTransformer
    ours = (old.get("metadata") or {}).get("managedFields") or []
    theirs = (new.get("metadata") or {}).get("managedFields") or []
    if not theirs or len(ours) != len(theirs) or ours == theirs:
        return
    if any(_timeless(one) != _timeless(other) for one, other in zip(ours, theirs, strict=True)):
        return
    metadata = {**new["metadata"], "managedFields": ours}
    if {**new, "metadata": metadata} == old:
        new["metadata"]["managedFields"] = ours


def _timeless(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "time"}


def _sent_or_live(sent: Any, live: Any, by: Manager) -> Entries:
    """Return the entries before an update; a client may set them, or reset them with [{}]."""
    if by.subresource or sent is None or sent == live:
        return decode(live or [], is_canonical=True)
    if not sent or sent == [{}]:
        return {}
    return _decoded_or_none(sent) or decode(live or [], is_canonical=True)


def _decoded_or_none(entries: Any) -> Entries | None:
    try:
        return decode(entries or [])
    except FieldSetError:
        return None


def decode(encoded: Iterable[dict[str, Any]], *, is_canonical: bool = False) -> Entries:
    """Return entries by identity; raise FieldSetError for invalid managedFields.

    Entries that we wrote ourselves are canonical.
    """
    entries: Entries = {}
    for index, one in enumerate(encoded):
        operation, version = one.get("operation", ""), one.get("apiVersion", "")
        if operation not in {"Apply", "Update"}:
            raise FieldSetError("operation must be `Apply` or `Update`")
        if not version:
            raise FieldSetError("apiVersion must not be empty")
        fields_type = one.get("fieldsType", "")
        if fields_type != "FieldsV1":
            error = f'invalid fieldsType "{fields_type}"' if fields_type else "missing fieldsType"
            raise FieldSetError(f"{error} in managed fields entry {index}")
        manager, subresource = one.get("manager", ""), one.get("subresource", "")
        fields = one.get("fieldsV1") or {}
        if not is_canonical:
            fields = canonical(fields)
        entries[identity(manager, operation, version, subresource)] = Entry(
            manager, operation, version, one.get("time"), subresource, fields
        )
    return entries


def encode(entries: Entries) -> list[dict[str, Any]]:
    """Return managedFields of entries, in upstream's order."""
    return [_encoded(entry) for entry in sorted(entries.values(), key=_order)]


def _order(one: Entry) -> tuple[str, ...]:
    return (one.operation, one.time or "", one.manager, one.api_version, one.subresource)


def _encoded(entry: Entry) -> dict[str, Any]:
    encoded: dict[str, Any] = {"manager": entry.manager} if entry.manager else {}
    encoded["operation"] = entry.operation
    encoded["apiVersion"] = entry.api_version
    if entry.time is not None:
        encoded["time"] = entry.time
    encoded["fieldsType"] = "FieldsV1"
    encoded["fieldsV1"] = entry.fields
    if entry.subresource:
        encoded["subresource"] = entry.subresource
    return encoded


def _set(new: Document, entries: Entries) -> None:
    if entries:
        new["metadata"]["managedFields"] = encode(entries)


def _updated(
    of: Struct | None, old: Document, new: Document, entries: Entries, by: Manager
) -> Entries:
    """Return the entries after a create or update; none if list items are ambiguous."""
    try:
        mine = disown(walker_of(of).compare(old, new), entries, by)
    except FieldSetError:
        return {}
    mine = strip(mine)
    if mine:
        who = identity_of(by)
        previous = entries.get(who)
        fields = union(mine, previous.fields) if previous is not None else mine
        entries[who] = Entry(
            by.name or "unknown", "Update", by.api_version, by.time, by.subresource, fields
        )
    cap(entries)
    return entries


def disown(found: Comparison | None, entries: Entries, by: Manager) -> FieldSet:
    """Remove changed fields from other managers; return the added and changed ones."""
    # Parity: update.go update and Update
    if found is None:
        return {}
    removed = recursive_difference(found.removed or {}, by.reset_fields)
    changed = recursive_difference(union(found.modified or {}, found.added or {}), by.reset_fields)
    for who, entry in list(entries.items()):
        rest = difference(difference(entry.fields, changed), removed)
        if rest:
            entry.fields = rest
        else:
            del entries[who]
    return changed


def strip(fields: FieldSet) -> FieldSet:
    """Return a set without untracked fields: name, version, UID and the like."""
    return difference(fields, _STRIPPED)


def cap(entries: Entries) -> None:
    """Merge the oldest update entries per version while there are too many."""
    # Parity: capmanagers.go capUpdateManagers
    updaters = [who for who, entry in entries.items() if not entry.is_applied]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return
    updaters.sort(key=lambda who: (entries[who].time or "", who))
    firsts: dict[str, str] = {}
    for who in updaters:
        if excess <= 0:
            return
        entry = entries[who]
        version = entry.api_version
        first = firsts.setdefault(version, who)
        if first == who:
            continue
        bucket = identity(_ANCIENT, "Update", version, "")
        if bucket not in entries:
            entries[bucket] = _renamed(entries.pop(first))
        merged = union(entry.fields, entries[bucket].fields)
        entries[bucket] = Entry(_ANCIENT, "Update", version, entry.time, "", merged)
        del entries[who]
        excess -= 1


def _renamed(entry: Entry) -> Entry:
    return Entry(_ANCIENT, "Update", entry.api_version, entry.time, "", entry.fields)
