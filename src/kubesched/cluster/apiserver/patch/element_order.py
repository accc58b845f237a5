"""Order of list elements after a strategic merge.

Patched elements keep the patch's order; each other element stays before the first patched element
that it preceded.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go normalizeElementOrder
"""

from __future__ import annotations

from typing import Any


def ordered_by(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Order merged elements by the patch and the live list."""
    ordered = [_key(value, merge_key) for value in order]
    before = [_key(value, merge_key) for value in live]
    patched = [value for value in merged if _key(value, merge_key) in ordered]
    others = [value for value in merged if _key(value, merge_key) not in ordered]
    patched = _sorted(patched, ordered, merge_key)
    others = _sorted(others, before, merge_key)
    return _interleaved(others, patched, before, merge_key)


def _sorted(values: list[Any], order: list[Any], merge_key: str) -> list[Any]:
    """Sort by an order; elements that it lacks come before the element they are compared with."""
    # Parity: normalizeSliceOrder. Its comparison is inconsistent if an element is missing, so the
    # result is that of the insertion sort that Go uses for short lists.
    result: list[Any] = []
    places: list[int] = []
    for value in values:
        place = _index(order, _key(value, merge_key))
        at = len(result)
        while at and (place < 0 or places[at - 1] < 0 or place < places[at - 1]):
            at -= 1
        result.insert(at, value)
        places.insert(at, place)
    return result


def _key(value: Any, merge_key: str) -> Any:
    return value.get(merge_key) if merge_key and isinstance(value, dict) else value


def _index(keys: list[Any], key: Any) -> int:
    return keys.index(key) if key in keys else -1


def _interleaved(
    others: list[Any], patched: list[Any], before: list[Any], merge_key: str
) -> list[Any]:
    result: list[Any] = []
    left = 0
    for value in patched:
        place = _index(before, _key(value, merge_key))
        while left < len(others):
            mine = _index(before, _key(others[left], merge_key))
            if mine < 0 or place < 0 or mine >= place:
                break
            result.append(others[left])
            left += 1
        result.append(value)
    return [*result, *others[left:]]
