"""NodeResourcesFit rejects nodes without room, and reports every insufficient resource."""

from typing import Any

import numpy as np
import pytest

from kubesched.config.types import NodeResourcesFitArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import error, unresolvable, unschedulable
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from tests.unit.plugins.builders import (
    a_cluster,
    a_node,
    a_pod,
    a_trial,
    made,
    statuses_of,
)

GPU = "example.com/gpu"
ROOM = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", GPU: "2", "pods": "3"}


def rejected(pod: Any, nodes: Any, **args: Any) -> Any:
    plugin, state = made(NodeResourcesFit, NodeResourcesFitArgs(**args)), CycleState()
    assert plugin.pre_filter(state, pod, nodes) is None
    return statuses_of(plugin.filter_nodes(state, pod, nodes), nodes.names)


def half_full() -> Any:
    used = a_pod("old", requests={"cpu": "2", "memory": "4Gi", GPU: "1"})
    return a_cluster([a_node("n", allocatable=ROOM)], {"n": [used]})


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param({"cpu": "2", "memory": "4Gi", GPU: "1"}, None, id="exactly what is left"),
        pytest.param({}, None, id="nothing"),
        pytest.param({"cpu": "2001m"}, unschedulable("Insufficient cpu"), id="too much cpu"),
        pytest.param(
            {"cpu": "4001m"}, unresolvable("Insufficient cpu"), id="more than the node has"
        ),
        pytest.param(
            {"cpu": "3", "memory": "5Gi", "ephemeral-storage": "11Gi"},
            unresolvable(
                "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"
            ),
            id="all reasons, and the worst code",
        ),
        pytest.param({GPU: "2"}, unschedulable(f"Insufficient {GPU}"), id="extended resource"),
        pytest.param(
            {"example.com/fpga": "1"},
            unresolvable("Insufficient example.com/fpga"),
            id="one that the node does not know",
        ),
        pytest.param({"example.com/fpga": "0"}, None, id="none of one it does not know"),
        pytest.param(
            {"hugepages-2Mi": "4Mi"}, unresolvable("Insufficient hugepages-2Mi"), id="huge pages"
        ),
    ],
)
def test_filter(requests: Any, expected: Any) -> None:
    found = rejected(a_pod(requests=requests), half_full().all_nodes())
    assert found == ({} if expected is None else {"n": expected})


@pytest.mark.parametrize(
    ("count", "requests", "expected"),
    [
        pytest.param(2, {}, None, id="one place left"),
        pytest.param(3, {}, unschedulable("Too many pods"), id="full, for a pod without requests"),
        pytest.param(
            3,
            {"cpu": "5"},
            unresolvable("Too many pods", "Insufficient cpu"),
            id="full and too small",
        ),
        pytest.param(
            3, {"cpu": "1"}, unschedulable("Too many pods"), id="full alone is resolvable"
        ),
    ],
)
def test_number_of_pods(count: Any, requests: Any, expected: Any) -> None:
    pods = [a_pod(f"old{i}") for i in range(count)]
    view = a_cluster([a_node("n", allocatable=ROOM)], {"n": pods})
    found = rejected(a_pod(requests=requests), view.all_nodes())
    assert found == ({} if expected is None else {"n": expected})


def test_a_node_without_allocatable_pods_takes_none() -> None:
    view = a_cluster([a_node("n", allocatable={"cpu": "1"})])
    assert rejected(a_pod(), view.all_nodes()) == {"n": unschedulable("Too many pods")}


@pytest.mark.parametrize(
    ("args", "resource", "ignored"),
    [
        pytest.param({"ignored_resources": (GPU,)}, GPU, True, id="by name"),
        pytest.param({"ignored_resource_groups": ("example.com",)}, GPU, True, id="by group"),
        pytest.param({"ignored_resources": ("cpu",)}, "cpu", False, id="not a native one"),
        pytest.param(
            {"ignored_resources": ("hugepages-2Mi",)}, "hugepages-2Mi", False, id="nor huge pages"
        ),
        pytest.param({"ignored_resource_groups": ("com",)}, GPU, False, id="nor part of a group"),
    ],
)
def test_ignored_resources(args: Any, resource: Any, ignored: Any) -> None:
    found = rejected(a_pod(requests={resource: "100"}), half_full().all_nodes(), **args)
    assert (not found) is ignored


def test_init_containers_and_overhead_count() -> None:
    init = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]
    pod = a_pod(requests={"cpu": "1"}, initContainers=init, overhead={"cpu": "501m"})
    assert rejected(pod, half_full().all_nodes()) == {"n": unschedulable("Insufficient cpu")}


def test_a_trial_without_the_other_pod_has_room() -> None:
    view = half_full()
    trial = a_trial(view, "n")
    trial.remove(np.array([view.pods.index_of["uid-default-old"]], dtype=np.int32))
    assert rejected(a_pod(requests={"cpu": "4"}), trial.nodes) == {}
    assert rejected(a_pod(requests={"cpu": "4"}), view.all_nodes()) != {}


def test_filter_fails_where_pre_filter_is_disabled() -> None:
    nodes = half_full().all_nodes()
    plugin = made(NodeResourcesFit, NodeResourcesFitArgs())
    found = statuses_of(plugin.filter_nodes(CycleState(), a_pod(), nodes), nodes.names)
    text = 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
    assert found == {"n": error(text)}


def test_arguments_are_validated() -> None:
    with pytest.raises(ValueError, match=r'^ignoredResourceGroups\[0\]: Invalid value: "a/b": res'):
        made(NodeResourcesFit, NodeResourcesFitArgs(ignored_resource_groups=("a/b",)))
