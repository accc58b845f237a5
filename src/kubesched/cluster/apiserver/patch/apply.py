"""Server-side apply: merge, conflicts, removal, and migration from client-side apply.

The caller conforms and defaults the merged result.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/{structuredmerge,
lastappliedmanager,lastappliedupdater,skipnonapplied,conflict}.go,
sigs.k8s.io/structured-merge-diff/v6/merge/update.go
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubesched.api.schema.types import Struct
from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import ApiError, bad_request
from kubesched.cluster.apiserver.patch.converting import conversion_problem
from kubesched.cluster.apiserver.patch.field_sets import (
    FieldSet,
    FieldSetError,
    difference,
    has,
    intersection,
    path_text,
    paths,
    recursive_difference,
    union,
)
from kubesched.cluster.apiserver.patch.managed_fields import (
    Entries,
    Entry,
    Manager,
    decode,
    disown,
    encode,
    identity_of,
    strip,
)
from kubesched.cluster.apiserver.patch.merging import merge, remove, with_named_fields
from kubesched.cluster.apiserver.patch.validating import MisshapenError, check_shape
from kubesched.cluster.apiserver.patch.walkers import Comparison, Walker, empty_document, walker_of
from kubesched.golang.strconv import go_quote

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Conflict:
    who: Entry
    identity: str
    path: tuple[str, ...]


class _ConflictsError(Exception):
    def __init__(self, conflicts: list[_Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


def apply(
    of: Struct | None, live: Document | None, applied: Document, by: Manager, *, force: bool
) -> Document:
    """Apply a configuration to the live object, which is None if it does not exist."""
    start = empty_document(of) if live is None else live
    entries = _live_entries(start)
    _check(of, start, applied, by, is_tracked=bool(entries))
    try:
        result = _apply(of, start, applied, entries, by, force=force)
    except _ConflictsError as error:
        if by.name != "kubectl":
            raise _conflict_error(error.conflicts) from None
        result = _apply_after_client_side(of, start, applied, by, error.conflicts)
    except FieldSetError:
        _check_live(of, start, applied, is_tracked=bool(entries))
        raise
    if by.name == "kubectl":
        _sync_last_applied(result, applied)
    return result


def _check(
    of: Struct | None, live: Document, applied: Document, by: Manager, *, is_tracked: bool
) -> None:
    """Reject a configuration that cannot be applied to this object."""
    version = str(applied.get("apiVersion") or "")
    kind = str(applied.get("kind") or "")
    if version != by.api_version or (of is not None and kind != _kind_of(of)):
        raise bad_request(f"invalid object type: {_kind_text(version, kind)}")
    if isinstance((applied.get("metadata") or {}).get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    try:
        check_shape(of, applied)
    except MisshapenError as error:
        if not is_tracked:  # untracked fields are checked first
            _check_live(of, live, applied, is_tracked=False)
        message = f"failed to create typed patch object ({_where(applied, applied)}): {error}"
        raise ApiError(500, "", message) from None


def _where(document: Document, applied: Document) -> str:
    kind = _kind_text(str(applied.get("apiVersion") or ""), str(applied.get("kind") or ""))
    return f"{namespace_of(document)}/{name_of(document)}; {kind}"


def unconvertible(of: Struct, merged: Document, applied: Document, detail: str) -> ApiError:
    """Return the error for a merged object whose values its type cannot hold."""
    kind = _where(applied, applied).partition("; ")[2]
    problem = conversion_problem(of, merged) or f"error decoding from json: {detail}"
    return ApiError(
        500,
        "",
        f"failed to convert new object ({_where(applied, applied)}) to proper version: "
        f"unable to convert unstructured object to {kind}: {problem}",
    )


def _check_live(of: Struct | None, live: Document, applied: Document, *, is_tracked: bool) -> None:
    """Reject duplicate list items in the live object."""
    where = _where(live, applied)
    prefix = f"failed to create typed live object ({where})"
    if not is_tracked:
        prefix = (
            "failed to create manager for existing fields: "
            f"failed to convert new object ({where}) to smd typed"
        )
    try:
        check_shape(of, live, allows_duplicates=True)
    except MisshapenError as error:
        raise ApiError(500, "", f"{prefix}: {error}") from None


def _kind_of(of: Struct) -> str:
    return of.name.rpartition(".")[2]


def _kind_text(version: str, kind: str) -> str:
    group, slash, version = version.rpartition("/")
    return f"{group}{slash or '/'}{version}, Kind={kind}"


def _live_entries(live: Document) -> Entries:
    try:
        return decode((live.get("metadata") or {}).get("managedFields") or [])
    except FieldSetError as error:
        raise ApiError(500, "", f"failed to decode managed fields: {error}") from None


def _apply(
    of: Struct | None,
    live: Document,
    applied: Document,
    entries: Entries,
    by: Manager,
    *,
    force: bool,
) -> Document:
    """Return the object after apply; _ConflictsError on conflicts unless forced."""
    walker = walker_of(of)
    live = without_managed_fields(live)
    if not entries:
        _own_before_first_apply(walker, of, live, entries, by)
    merged = merge(walker, live, applied)
    who = identity_of(by)
    last = entries.get(who)
    claimed = recursive_difference(walker.fields(applied) or {}, by.reset_fields)
    entries[who] = Entry(
        by.name or "unknown",
        "Apply",
        by.api_version,
        last.time if last is not None else None,
        by.subresource,
        claimed,
    )
    if last is not None and last.fields:
        merged = _pruned(walker, merged, entries, last.fields)
    found = walker.compare(live, merged)
    _take_over(found, entries, who, by, force=force)
    _set_own(entries, who)
    if merged == live:
        merged = live
    elif who in entries:
        entries[who].time = by.time
    return _with_entries(merged, entries)


def without_managed_fields(document: Document) -> Document:
    """Return a shallow copy without managedFields."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    rest = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**document, "metadata": rest}


def _with_entries(document: Document, entries: Entries) -> Document:
    metadata = dict(document.get("metadata") or {})
    if entries:
        metadata["managedFields"] = encode(entries)
    return {**document, "metadata": metadata}


def _own_before_first_apply(
    walker: Walker, of: Struct | None, live: Document, entries: Entries, by: Manager
) -> None:
    """Assign an owner to existing fields, so that removing them is a conflict."""
    before = replace(by, name="before-first-apply", operation="Update")
    fields = strip(disown(walker.compare(empty_document(of), live), {}, before))
    if fields:
        entries[identity_of(before)] = Entry(
            before.name, "Update", by.api_version, by.time, by.subresource, fields
        )


def _take_over(
    found: Comparison | None, entries: Entries, who: str, by: Manager, *, force: bool
) -> None:
    others = {name: entry for name, entry in entries.items() if name != who}
    if found is not None and not force:
        changed = recursive_difference(
            union(found.modified or {}, found.added or {}), by.reset_fields
        )
        conflicts = [
            _Conflict(entry, name, path)
            for name, entry in sorted(others.items())
            for path in paths(intersection(entry.fields, changed))
        ]
        if conflicts:
            raise _ConflictsError(conflicts)
    disown(found, others, by)
    for name in list(entries):
        if name != who and name not in others:
            del entries[name]


def _set_own(entries: Entries, who: str) -> None:
    fields = strip(entries[who].fields)
    if fields:
        entries[who].fields = fields
    else:
        del entries[who]


def _pruned(walker: Walker, merged: Document, entries: Entries, last: FieldSet) -> Document:
    """Remove fields that the manager no longer applies and that have no other owner."""
    # Parity: update.go prune, addBackOwnedItems, addBackDanglingItems
    pruned = remove(walker, merged, with_named_fields(walker, last)) or {}
    all_fields = with_named_fields(walker, walker.fields(merged) or {})
    owned: FieldSet = {}
    for entry in entries.values():
        owned = union(owned, entry.fields)
    kept = union(
        with_named_fields(walker, walker.fields(pruned) or {}), with_named_fields(walker, owned)
    )
    pruned = remove(walker, merged, difference(all_fields, kept)) or {}
    left = with_named_fields(walker, walker.fields(pruned) or {})
    gone = intersection(difference(all_fields, left), with_named_fields(walker, last))
    result: Document = remove(walker, merged, gone) or {}
    return result


def _conflict_error(conflicts: list[_Conflict]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_manager_text(conflict.who)}",
            "field": path_text(conflict.path),
        }
        for conflict in conflicts
    ]
    return ApiError(409, "Conflict", _conflict_message(conflicts), causes=causes)


def _conflict_message(conflicts: list[_Conflict]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        where = path_text(only.path)
        return f"Apply failed with 1 conflict: conflict with {_manager_text(only.who)}: {where}"
    lines: list[str] = []
    last = ""
    for conflict in sorted(conflicts, key=lambda one: one.identity):
        if conflict.identity != last:
            lines.append(f"conflicts with {_manager_text(conflict.who)}:")
            last = conflict.identity
        lines.append(f"- {path_text(conflict.path)}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _manager_text(entry: Entry) -> str:
    text = go_quote(entry.manager)
    if entry.subresource:
        text += f" with subresource {go_quote(entry.subresource)}"
    return text if entry.is_applied else f"{text} using {entry.api_version}"


def _apply_after_client_side(
    of: Struct | None, live: Document, applied: Document, by: Manager, conflicts: list[_Conflict]
) -> Document:
    """Apply without conflicts in fields that client-side `kubectl apply` set."""
    # Parity: lastappliedmanager.go Apply
    allowed = _last_applied_fields(of, live, by)
    rest = [
        conflict for conflict in conflicts if allowed is None or not has(allowed, conflict.path)
    ]
    if rest:
        raise _conflict_error(rest)
    return _apply(of, live, applied, _live_entries(live), by, force=True)


def _last_applied_fields(of: Struct | None, live: Document, by: Manager) -> FieldSet | None:
    """Return the fields of the last-applied annotation, or None."""
    text = _annotations(live).get(LAST_APPLIED)
    if not text:
        return None
    try:
        applied = msgspec.json.decode(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != by.api_version:
            return None
        check_shape(of, applied)
        walker = walker_of(of)
        fields = walker.fields(applied) or {}
        found = walker.compare(applied, live)
    except (msgspec.DecodeError, MisshapenError, FieldSetError):
        return None
    for differing in found or ():
        fields = difference(fields, differing or {})
    return fields


def _annotations(document: Document) -> dict[str, Any]:
    return (document.get("metadata") or {}).get("annotations") or {}


def _sync_last_applied(result: Document, applied: Document) -> None:
    """Update the last-applied annotation of client-side apply, if there is one."""
    # Parity: lastappliedupdater.go Apply
    if not _annotations(result).get(LAST_APPLIED):
        return
    bare = dict(applied)
    if _annotations(applied):
        annotations = {key: _annotations(applied)[key] for key in _annotations(applied)}
        annotations.pop(LAST_APPLIED, None)
        bare["metadata"] = {**applied["metadata"], "annotations": annotations}
    text = msgspec.json.encode(bare, order="deterministic").decode() + "\n"
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    annotations = {**_annotations(result), LAST_APPLIED: text}
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        del annotations[LAST_APPLIED]
    result["metadata"] = {**result["metadata"], "annotations": annotations}
