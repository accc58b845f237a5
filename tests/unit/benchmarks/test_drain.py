"""Every workload has its expected outcome, at a size that takes little time."""

from __future__ import annotations

import pytest

from benchmarks.drain import Drained, Limits, drain, load
from benchmarks.generate import Maker
from benchmarks.workload import load_workload, workload_names
from kubesched.cache.cache import Cache

NODES = 20


def drained(name: str, *, caching: bool = True, seconds_max: float = 50) -> tuple[Cache, Drained]:
    workload = load_workload(name)
    maker, cache = Maker(NODES, seed=1), Cache()
    assert load(cache, maker.cluster(workload.cluster)) == []
    limits = Limits(seconds_max, caching)
    return cache, drain(cache, workload, maker.workload(workload), limits)


@pytest.mark.parametrize("name", workload_names())
def test_every_pod_of_the_burst_gets_the_outcome_of_its_workload(name: str) -> None:
    _, result = drained(name)
    expected = {
        "placed": (result.burst, 0, 0),
        "preempting": (result.burst, result.burst, 0),
        "unschedulable": (0, 0, result.burst),
    }[load_workload(name).expect]
    assert result.is_complete
    assert (result.placed, result.preempting, result.unschedulable) == expected


def test_placed_pods_count_in_the_columns() -> None:
    cache, result = drained("one-template")
    assert result.burst == 2 * NODES
    assert int(cache.snapshot().all_nodes().pod_count.sum()) == 22 * NODES


def test_victims_are_removed() -> None:
    cache, result = drained("preemption-4")
    # Each pod requests 3 of the 4 cores of a victim, so it replaces exactly one.
    assert int(cache.snapshot().all_nodes().pod_count.sum()) == 4 * NODES
    assert result.preempting == 4


def test_a_run_ends_when_time_is_up() -> None:
    _, result = drained("one-template", seconds_max=0)
    assert result.decided == 1
    assert not result.is_complete
