"""A heap with keys, and the order of equal items."""

from collections.abc import Iterator

import pytest

from kubesched.kit.heap import KeyedHeap, order_by_less

# Results of Go's container/heap for the operations of `operations`: Push, Fix, Remove, Pop.
BY_GO = {
    1: "19 28 2 34 1 17 27 30 4 0 8 39 3 31 26 13 17 38 32 1 23 3 1 8 39 38 29 34 0 27 33 11 29 20 "
    "19 3 2 14 23 21 9 5 18 6 10 1 22 24 15 7 16",
    2: "5 31 28 30 6 33 5 11 12 5 2 22 0 4 33 34 17 22 14 15 1 21 1 32 31 5 25 4 22 38 28 39 7 10 "
    "15 17 23 18 35 12 9 26 36 24 37",
    3: "30 23 36 26 27 4 10 7 0 21 36 33 39 29 29 1 30 13 33 20 2 10 0 9 11 22 10 7 19 4 25 24 21 "
    "36 20 2 38 27 14 32 18 35 37 34 8 11 6 15 36 28",
    4: "21 1 7 26 12 27 5 2 11 4 29 28 2 21 31 22 27 28 29 10 22 35 21 16 14 32 23 36 18 32 18 34 "
    "24 38 16 5 12 8 39 25 23 30 36 4 17 3 15 10 13 11 33 31 7",
}


def operations(seed: int) -> Iterator[tuple[int, str, int]]:
    state = seed

    def below(bound: int) -> int:
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**32
        return (state >> 16) % bound

    for _ in range(120):
        yield below(10), str(below(40)), below(4)


def popped(heap: KeyedHeap[tuple[str, int]], seed: int) -> Iterator[str]:
    for action, key, priority in operations(seed):
        if action < 6:
            heap.add_or_update(key, (key, priority))
        elif action < 7:
            heap.remove(key)
        elif (item := heap.pop()) is not None:
            yield item[0]
    while (item := heap.pop()) is not None:
        yield item[0]


@pytest.mark.parametrize("seed", sorted(BY_GO))
def test_equal_items_leave_in_the_order_of_go(seed: int) -> None:
    heap: KeyedHeap[tuple[str, int]] = KeyedHeap(lambda item: item[1])
    assert " ".join(popped(heap, seed)) == BY_GO[seed]


@pytest.mark.parametrize("seed", sorted(BY_GO))
def test_order_by_less_gives_the_order_of_sort_keys(seed: int) -> None:
    heap: KeyedHeap[tuple[str, int]] = KeyedHeap(order_by_less(lambda a, b: a[1] < b[1]))
    assert " ".join(popped(heap, seed)) == BY_GO[seed]


def a_heap(**orders: int) -> KeyedHeap[tuple[str, int]]:
    heap: KeyedHeap[tuple[str, int]] = KeyedHeap(lambda item: item[1])
    for key, order in orders.items():
        heap.add_or_update(key, (key, order))
    return heap


def test_pop_returns_the_least_item_and_peek_keeps_it() -> None:
    heap = a_heap(b=2, a=1, c=3)
    assert heap.peek() == ("a", 1)
    assert [heap.pop() for _ in range(4)] == [("a", 1), ("b", 2), ("c", 3), None]
    assert heap.peek() is None


def test_an_update_moves_an_item_both_ways() -> None:
    heap = a_heap(a=1, b=2, c=3)
    assert heap.add_or_update("a", ("a", 9)) is False
    assert heap.add_or_update("c", ("c", 0)) is False
    assert heap.add_or_update("d", ("d", 1)) is True
    assert [heap.pop() for _ in range(4)] == [("c", 0), ("d", 1), ("b", 2), ("a", 9)]


def test_removed_items_are_gone() -> None:
    heap = a_heap(a=1, b=2, c=3)
    assert heap.remove("a") == ("a", 1)
    assert heap.remove("a") is None
    assert ("a" in heap, "b" in heap, len(heap)) == (False, True, 2)
    assert heap.get("a") is None
    assert list(heap) == [("b", 2), ("c", 3)]
    assert heap.remove("c") == ("c", 3)
    assert heap.pop() == ("b", 2)
