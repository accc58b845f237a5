"""The float columns of cpu and memory equal the integer columns after any number of changes."""

import numpy as np
import pytest

from kubesched.cache.cache import Cache
from kubesched.snapshot.node_columns import LEFT, NONZERO_LEFT
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
    """Return the lower bounds of the free amounts; check that no node has less."""
    matrix = cache.snapshot().resource_matrix(np.array([4, 2]))
    nodes = cache.snapshot().whole()
    assert matrix is not None
    requested = nodes.lines("requested", NAMES, np.int64)
    nonzero_requested = nodes.lines("nonzero_requested", NAMES, np.int64)
    allocatable = nodes.lines("allocatable", NAMES, np.int64)
    pods_left = nodes.allowed_pods - nodes.pod_count
    left = [*(allocatable - requested), pods_left, *(100 * (allocatable - nonzero_requested))]
    assert all(bound <= line.min() for bound, line in zip(matrix.lowest_left, left, strict=True))
    return list(matrix.lowest_left)


def assert_floats_are_current(cache: Cache) -> None:
    nodes = cache.snapshot().whole()
    allocatable = nodes.lines("allocatable", NAMES, np.int64)
    requested = nodes.lines("requested", NAMES, np.int64)
    nonzero_requested = nodes.lines("nonzero_requested", NAMES, np.int64)
    expected = {
        "allocatable": allocatable,
        "requested": requested,
        LEFT: allocatable - requested,
        NONZERO_LEFT: 100 * (allocatable - nonzero_requested),
    }
    for kind, lines in expected.items():
        assert nodes.lines(kind, NAMES, np.float64).tolist() == lines.tolist(), kind
        some = cache.snapshot().nodes_at(np.array([3, 1]))
        assert some.lines(kind, NAMES, np.float64).tolist() == lines[:, [3, 1]].tolist(), kind
    matrix = cache.snapshot().resource_matrix(None)
    assert matrix is not None
    pods_left = nodes.allowed_pods - nodes.pod_count
    assert matrix.left.tolist() == [*(allocatable - requested).tolist(), pods_left.tolist()]
    assert_matrix_is_current(cache)


def assert_matrix_is_current(cache: Cache) -> None:
    view = cache.snapshot()
    nodes, matrix = view.whole(), view.resource_matrix(None)
    assert matrix is not None
    assert matrix.lowest_left == lowest_left(cache)
    cpu, memory = nodes.lines("requested", NAMES, np.int64) / nodes.lines(
        "allocatable", NAMES, np.int64
    )
    differences = np.minimum(cpu, 1.0) - np.minimum(memory, 1.0)
    evenness = [int((1 - abs(difference / 2)) * 100) for difference in differences.tolist()]
    assert (150 - matrix.unevenness).tolist() == evenness
    some = view.resource_matrix(np.array([3, 1]))
    assert some is not None
    assert some.unevenness.tolist() == matrix.unevenness[[3, 1]].tolist()


@pytest.mark.parametrize("changed", [1, 5, NODE_COUNT])
def test_floats_follow_any_number_of_changed_rows(cache: Cache, changed: int) -> None:
    assert_floats_are_current(cache)
    for number in range(changed):
        requests = {"cpu": "100m"} if number % 2 else {"cpu": "250m", "memory": "64Mi"}
        cache.add_pod(a_pod(f"p{number}", requests=requests, nodeName=f"n{number}"))
        cache.add_pod(a_pod(f"q{number}", nodeName=f"n{number}"))
    assert_floats_are_current(cache)
    for number in range(changed):
        cache.remove_pod(a_pod(f"p{number}", nodeName=f"n{number}"))
    assert_floats_are_current(cache)


def test_the_bound_holds_when_the_fullest_node_empties(cache: Cache) -> None:
    assert_matrix_is_current(cache)
    cache.add_pod(a_pod("large", requests={"cpu": "6", "memory": "9Gi"}, nodeName="n4"))
    assert_matrix_is_current(cache)
    cache.add_pod(a_pod("larger", requests={"cpu": "7"}, nodeName="n5"))
    assert_matrix_is_current(cache)
    cache.remove_pod(a_pod("large", nodeName="n4"))
    assert_matrix_is_current(cache)
    cache.remove_pod(a_pod("larger", nodeName="n5"))
    assert_matrix_is_current(cache)


def test_floats_of_an_overcommitted_node(cache: Cache) -> None:
    cache.add_pod(a_pod("large", requests={"cpu": "60"}, nodeName="n4"))
    assert_matrix_is_current(cache)
    for number in range(NODE_COUNT):
        cache.add_pod(a_pod(f"p{number}", requests={"memory": "200Gi"}, nodeName=f"n{number}"))
    assert_matrix_is_current(cache)


def test_floats_follow_changed_removed_and_added_nodes(cache: Cache) -> None:
    assert_floats_are_current(cache)
    cache.add_node(a_wire_node("n0", allocatable={"cpu": "1", "memory": "1Gi", "pods": "3"}))
    cache.remove_node("n7")
    cache.add_node(a_wire_node("new", allocatable={"cpu": "3", "memory": "5Gi", "pods": "9"}))
    assert_floats_are_current(cache)
    for number in range(100):
        cache.add_node(a_wire_node(f"more-{number}"))
    assert_floats_are_current(cache)


def test_the_bound_is_at_most_the_free_amount_of_every_node(cache: Cache) -> None:
    empty = lowest_left(cache)
    assert empty[:3] == [4000, 8 * 2**30, 110]
    big = a_pod("big", requests={"cpu": "40", "memory": "1Gi"}, nodeName="n39")
    cache.add_pod(big)
    assert lowest_left(cache)[0] == 3000
    cache.remove_pod(big)
    for number in range(NODE_COUNT // 8 + 1):  # After so many changes the bound is recomputed.
        cache.add_pod(a_pod(f"p{number}", requests={"memory": "1Gi"}, nodeName="n49"))
        bounds = lowest_left(cache)
    assert bounds[0] == empty[0]
    cache.remove_node("n0")
    cache.add_pod(a_pod("lost", requests={"cpu": "99"}, nodeName="unknown"))
    for number in range(NODE_COUNT):
        cache.add_pod(a_pod(f"q{number}", nodeName=f"n{1 + number % 49}"))
    assert lowest_left(cache)[0] == 5000
