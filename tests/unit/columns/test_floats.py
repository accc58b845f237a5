"""Cpu and memory as floats say what the integers say, however many rows have changed."""

import numpy as np
import pytest

from kubesched.cache.cache import Cache
from kubesched.columns.node_columns import LEFT, NONZERO_LEFT
from tests.unit.builders import a_pod, a_wire_node

NAMES = ("cpu", "memory")
NODE_COUNT = 50


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    for number in range(NODE_COUNT):
        allocatable = {"cpu": str(4 + number), "memory": f"{8 + number}Gi", "pods": "110"}
        cache.add_node(a_wire_node(f"n{number}", allocatable=allocatable))
    return cache


def lowest_left(cache: Cache) -> list[float]:
    """Return the bound of what is left on any node, having seen that it is one."""
    lines = cache.snapshot().lines(np.array([4, 2]))
    nodes = cache.snapshot().whole()
    assert lines is not None
    taken = nodes.lines("requested", NAMES, np.int64)
    weighed = nodes.lines("nonzero_requested", NAMES, np.int64)
    offered = nodes.lines("allocatable", NAMES, np.int64)
    pods_more = nodes.allowed_pods - nodes.pod_count
    left = [*(offered - taken), pods_more, *(100 * (offered - weighed))]
    assert all(bound <= line.min() for bound, line in zip(lines.lowest_left, left, strict=True))
    return list(lines.lowest_left)


def assert_floats_are_current(cache: Cache) -> None:
    nodes = cache.snapshot().whole()
    offered = nodes.lines("allocatable", NAMES, np.int64)
    taken = nodes.lines("requested", NAMES, np.int64)
    weighed = nodes.lines("nonzero_requested", NAMES, np.int64)
    expected = {
        "allocatable": offered,
        "requested": taken,
        LEFT: offered - taken,
        NONZERO_LEFT: 100 * (offered - weighed),
    }
    for kind, lines in expected.items():
        assert nodes.lines(kind, NAMES, np.float64).tolist() == lines.tolist(), kind
        some = cache.snapshot().nodes_at(np.array([3, 1]))
        assert some.lines(kind, NAMES, np.float64).tolist() == lines[:, [3, 1]].tolist(), kind
    room = nodes.room()
    assert room is not None
    pods_more = nodes.allowed_pods - nodes.pod_count
    assert room.tolist() == [*(offered - taken).tolist(), pods_more.tolist()]
    assert_lines_of_all_are_current(cache)


def assert_lines_of_all_are_current(cache: Cache) -> None:
    view = cache.snapshot()
    nodes, lines = view.whole(), view.lines(None)
    assert lines is not None
    assert lines.lowest_left == lowest_left(cache)
    cpu, memory = nodes.lines("requested", NAMES, np.int64) / nodes.lines(
        "allocatable", NAMES, np.int64
    )
    differences = np.minimum(cpu, 1.0) - np.minimum(memory, 1.0)
    evenness = [int((1 - abs(difference / 2)) * 100) for difference in differences.tolist()]
    assert (150 - lines.unevenness).tolist() == evenness
    some = view.lines(np.array([3, 1]))
    assert some is not None
    assert some.unevenness.tolist() == lines.unevenness[[3, 1]].tolist()


@pytest.mark.parametrize("changed", [1, 5, NODE_COUNT])
def test_after_any_number_of_changes(cache: Cache, changed: int) -> None:
    assert_floats_are_current(cache)
    for number in range(changed):
        requests = {"cpu": "100m"} if number % 2 else {"cpu": "250m", "memory": "64Mi"}
        cache.add_pod(a_pod(f"p{number}", requests=requests, nodeName=f"n{number}"))
        cache.add_pod(a_pod(f"q{number}", nodeName=f"n{number}"))
    assert_floats_are_current(cache)
    for number in range(changed):
        cache.remove_pod(a_pod(f"p{number}", nodeName=f"n{number}"))
    assert_floats_are_current(cache)


def test_the_lowest_when_it_has_more_again(cache: Cache) -> None:
    assert_lines_of_all_are_current(cache)
    cache.add_pod(a_pod("large", requests={"cpu": "6", "memory": "9Gi"}, nodeName="n4"))
    assert_lines_of_all_are_current(cache)
    cache.add_pod(a_pod("larger", requests={"cpu": "7"}, nodeName="n5"))
    assert_lines_of_all_are_current(cache)
    cache.remove_pod(a_pod("large", nodeName="n4"))
    assert_lines_of_all_are_current(cache)
    cache.remove_pod(a_pod("larger", nodeName="n5"))
    assert_lines_of_all_are_current(cache)


def test_more_is_used_than_there_is(cache: Cache) -> None:
    cache.add_pod(a_pod("large", requests={"cpu": "60"}, nodeName="n4"))
    assert_lines_of_all_are_current(cache)
    for number in range(NODE_COUNT):
        cache.add_pod(a_pod(f"p{number}", requests={"memory": "200Gi"}, nodeName=f"n{number}"))
    assert_lines_of_all_are_current(cache)


def test_after_nodes_changed_went_and_came(cache: Cache) -> None:
    assert_floats_are_current(cache)
    cache.add_node(a_wire_node("n0", allocatable={"cpu": "1", "memory": "1Gi", "pods": "3"}))
    cache.remove_node("n7")
    cache.add_node(a_wire_node("new", allocatable={"cpu": "3", "memory": "5Gi", "pods": "9"}))
    assert_floats_are_current(cache)
    for number in range(100):
        cache.add_node(a_wire_node(f"more-{number}"))
    assert_floats_are_current(cache)


def test_room_is_not_told_of_part_of_the_nodes(cache: Cache) -> None:
    assert cache.snapshot().nodes_at(np.array([1])).room() is None


def test_no_node_has_less_left_than_the_bound(cache: Cache) -> None:
    empty = lowest_left(cache)
    assert empty[:3] == [4000, 8 * 2**30, 110]
    big = a_pod("big", requests={"cpu": "40", "memory": "1Gi"}, nodeName="n39")
    cache.add_pod(big)
    assert lowest_left(cache)[0] == 3000
    cache.remove_pod(big)
    for number in range(NODE_COUNT // 8 + 1):  # After so many changes it is looked for anew.
        cache.add_pod(a_pod(f"p{number}", requests={"memory": "1Gi"}, nodeName="n49"))
        found = lowest_left(cache)
    assert found[0] == empty[0]
    cache.remove_node("n0")
    cache.add_pod(a_pod("lost", requests={"cpu": "99"}, nodeName="unknown"))
    for number in range(NODE_COUNT):
        cache.add_pod(a_pod(f"q{number}", nodeName=f"n{1 + number % 49}"))
    assert lowest_left(cache)[0] == 5000
