"""The three strategies of NodeResourcesFit, and NodeResourcesBalancedAllocation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP
from kubesched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from kubesched.plugins.node_resources.resource_allocation import percent_of
from kubesched.plugins.node_resources.strategies import broken_linear
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made

GPU = "example.com/gpu"


def fit(kind: Any = "LeastAllocated", shape: Any = None, **weights: int) -> NodeResourcesFit:
    names = {"gpu": GPU}
    resources = tuple(
        ResourceSpec(names.get(name, name), weight) for name, weight in weights.items()
    ) or (ResourceSpec("cpu"), ResourceSpec("memory"))
    param = None
    if shape is not None:
        points = tuple(UtilizationShapePoint(*point) for point in shape)
        param = RequestedToCapacityRatioParam(points)
    strategy = ScoringStrategy(type=kind, resources=resources, requested_to_capacity_ratio=param)
    return made(NodeResourcesFit, NodeResourcesFitArgs(scoring_strategy=strategy))


def scores(plugin: Any, pod: Any, nodes: Any, pods: Any = None) -> Any:
    table = a_cluster(nodes, pods).all_nodes()
    state = CycleState()
    assert plugin.pre_score(state, pod, table) is None
    found = plugin.score_nodes(state, pod, table)
    # The scores are the same if PreScore is disabled.
    assert plugin.score_nodes(CycleState(), pod, table).tolist() == found.tolist()
    assert found.dtype == np.int64
    return found.tolist()


NODES = [
    a_node("small", allocatable={"cpu": "4", "memory": "8Gi"}),
    a_node("large", allocatable={"cpu": "10", "memory": "20Gi"}),
]
# On the small node, 1 of 4 cores and 1 of 8 GiB are requested.
PODS = {"small": [a_pod("old", requests={"cpu": "1", "memory": "1Gi"})]}
POD = a_pod(requests={"cpu": "2", "memory": "2Gi"})


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        # small: cpu (4-3)/4 = 25, memory (8-3)/8 = 62; large: 80 and 90.
        pytest.param(fit(), [43, 85], id="least allocated"),
        pytest.param(fit(cpu=3, memory=1), [34, 82], id="least allocated, weighted"),
        # small: 75 and 37; large: 20 and 10.
        pytest.param(fit("MostAllocated"), [56, 15], id="most allocated"),
        pytest.param(
            fit("MostAllocated", cpu=1, memory=3), [46, 12], id="most allocated, weighted"
        ),
        # A line from 0 to 100: the same percentages, their mean rounded.
        pytest.param(
            fit("RequestedToCapacityRatio", [(0, 0), (100, 10)]),
            [56, 15],
            id="ratio, fuller is better",
        ),
        # Scores 100 - u: small 25 and 63, large 80 and 90; 44 and 85.
        pytest.param(
            fit("RequestedToCapacityRatio", [(0, 10), (100, 0)]),
            [44, 85],
            id="ratio, emptier is better",
        ),
    ],
)
def test_strategies(plugin: Any, expected: Any) -> None:
    assert scores(plugin, POD, NODES, PODS) == expected


def test_a_container_without_requests_counts_with_defaults() -> None:
    # 100m of 1 core and 200 MiB of 2000 MiB, for the pod there and for the new one.
    nodes = [a_node("n", allocatable={"cpu": "1", "memory": "2000Mi"})]
    assert scores(fit(), a_pod(), nodes, {"n": [a_pod("old")]}) == [80]


def test_a_request_beyond_the_nodes_capacity_scores_zero() -> None:
    nodes = [a_node("n", allocatable={"cpu": "1", "memory": "8Gi"})]
    assert scores(fit(), POD, nodes) == [37]
    assert scores(fit("MostAllocated"), POD, nodes) == [62]


def test_an_extended_resource_counts_only_if_requested_and_allocatable() -> None:
    nodes = [
        a_node("gpus", allocatable={"cpu": "4", GPU: "4"}),
        a_node("no", allocatable={"cpu": "4"}),
    ]
    plugin = fit(cpu=1, gpu=3)
    assert scores(plugin, a_pod(requests={"cpu": "1"}), nodes) == [75, 75]
    # cpu 75, gpu (4-2)/4 = 50 three times; without the resource cpu alone.
    assert scores(plugin, a_pod(requests={"cpu": "1", GPU: "2"}), nodes) == [56, 75]


def test_a_node_without_any_of_the_resources_scores_zero() -> None:
    assert scores(fit(), POD, [a_node("n", allocatable={"pods": "1"})]) == [0]


def test_ratio_leaves_out_resources_that_score_nothing() -> None:
    # cpu is at 50 percent and scores 0; memory at 100 scores 100 alone.
    plugin = fit("RequestedToCapacityRatio", [(50, 0), (100, 10)])
    nodes = [a_node("n", allocatable={"cpu": "4", "memory": "2Gi"})]
    assert scores(plugin, POD, nodes) == [100]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(0, 100, id="flat before the first point"),
        pytest.param(25, 78, id="falling pieces truncate towards the left point"),
        pytest.param(70, 0, id="a point"),
        pytest.param(85, 15, id="rising"),
        pytest.param(100, 30, id="the last point"),
    ],
)
def test_broken_linear(at: Any, expected: Any) -> None:
    assert broken_linear([(10, 100), (50, 40), (70, 0), (100, 30)], at) == expected


def test_broken_linear_is_flat_after_the_last_point() -> None:
    assert broken_linear([(10, 100), (50, 40)], 90) == 40


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62 // 100), st.integers(1, 2**62 // 100)),
        min_size=1,
        max_size=8,
    )
)
def test_percentages_are_exact_whatever_the_size(pairs: Any) -> None:
    parts, wholes = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    assert percent_of(parts, wholes).tolist() == [100 * part // whole for part, whole in pairs]


def balanced(*names: str) -> NodeResourcesBalancedAllocation:
    resources = tuple(ResourceSpec(name) for name in names or ("cpu", "memory"))
    args = NodeResourcesBalancedAllocationArgs(resources=resources)
    return made(NodeResourcesBalancedAllocation, args)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        # Half of the node's cpu and none of its memory are requested: balance 75.
        pytest.param({"cpu": "1", "memory": "2Gi"}, 75, id="as unbalanced as before"),
        pytest.param({"memory": "4Gi"}, 87, id="evened out: 50 + (50 + 100 - 75) / 2"),
        pytest.param({"cpu": "2"}, 62, id="more unbalanced: 50 + (50 + 50 - 75) / 2"),
        pytest.param({"cpu": "9", "memory": "9Gi"}, 87, id="overfull counts as full"),
    ],
)
def test_balance(requests: Any, expected: Any) -> None:
    nodes = [a_node("n", allocatable={"cpu": "4", "memory": "8Gi"})]
    pods = {"n": [a_pod("old", requests={"cpu": "2"})]}
    assert scores(balanced(), a_pod(requests=requests), nodes, pods) == [expected]


def test_balance_of_three_is_by_standard_deviation() -> None:
    nodes = [a_node("n", allocatable={"cpu": "4", "memory": "8Gi", GPU: "4"})]
    pod = a_pod(requests={"cpu": "4", "memory": "4Gi", GPU: "0"})
    # Without gpus: 1 and 0.5, deviation 0.25, 75; before, all alike: 50 + (50 + 75 - 100) / 2.
    assert scores(balanced("cpu", "memory", GPU), pod, nodes) == [62]
    # With half of them: 1, 0.5, 0.5: deviation 0.2357, 76; 50 + (50 + 76 - 100) / 2.
    pod = a_pod(requests={"cpu": "4", "memory": "4Gi", GPU: "2"})
    assert scores(balanced("cpu", "memory", GPU), pod, nodes) == [63]


def test_a_single_resource_is_always_balanced() -> None:
    nodes = [a_node("n", allocatable={"cpu": "4"})]
    assert scores(balanced(), a_pod(requests={"cpu": "4"}), nodes) == [75]


def test_a_pod_without_requests_skips_balance() -> None:
    table = a_cluster(NODES).all_nodes()
    assert balanced().pre_score(CycleState(), a_pod(), table) is SKIP
    assert balanced().score_nodes(CycleState(), a_pod(), table).tolist() == [0, 0]
