"""The simulated week, and how its leftovers are counted."""

from __future__ import annotations

import pytest

from benchmarks.churn import RESIDENT, World, grown_too_much
from benchmarks.tables import table_sizes
from kubesched.snapshot.interning import Interner


def test_pods_and_nodes_are_replaced_one_by_one() -> None:
    world = World(node_count=4, pods_per_node=5)
    names = set(world.nodes)
    uids = {uid for pods in world.placed for uid in pods}
    for i in range(20):
        world.replace_pod(decide=i % 2 == 0)
    for _ in range(40):
        world.replace_node()
    view = world.cache.snapshot()
    assert view.node_count == 4
    assert int(view.all_nodes().pod_count.sum()) == 20
    assert sorted(view.all_nodes().names) == sorted(world.nodes)
    assert not names & set(world.nodes)
    assert not uids & {uid for pods in world.placed for uid in pods}
    assert world.decisions == 10


def test_every_container_counts_under_the_path_to_it() -> None:
    first: Interner[str] = Interner()
    first.intern("a")
    first.intern("b")
    sizes = table_sizes(one=first, many={"x": first, "y": Interner[str]()})
    assert sizes["one.values"] == 2
    assert sizes["many"] == 2
    assert sizes["many[].values"] == 0  # The first is counted already.


def test_growth_is_reported_for_doubled_but_not_for_bounded_figures() -> None:
    first = {"cache.a": 5000.0, "cache.b": 10.0, "profiles[].c": 10.0, RESIDENT: 100.0}

    def grown(**last: float) -> list[str]:
        return grown_too_much([first, first, {**first, **last}])

    assert grown(**{"cache.a": 12_048}) == []
    assert grown(**{"cache.a": 12_049}) == ["cache.a"]
    assert grown(**{"profiles[].c": 1e6}) == []
    assert grown(**{"cache.new": 2049.0}) == ["cache.new"]


@pytest.mark.parametrize(
    ("resident", "has_grown"),
    [
        pytest.param([50, 100, 150, 190, 195, 196, 195, 196], False, id="caches fill, then rest"),
        pytest.param(
            [50, 100, 110, 120, 130, 140, 150, 160], True, id="it rises for the whole week"
        ),
        pytest.param([50, 190, 190, 190, 190, 190, 190, 230], True, id="much more in the end"),
        pytest.param([50, 190, 190, 190, 195, 200, 205, 210], True, id="slowly, but without end"),
        pytest.param([50, 200, 200, 200, 190, 195, 188, 192], False, id="up and down"),
    ],
)
def test_memory_may_fill_up_in_the_first_half_of_the_week_only(
    resident: list[float], has_grown: bool
) -> None:
    assert bool(grown_too_much([{RESIDENT: mb} for mb in resident])) is has_grown
