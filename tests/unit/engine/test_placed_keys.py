"""Keys to which others add are what adding everything up anew would give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kubesched.engine.placed_keys import PlacedKeys, summed_keys
from kubesched.engine.selection import as_keys
from kubesched.framework.followers import Added
from kubesched.framework.totals import ORDER_BITS

# Rows 1 and 4 do not fit.
POSITIONS = np.array([0, 2, 3, 5, *range(6, 60)])
SLOTS = np.full(60, -1)
SLOTS[POSITIONS] = np.arange(len(POSITIONS))


def placed_over(plan: Any) -> PlacedKeys:
    return PlacedKeys(plan, None, SLOTS, as_keys(plan.raised_sum.take(POSITIONS)))


def anew(plan: Any, live: list[Added]) -> list[int]:
    total = plan.raised_sum.take(POSITIONS) >> ORDER_BITS
    for added in live:
        total = total + added.column()
    keys: list[int] = as_keys(total << ORDER_BITS).tolist()
    return keys


@pytest.mark.parametrize("changed", [[3], [4, 5], list(range(10))])
def test_rows_that_change_and_rows_that_get_another_amount(changed: list[int]) -> None:
    plan: Any = SimpleNamespace(raised_sum=np.arange(60) % 7 << ORDER_BITS)
    placed, moved = placed_over(plan), list[int]()
    ways = np.arange(len(POSITIONS)) % 3
    live = [Added(np.array([10, 20, 30]), ways, moved), Added(np.arange(len(POSITIONS)))]
    first = placed.with_live(live)
    assert first.tolist() == anew(plan, live)
    assert placed.with_live(live).tolist() == anew(plan, live)
    plan.raised_sum[changed] = 50 << ORDER_BITS
    assert placed.update(changed)
    ways[2] = 0
    moved.append(2)
    again = placed.with_live(live)
    assert again.tolist() == anew(plan, live)
    other = [Added(np.array([1, 2, 3]), ways)]
    assert placed.with_live(other).tolist() == anew(plan, other)
    assert placed.keys.tolist() == anew(plan, [])


def test_what_is_the_same_is_not_added_up_again() -> None:
    plan: Any = SimpleNamespace(raised_sum=np.zeros(60, dtype=np.int64))
    placed, live = placed_over(plan), [Added(np.array([1]), np.zeros(len(POSITIONS), np.intp))]
    first = placed.with_live(live).tolist()
    assert placed.with_live(list(live)).tolist() == first
    live[0].amounts[0] = 2
    assert placed.with_live(list(live)).tolist() == first, "it is known by what it is"
    assert placed.with_live([Added(*live[0])]).tolist() == anew(plan, live) != first


def test_too_many_rows_are_not_taken_over() -> None:
    plan: Any = SimpleNamespace(raised_sum=np.zeros(60, dtype=np.int64))
    assert not placed_over(plan).update(range(20))


def test_the_keys_themselves_are_not_written() -> None:
    keys = np.zeros(3, dtype=np.int64)
    assert summed_keys(keys, [Added(np.array([1, 2, 3]))]).any()
    assert not keys.any()
