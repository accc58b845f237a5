"""The pods of a row from the most to the least important."""

from typing import Any

import numpy as np
import pytest

from kubesched.cache.cache import Cache
from kubesched.snapshot import pod_importance as importance
from kubesched.snapshot.pod_importance import NO_PRIORITY
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_wire_node, a_wire_pod


def a_cache(*nodes: str) -> Cache:
    cache = Cache()
    for name in nodes:
        cache.add_node(a_wire_node(name))
    return cache


def add(cache: Cache, name: str, node_name: str, priority: int = 0, **status: Any) -> None:
    pod = a_wire_pod(name, priority=priority, status=status, nodeName=node_name)
    cache.add_pod(cache.pod_info(pod))


def order(view: ClusterView, *nodes: str) -> list[list[str]]:
    rows = np.array([view.row_of(name) for name in nodes])
    lines = view.importance.matrix(rows).tolist()
    return [[view.bound_pod(index).name for index in line if index >= 0] for line in lines]


def lowest(view: ClusterView, *nodes: str) -> list[int]:
    return view.importance.lowest_priority(np.array([view.row_of(n) for n in nodes])).tolist()


def test_pods_are_ordered_by_priority_then_start_time_then_name() -> None:
    cache = a_cache("n1")
    add(cache, "late", "n1", 5, startTime="2024-05-01T00:09:00Z")
    add(cache, "never-b", "n1", 5)
    add(cache, "never-a", "n1", 5)
    add(cache, "early", "n1", 5, startTime="2024-05-01T00:01:00Z")
    add(cache, "high", "n1", 7)
    add(cache, "low", "n1", -3)
    expected = ["high", "early", "late", "never-a", "never-b", "low"]
    assert order(cache.snapshot(), "n1") == [expected]
    assert lowest(cache.snapshot(), "n1") == [-3]


def test_lines_of_rows_with_fewer_pods_are_padded() -> None:
    cache = a_cache("n1", "n2", "n3")
    for number in range(12):
        add(cache, f"p{number:02d}", "n1")
    add(cache, "alone", "n2", 9)
    view = cache.snapshot()
    assert order(view, "n3", "n2", "n1") == [[], ["alone"], [f"p{n:02d}" for n in range(12)]]
    assert lowest(view, "n1", "n2", "n3") == [0, 9, int(NO_PRIORITY)]


def test_many_rows_are_sorted_at_once() -> None:
    names = [f"n{number}" for number in range(importance.ROWS_ONE_BY_ONE_MAX + 3)]
    cache = a_cache(*names)
    for number, node in enumerate(names[2:]):
        add(cache, f"late-{number}", node, 5, startTime="2024-05-01T00:09:00Z")
        add(cache, f"early-{number}", node, 5, startTime="2024-05-01T00:01:00Z")
        add(cache, f"high-{number}", node, 7)
    add(cache, "low", "n2", -3)
    for name in ("never-b", "never-a", "never-c"):
        add(cache, name, "n1", 5)  # Equal priority and start time: by name.
    expected: list[list[str]] = [[], ["never-a", "never-b", "never-c"]]
    expected += [[f"high-{n}", f"early-{n}", f"late-{n}"] for n in range(len(names) - 2)]
    expected[2].append("low")
    assert order(cache.snapshot(), *names) == expected
    assert order(cache.snapshot(), *reversed(names)) == expected[::-1]


@pytest.mark.parametrize("changes_max", [0, 4096], ids=["rebuilt", "followed row by row"])
def test_the_order_follows_added_and_removed_pods(
    monkeypatch: pytest.MonkeyPatch, changes_max: int
) -> None:
    monkeypatch.setattr(importance, "CHANGES_MAX", changes_max)
    cache = a_cache("n1", "n2")
    add(cache, "a", "n1", 1)
    add(cache, "b", "n1", 2)
    assert order(cache.snapshot(), "n1", "n2") == [["b", "a"], []]
    add(cache, "c", "n2", 3)
    add(cache, "b", "n1", 0)  # With another priority.
    assert order(cache.snapshot(), "n1", "n2") == [["a", "b"], ["c"]]
    assert lowest(cache.snapshot(), "n1", "n2") == [0, 3]
    for name in ("a", "c"):
        cache.remove_pod(cache.pod_info(a_wire_pod(name)))
    assert order(cache.snapshot(), "n1", "n2") == [["b"], []]
    assert lowest(cache.snapshot(), "n1", "n2") == [0, int(NO_PRIORITY)]


def test_nodes_added_later_have_rows() -> None:
    cache = a_cache("n0")
    assert lowest(cache.snapshot(), "n0") == [int(NO_PRIORITY)]
    for number in range(1, 40):
        cache.add_node(a_wire_node(f"n{number}"))
    add(cache, "a", "n39", 4)
    assert order(cache.snapshot(), "n39", "n0") == [["a"], []]
    assert lowest(cache.snapshot(), "n39", "n38") == [4, int(NO_PRIORITY)]


def test_nominated_pods_do_not_count() -> None:
    cache = a_cache("n1")
    cache.nominate_pod(cache.pod_info(a_wire_pod("p", priority=1)), "n1")
    assert order(cache.snapshot(), "n1") == [[]]
    assert lowest(cache.snapshot(), "n1") == [int(NO_PRIORITY)]
