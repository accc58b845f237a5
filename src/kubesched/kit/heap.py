"""A heap whose items are looked up, changed and removed by key.

Equal items come out in the order of Go's container/heap, as in kube-scheduler.
Upstream: pkg/scheduler/backend/heap/heap.go, Go's container/heap
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

ItemT = TypeVar("ItemT")


class _Entry(Generic[ItemT]):
    __slots__ = ("index", "item", "key", "order")

    def __init__(self, key: str, item: ItemT, order: Any, index: int) -> None:
        self.key = key
        self.item = item
        self.order = order
        self.index = index


class KeyedHeap(Generic[ItemT]):
    """Returns the least item first; `order` is the sort key, computed when an item is added."""

    __slots__ = ("_entries", "_heap", "_order")

    def __init__(self, order: Callable[[ItemT], Any]) -> None:
        self._order = order
        self._entries: dict[str, _Entry[ItemT]] = {}
        self._heap: list[_Entry[ItemT]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[ItemT]:
        """Yield the items in the order in which they were added."""
        return (entry.item for entry in self._entries.values())

    def get(self, key: str) -> ItemT | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.item

    def peek(self) -> ItemT | None:
        return self._heap[0].item if self._heap else None

    def add_or_update(self, key: str, item: ItemT) -> bool:
        """Add an item, or update it and its place; return whether the key is new."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(key, item, self._order(item), len(self._heap))
            self._heap.append(entry)
            self._up(entry)
            return True
        entry.item = item
        entry.order = self._order(item)
        self._fix(entry)
        return False

    def remove(self, key: str) -> ItemT | None:
        """Remove and return the item of a key; None if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        last = self._heap.pop()
        if last is not entry:
            self._heap[entry.index] = last
            last.index = entry.index
            self._fix(last)
        return entry.item

    def pop(self) -> ItemT | None:
        """Remove and return the least item; None if there is none."""
        heap = self._heap
        if not heap:
            return None
        last = heap.pop()
        if not heap:
            del self._entries[last.key]
            return last.item
        least = heap[0]
        heap[0] = last
        last.index = 0
        self._down(last)
        del self._entries[least.key]
        return least.item

    def reorder(self, order: Callable[[ItemT], Any]) -> None:
        self._order = order
        self._heap = []
        for entry in self._entries.values():
            entry.order, entry.index = order(entry.item), len(self._heap)
            self._heap.append(entry)
            self._up(entry)

    def _fix(self, entry: _Entry[ItemT]) -> None:
        if not self._down(entry):
            self._up(entry)

    def _up(self, entry: _Entry[ItemT]) -> None:
        heap, order = self._heap, entry.order
        place = start = entry.index
        while place:
            parent = heap[above := (place - 1) >> 1]
            if not order < parent.order:
                break
            heap[place] = parent
            parent.index = place
            place = above
        if place != start:
            heap[place] = entry
            entry.index = place

    def _down(self, entry: _Entry[ItemT]) -> bool:
        # The right child goes up only if it is less than the left; either only if it is less than
        # its parent.
        heap, place, order = self._heap, entry.index, entry.order
        start, count = place, len(self._heap)
        while (below := 2 * place + 1) < count:
            child = heap[below]
            if below + 1 < count and (right := heap[below + 1]).order < child.order:
                child = right
                below += 1
            if not child.order < order:
                break
            heap[place] = child
            child.index = place
            place = below
        if place == start:
            return False
        heap[place] = entry
        entry.index = place
        return True


class _Compared(Generic[ItemT]):
    """An item that is compared by a function."""

    __slots__ = ("_item", "_less")

    def __init__(self, item: ItemT, less: Callable[[ItemT, ItemT], bool]) -> None:
        self._item = item
        self._less = less

    def __lt__(self, other: _Compared[ItemT]) -> bool:
        return self._less(self._item, other._item)


def order_by_less(less: Callable[[ItemT, ItemT], bool]) -> Callable[[ItemT], Any]:
    """Return an order for `KeyedHeap` that compares two items by `less`."""
    return lambda item: _Compared(item, less)
