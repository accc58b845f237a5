"""Merges an applied configuration into an object, and removes field sets from it.

Values are immutable and share structure.
Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/{merge,remove}.go, fieldpath/set.go
EnsureNamedFieldsAreMembers
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.cluster.apiserver.patch.field_sets import (
    SELF,
    FieldSet,
    FieldSetError,
    element_text,
    is_member,
)
from kubesched.cluster.apiserver.patch.walkers import (
    DEDUCED,
    DeducedWalker,
    ListWalker,
    StructWalker,
    Walker,
)

_ABSENT: Final = object()


def merge(walker: Walker, live: Any, applied: Any) -> Any:
    """Return the live value merged with the applied one."""
    if isinstance(walker, DeducedWalker) and not _both_maps(live, applied):
        return applied
    if isinstance(walker, StructWalker):
        return _merge_maps(walker, live, applied)
    if isinstance(walker, ListWalker):
        return _merge_lists(walker, live, applied)
    return applied


def _both_maps(live: Any, applied: Any) -> bool:
    return (live is None or isinstance(live, dict)) and (
        applied is None or isinstance(applied, dict)
    )


def _merge_maps(walker: StructWalker, live: Any, applied: Any) -> Any:
    if not live and not applied:
        return applied
    merged = dict(live or {})
    for name, part in (applied or {}).items():
        below = walker.child(f"f:{name}")
        merged[name] = merge(below, merged[name], part) if name in merged else part
    return merged


def _merge_lists(walker: ListWalker, live: Any, applied: Any) -> Any:
    if not live and not applied:
        return applied
    ours = [walker.element_of(value) for value in live or ()]
    theirs = _distinct_elements(walker, applied or ())
    by_ours: dict[str, Any] = {}
    for element, value in zip(ours, live or (), strict=True):
        # Duplicate items are not merged, only kept or replaced.
        by_ours[element] = None if element in by_ours else value
    by_theirs = dict(zip(theirs, applied or (), strict=True))
    order = _merged_order(ours, theirs)
    return [
        value
        for element, at in order
        if (value := _merged_element(walker, by_ours, by_theirs, live, element, at)) is not _ABSENT
    ]


def _distinct_elements(walker: ListWalker, values: Any) -> list[str]:
    elements = [walker.element_of(value) for value in values]
    for index, element in enumerate(elements):
        if element in elements[:index]:
            raise FieldSetError(f"duplicate entries for key {element_text(element)}")
    return elements


def _merged_element(
    walker: ListWalker,
    ours: dict[str, Any],
    theirs: dict[str, Any],
    live: Any,
    element: str,
    at: int | None,
) -> Any:
    if at is not None and element not in theirs:
        return live[at]
    if element not in ours:
        return theirs[element]
    mine = ours[element]
    return theirs[element] if mine is None else merge(walker.element, mine, theirs[element])


def _merged_order(ours: list[str], theirs: list[str]) -> list[tuple[str, int | None]]:
    """Return names in merged order, with their index in the live list or None.

    Applied elements have the order of the configuration; other elements stay before the element
    that they preceded.
    """
    # Parity: merge.go visitListItems, v1.36.
    in_ours, in_theirs = set(ours), set(theirs)
    shared = [element for element in theirs if element in in_ours]
    next_shared = shared.pop(0) if shared else None
    merged: set[str] = set()
    order: list[tuple[str, int | None]] = []
    left, right = 0, 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            element = ours[left]
            if element == theirs[right]:
                merged.add(element)
                order.append((element, None))
                left, right = left + 1, right + 1
                next_shared = shared.pop(0) if shared else None
                continue
            if element in in_theirs and next_shared is not None and next_shared != element:
                left += 1
                continue
        if left < len(ours):
            element = ours[left]
            if element not in in_theirs:
                order.append((element, left))
                left += 1
                continue
            if element in merged:
                left += 1
        if right < len(theirs):
            element = theirs[right]
            merged.add(element)
            order.append((element, None))
            right += 1
            if next_shared == element:
                next_shared = shared.pop(0) if shared else None
    return order


def remove(walker: Walker, value: Any, fields: FieldSet) -> Any:
    """Return a value without the fields of a set; None if nothing is left."""
    if isinstance(value, dict) and isinstance(walker, StructWalker):
        return _remove_from_map(walker, value, fields)
    if isinstance(value, list) and isinstance(walker, ListWalker):
        return _remove_from_list(walker, value, fields)
    return None if isinstance(value, dict | list) else value


def _remove_from_map(walker: StructWalker, value: dict[str, Any], fields: FieldSet) -> Any:
    result: dict[str, Any] = {}
    for name, part in value.items():
        element = f"f:{name}"
        node = fields.get(element)
        if is_member(node):
            continue
        result[name] = remove(walker.child(element), part, node) if node else part
    return result or None


def _remove_from_list(walker: ListWalker, value: list[Any], fields: FieldSet) -> Any:
    result: list[Any] = []
    for part in value:
        node = fields.get(walker.element_of(part))
        if is_member(node):
            continue
        result.append(remove(walker.element, part, node) if node else part)
    return result or None


def with_named_fields(walker: Walker, fields: FieldSet) -> FieldSet:
    """Return a set that also has the declared fields with members below them."""
    result: FieldSet = {}
    for element, node in fields.items():
        if not node or element == SELF:
            result[element] = node
            continue
        below = walker.child(element) if element[0] in "fk" else DEDUCED
        children = with_named_fields(below, node)
        if walker.names(element):
            children[SELF] = {}
        result[element] = children
    return result
