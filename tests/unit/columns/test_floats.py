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
