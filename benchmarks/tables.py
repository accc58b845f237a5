"""Counts the entries of all collections that an object reaches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

# Larger maps and lists are data, not tables of tables.
MAP_MAX, LIST_MAX = 5_000, 50


def table_sizes(**roots: object) -> dict[str, int]:
    """Return the number of entries of every container below some objects, by path."""
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    pending = deque(roots.items())
    while pending:
        path, value = pending.popleft()  # The shortest path to an object is its name.
        if id(value) in seen:
            continue
        seen.add(id(value))
        size = _size(value)
        if size is not None:
            sizes[path] = sizes.get(path, 0) + size
        pending += _below(path, value)
    return dict(sorted(sizes.items()))


def _size(value: object) -> int | None:
    if isinstance(value, np.ndarray):
        return int(value.size)
    return len(value) if isinstance(value, list | Mapping | Set) else None


def _below(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        if len(value) <= MAP_MAX:
            yield from ((f"{path}[]", one) for one in value.values() if _is_ours(one))
    elif _is_ours(value):
        yield from ((f"{path}.{name}", one) for name, one in _attributes(value))
    elif isinstance(value, tuple | list) and len(value) <= LIST_MAX:
        yield from ((f"{path}[]", one) for one in value if _is_ours(one))


def _is_ours(value: object) -> bool:
    return type(value).__module__.startswith("kubesched.") and not isinstance(value, type)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        slots = getattr(cls, "__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    for name in names:
        if not name.startswith("__") and hasattr(value, name):
            yield name, getattr(value, name)
