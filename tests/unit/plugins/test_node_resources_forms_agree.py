"""Scores by columns, by the resource matrix, by rows and by upstream's arithmetic are equal."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cache.writer import ClusterWriter
from kubesched.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Code
from kubesched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from kubesched.snapshot.pod_info import resources_of
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import ClusterView
from tests.unit.plugins.builders import a_node, made, statuses_of
from tests.unit.plugins.resource_oracles import (
    INT64_MAX,
    INT64_MIN,
    SHAPE,
    as_int64,
    balance,
    insufficient,
    least,
    most,
    quotient,
    ratio,
    weighted,
)

RESOURCES = ("cpu", "memory", "ephemeral-storage")
NODE_COUNT = 4

ordinary = st.integers(0, 2**44)
edges = st.sampled_from([0, 1, 2, 99, 100, 2**46 - 1, 2**46, 2**53, 2**53 + 1, 2**56 + 3])
any_number = st.one_of(
    ordinary, edges, st.integers(INT64_MIN, INT64_MAX), st.sampled_from([INT64_MIN, INT64_MAX, -1])
)
# Beyond this, a deviation does not fit an int64, and Go's result depends on the machine.
moderate = st.one_of(ordinary, edges, st.integers(-(2**40), 2**60))


def numbers(values: Any) -> Any:
    """Return a strategy for a number per resource and node."""
    per_node = st.lists(values, min_size=NODE_COUNT, max_size=NODE_COUNT)
    return st.lists(per_node, min_size=len(RESOURCES), max_size=len(RESOURCES))


def requests_of(values: Any) -> Any:
    return st.lists(values, min_size=len(RESOURCES), max_size=len(RESOURCES))


def a_view(allocatable: Any, allocated: Any) -> ClusterView:
    """Return nodes with exactly these numbers, some of which no manifest can express."""
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    for index in range(NODE_COUNT):
        writer.set_node(a_node(f"n{index}"))
    cluster.nodes.allocatable[:, :NODE_COUNT] = allocatable
    cluster.nodes.requested[:, :NODE_COUNT] = allocated
    cluster.nodes.nonzero_requested[:, :NODE_COUNT] = allocated[:2]
    cluster.nodes.stale_rows.update(range(NODE_COUNT))
    for index, counters in enumerate(cluster.nodes.counters):
        counters.set_allocatable(resources_of(named(column[index] for column in allocatable)))
        counters.cpu_requested, counters.memory_requested, others = (
            column[index] for column in allocated
        )
        counters.others_requested[RESOURCES[2]] = others
        counters.cpu_nonzero, counters.memory_nonzero = (
            counters.cpu_requested,
            counters.memory_requested,
        )
    all_numbers = [
        number for columns in (allocatable, allocated) for line in columns for number in line
    ]
    cluster.nodes.has_small_numbers = all(0 <= number < 2**46 for number in all_numbers)
    return ClusterView(cluster)


def named(numbers: Iterable[int]) -> dict[str, int]:
    """Return numbers by resource name, in the order of `RESOURCES`."""
    return dict(zip(RESOURCES, numbers, strict=False))


def a_pod_of(requests: Any) -> Any:
    named = dict(zip(RESOURCES, requests, strict=True))
    shape = SimpleNamespace(scoring_requests=named, usage=named)
    return SimpleNamespace(shape=shape, requests=named)


def scores_in_all_forms(plugin: Any, pod: Any, view: ClusterView) -> list[int]:
    """Return the scores by columns; fail unless rows and the matrix give the same."""
    nodes = view.all_nodes()
    state = CycleState()
    if plugin.pre_score(state, pod, nodes) is not None:
        return []
    by_row = [plugin.score_nodes(state, pod, view.row(row)) for row in nodes.rows.tolist()]
    assert [type(score) for score in by_row] == [int] * len(by_row)
    scores: list[int] = plugin.score_nodes(state, pod, nodes).tolist()
    assert scores == by_row
    assert plugin.score_nodes(state, pod, view.nodes_at(np.array([2]))).tolist() == scores[2:3]
    by_matrix, matrix = plugin.matrix_score(state, pod), view.resource_matrix(nodes.rows)
    if by_matrix is not None and matrix is not None:
        assert by_matrix(matrix).tolist() == scores
        assert by_matrix(view.resource_matrix(None))[nodes.rows].tolist() == scores
    return scores


def fit(kind: Any, weights: tuple[int, ...], shape: Any = ()) -> NodeResourcesFit:
    resources = tuple(ResourceSpec(n, w) for n, w in zip(RESOURCES, weights, strict=False))
    points = tuple(UtilizationShapePoint(*point) for point in shape)
    strategy = ScoringStrategy(
        type=kind,
        resources=resources,
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(points) if shape else None,
    )
    return made(NodeResourcesFit, NodeResourcesFitArgs(scoring_strategy=strategy))


def per_node(columns: Any, requests: Any = (0, 0, 0)) -> list[list[int]]:
    return [
        [
            as_int64(column[node] + request)
            for column, request in zip(columns, requests, strict=True)
        ]
        for node in range(NODE_COUNT)
    ]


weightings = st.sampled_from([(1, 1, 1), (3, 1, 100), (1, 50, 2)])


@pytest.mark.parametrize(("kind", "rule"), [("LeastAllocated", least), ("MostAllocated", most)])
@given(
    allocatable=numbers(any_number),
    allocated=numbers(any_number),
    requests=requests_of(any_number),
    weights=weightings,
)
def test_percentages_overflow_and_round_like_int64(
    kind: str, rule: Any, allocatable: Any, allocated: Any, requests: Any, weights: Any
) -> None:
    view = a_view(allocatable, allocated)
    expected = [
        weighted(rule, weights, requested, capacity)
        for requested, capacity in zip(
            per_node(allocated, requests), per_node(allocatable), strict=True
        )
    ]
    assert scores_in_all_forms(fit(kind, weights), a_pod_of(requests), view) == expected


@given(
    allocatable=numbers(st.integers(1, 2**44)),
    allocated=numbers(ordinary),
    requests=requests_of(ordinary),
    weights=st.sampled_from([(1, 1), (3, 1), (1, 50)]),
)
def test_free_cpu_and_memory_by_the_matrix(
    allocatable: Any, allocated: Any, requests: Any, weights: Any
) -> None:
    view, plugin, pod = (
        a_view(allocatable, allocated),
        fit("LeastAllocated", weights),
        a_pod_of(requests),
    )
    expected = [
        weighted(least, weights, requested[:2], capacity[:2])
        for requested, capacity in zip(
            per_node(allocated, requests), per_node(allocatable), strict=True
        )
    ]
    assert scores_in_all_forms(plugin, pod, view) == expected
    state, matrix = CycleState(), view.resource_matrix(view.all_nodes().rows)
    plugin.pre_score(state, pod, view.all_nodes())
    score = plugin.matrix_score(state, pod)
    assert score is not None, "the matrix has cpu and memory"
    assert matrix is not None, "all numbers are small, and every node has capacity"
    assert score(matrix).tolist() == expected


@pytest.mark.parametrize("bits", [40, 45, 46, 47, 53, 54, 56, 60, 62])
def test_a_percentage_just_below_an_integer_is_rounded_down(bits: int) -> None:
    wholes = [whole for whole in range(2**bits - 40, 2**bits + 40) if whole % 100 in (1, 51, 99)]
    for whole in wholes:
        percent = pow(whole, -1, 100)
        # A hundred times this is one less than `percent` times `whole`.
        part = (percent * whole - 1) // 100
        capacity = [[whole] * NODE_COUNT] * len(RESOURCES)
        view = a_view(capacity, [[0] * NODE_COUNT] * len(RESOURCES))
        expected = most(part, whole)
        assert bits >= 57 or expected == percent - 1
        found = scores_in_all_forms(fit("MostAllocated", (1, 1, 1)), a_pod_of([part] * 3), view)
        assert found == [expected] * NODE_COUNT


@given(allocatable=numbers(ordinary), allocated=numbers(ordinary), requests=requests_of(ordinary))
def test_ordinary_percentages_are_integers(allocatable: Any, allocated: Any, requests: Any) -> None:
    view = a_view(allocatable, allocated)
    expected = [
        weighted(lambda r, c: max(c - r, 0) * 100 // c, (1, 1, 1), requested, capacity)
        for requested, capacity in zip(
            per_node(allocated, requests), per_node(allocatable), strict=True
        )
    ]
    assert (
        scores_in_all_forms(fit("LeastAllocated", (1, 1, 1)), a_pod_of(requests), view) == expected
    )


@given(
    allocatable=numbers(any_number),
    allocated=numbers(any_number),
    requests=requests_of(any_number),
    weights=weightings,
)
def test_ratios_follow_the_shape_in_all_forms(
    allocatable: Any, allocated: Any, requests: Any, weights: Any
) -> None:
    view = a_view(allocatable, allocated)
    expected = [
        ratio(weights, requested, capacity)
        for requested, capacity in zip(
            per_node(allocated, requests), per_node(allocatable), strict=True
        )
    ]
    plugin = fit("RequestedToCapacityRatio", weights, SHAPE)
    assert scores_in_all_forms(plugin, a_pod_of(requests), view) == expected


@pytest.mark.parametrize("count", [1, 2, 3])
@given(allocatable=numbers(moderate), allocated=numbers(moderate), requests=requests_of(moderate))
def test_balance_equals_upstreams_to_the_last_bit(
    count: int, allocatable: Any, allocated: Any, requests: Any
) -> None:
    args = NodeResourcesBalancedAllocationArgs(
        resources=tuple(ResourceSpec(name) for name in RESOURCES[:count])
    )
    plugin = made(NodeResourcesBalancedAllocation, args)
    view = a_view(allocatable, allocated)
    expected = []
    if any(requests[:count]):
        for before, after, capacity in zip(
            per_node(allocated),
            per_node(allocated, requests),
            per_node(allocatable),
            strict=True,
        ):
            change = balance(after[:count], capacity[:count]) - balance(
                before[:count], capacity[:count]
            )
            expected.append(50 + quotient(50 + change, 2))
    assert scores_in_all_forms(plugin, a_pod_of(requests), view) == expected


@given(
    allocatable=numbers(any_number),
    allocated=numbers(any_number),
    requests=requests_of(st.one_of(ordinary, edges, st.just(INT64_MAX))),
    pods=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=NODE_COUNT, max_size=NODE_COUNT
    ),
)
def test_columns_and_integers_give_equal_room(
    allocatable: Any, allocated: Any, requests: Any, pods: Any
) -> None:
    view = a_view(allocatable, allocated)
    nodes = view._cluster.nodes
    nodes.pod_count[:NODE_COUNT], nodes.allowed_pods[:NODE_COUNT] = zip(*pods, strict=True)
    for counters, (count, allowed) in zip(nodes.counters, pods, strict=True):
        counters.pod_count, counters.allowed_pods = count, allowed
    nodes.stale_rows.update(range(NODE_COUNT))
    plugin = fit("LeastAllocated", (1, 1, 1))
    state, table, pod = CycleState(), view.all_nodes(), a_pod_of(requests)
    plugin.pre_filter(state, pod, table)
    by_columns = statuses_of(plugin.filter_nodes(state, pod, table), table.names)
    for row, name in enumerate(table.names):
        whole, used = per_node(allocatable)[row], per_node(allocated)[row]
        reasons, small = insufficient(zip(RESOURCES, requests, whole, used, strict=True))
        if pods[row][0] + 1 > pods[row][1]:
            reasons.insert(0, "Too many pods")
        found = by_columns.get(name)
        assert (list(found.reasons) if found else []) == reasons
        if found is not None:
            assert (found.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE) is small
        verdict: Any = plugin.filter_nodes(state, pod, view.row(row))
        held = [r.status for r in verdict.rejections if r.mask]
        assert all(isinstance(r.mask, bool) for r in verdict.rejections)
        assert [reason for status in held for reason in status.reasons] == reasons
        assert small is any(s.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for s in held)
    rejects = plugin.any_row_rejected(state, pod)
    for matrix in (view.resource_matrix(table.rows), view.resource_matrix(None)):
        if rejects is not None and matrix is not None:
            assert rejects(matrix) is bool(by_columns)
