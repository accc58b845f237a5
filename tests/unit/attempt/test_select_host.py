"""Which of the best nodes is taken: the one at the root of Go's heap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.attempt.select_host import (
    ORDER_BITS,
    TOTAL_MAX,
    as_keys,
    best_positions,
    heap_order,
    select_host,
    width_for,
)


def root_of_gos_heap(scores: Sequence[int]) -> int:
    """Return the place at the root after container/heap's Init with `less` being `greater`."""
    heap = list(range(len(scores)))
    for start in range(len(heap) // 2 - 1, -1, -1):
        parent = start
        while True:
            left, right = 2 * parent + 1, 2 * parent + 2
            if left >= len(heap):
                break
            child = left
            if right < len(heap) and scores[heap[right]] > scores[heap[left]]:
                child = right
            if not scores[heap[child]] > scores[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([7], 0, id="the only node is taken"),
        pytest.param([5, 5, 5, 5], 0, id="the first of equal nodes is taken"),
        pytest.param([1, 9, 3], 1, id="the best node is taken"),
        pytest.param([1, 5, 5], 1, id="the left child comes before the right one"),
        pytest.param([1, 1, 5, 5], 3, id="a child of the left child comes before the right child"),
        pytest.param([0, 0, 0, 9, 0, 9], 3, id="the left subtree comes before the right one"),
        pytest.param([0, 9, 0, 9], 1, id="a parent comes before its children"),
    ],
)
def test_small_heaps_by_hand(scores: list[int], expected: int) -> None:
    assert root_of_gos_heap(scores) == expected
    assert select_host(np.array(scores)) == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_equals_gos_heap(scores: list[int]) -> None:
    assert select_host(np.array(scores, dtype=np.int64)) == root_of_gos_heap(scores)


@given(st.integers(1, 3000), st.sets(st.integers(0, 2999), min_size=1, max_size=6))
def test_equals_gos_heap_on_many_nodes(count: int, best: set[int]) -> None:
    scores = [1 if place in best else 0 for place in range(count)]
    assert select_host(np.array(scores, dtype=np.int64)) == root_of_gos_heap(scores)


@given(
    st.lists(
        st.integers(0, 3) | st.sampled_from([1 - TOTAL_MAX, -1, TOTAL_MAX - 1]),
        min_size=1,
        max_size=70,
    )
)
def test_the_largest_key_is_at_the_root(scores: list[int]) -> None:
    keys = as_keys(np.array(scores, dtype=np.int64) << ORDER_BITS)
    assert int(keys.argmax()) == root_of_gos_heap(scores)
    assert len(set(keys.tolist())) == len(scores)


@pytest.mark.parametrize(
    ("weights", "bits"),
    [
        pytest.param([1, 2, 17], 32, id="ordinary"),
        pytest.param([20], 32, id="the most that 32 bits hold"),
        pytest.param([20, 1], 64, id="more than 32 bits hold"),
        pytest.param([2, -1], 64, id="negative weights"),
        pytest.param([], 32, id="none"),
    ],
)
def test_the_width_of_keys(weights: list[int], bits: int) -> None:
    width = width_for(weights)
    assert width.itemsize * 8 == bits
    totals = [100 * sum(weights), 0, 100 * sum(weights)]
    keys = as_keys(np.array(totals, dtype=width) << ORDER_BITS)
    assert int(keys.argmax()) == 0
    assert (keys >> ORDER_BITS).tolist() == totals


def test_all_best_positions() -> None:
    assert best_positions(np.array([3, 9, 1, 9])) == [1, 3]


def pre_order(place: int, count: int) -> list[int]:
    """Return the places of a heap from one on down: itself, then left, then right."""
    if place > count:
        return []
    return [place, *pre_order(2 * place, count), *pre_order(2 * place + 1, count)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12, 100])
def test_every_place_of_a_heap_has_its_own_rank_in_pre_order(count: int) -> None:
    places = np.arange(1, count + 1)
    ranks = heap_order(places)
    assert len(set(ranks.tolist())) == count
    assert places[np.argsort(ranks)].tolist() == pre_order(1, count)
