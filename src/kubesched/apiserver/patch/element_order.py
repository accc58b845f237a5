"""The order of elements after a strategic merge.

Owns the interleaving: elements of the patch in the patch's order, the others in the live list's,
each of them before the first patched element that it stood before.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go normalizeElementOrder
"""

from __future__ import annotations

from typing import Any


def ordered_by(merged: list[Any], order: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Return merged elements in order, given the order of the patched ones and the live list."""
    wanted = [_key(value, merge_key) for value in order]
    before = [_key(value, merge_key) for value in live]
    patched = [value for value in merged if _key(value, merge_key) in wanted]
    others = [value for value in merged if _key(value, merge_key) not in wanted]
    patched.sort(key=lambda value: wanted.index(_key(value, merge_key)))
    others.sort(key=lambda value: _index(before, _key(value, merge_key)))
    return _interleaved(others, patched, before, merge_key)


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
