"""Nodes as columns, and one node with the same attribute names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.api.tolerations import Taint
from kubesched.snapshot.view import ClusterView, NodeTable
from tests.unit.builders import a_cluster, a_node, a_pod

GI = 1 << 30


def small() -> ClusterView:
    nodes = [
        a_node(
            "n1", labels={"disk": "ssd"}, allocatable={"cpu": "2", "memory": "4Gi", "pods": "5"}
        ),
        a_node(
            "n2",
            labels={"disk": "hdd"},
            allocatable={"cpu": "4", "example.com/gpu": "8"},
            unschedulable=True,
            taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
            status={"declaredFeatures": ["F"]},
        ),
        a_node("n3"),
    ]
    with_port = [{"name": "c", "ports": [{"hostPort": 80}]}]
    pods = {
        "n1": [a_pod("a", requests={"cpu": "500m", "memory": "1Gi"}), a_pod("b")],
        "n2": [a_pod("c", containers=with_port)],
    }
    return a_cluster(nodes, pods)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(lambda n: n.allocatable["cpu"], [2000, 4000, 4000], id="allocatable"),
        pytest.param(lambda n: n.allocatable["example.com/gpu"], [0, 8, 0], id="of few nodes"),
        pytest.param(lambda n: n.allocatable["example.com/none"], [0, 0, 0], id="of no node"),
        pytest.param(lambda n: n.requested["cpu"], [500, 0, 0], id="requested"),
        pytest.param(lambda n: n.requested["memory"], [GI, 0, 0], id="requested memory"),
        pytest.param(lambda n: n.nonzero_requested["cpu"], [600, 100, 0], id="nonzero requested"),
        pytest.param(
            lambda n: n.nonzero_requested["example.com/gpu"], [0, 0, 0], id="cpu and memory only"
        ),
        pytest.param(lambda n: n.pod_count, [2, 1, 0], id="pod count"),
        pytest.param(lambda n: n.allowed_pods, [5, 0, 110], id="allowed pods"),
        pytest.param(lambda n: n.unschedulable, [False, True, False], id="cordoned"),
    ],
)
def test_a_column_equals_the_values_of_single_nodes(
    read: Callable[[Any], Any], expected: list[Any]
) -> None:
    nodes = small().all_nodes()
    assert read(nodes).tolist() == expected
    assert [read(node) for node in nodes] == expected
    assert [type(read(node)) for node in nodes] == [type(value) for value in expected]


def test_labels_are_ids_and_absent_is_minus_one() -> None:
    nodes = small().all_nodes()
    ids = nodes.label("disk")
    values = nodes.label_values("disk").values
    assert [None if i < 0 else values[i] for i in ids] == ["ssd", "hdd", None]
    assert nodes.label("never").tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param("disk", None, [True, True, False], id="the key"),
        pytest.param("disk", "hdd", [False, True, False], id="the value"),
        pytest.param("disk", "tape", [False] * 3, id="a value that no node has"),
        pytest.param("never", "x", [False] * 3, id="a key that no node has"),
    ],
)
def test_has_label(key: str, value: str | None, expected: list[bool]) -> None:
    assert small().all_nodes().has_label(key, value).tolist() == expected


def test_taints_and_features_are_ids_of_sets() -> None:
    nodes = small().all_nodes()
    taints = [nodes.taint_sets.values[i] for i in nodes.taint_set]
    assert taints == [(), (Taint("k", "v", "NoSchedule"),), ()]
    assert [node.taints for node in nodes] == taints
    assert [nodes.feature_sets.values[i] for i in nodes.feature_set] == [(), ("F",), ()]


def test_one_node_shows_its_pods_and_ports() -> None:
    nodes = small().all_nodes()
    assert [pod.name for pod in nodes[0].pods] == ["a", "b"]
    assert [port.port for port in nodes[1].host_ports] == [80]
    assert nodes[1].labels == {"disk": "hdd"}
    assert nodes[1].spec.unschedulable is True
    assert repr(nodes[1]) == "<NodeView n2>"


@pytest.mark.parametrize(
    "positions",
    [
        pytest.param(np.array([2, 0]), id="by position"),
        pytest.param(np.array([True, False, True]), id="by mask"),
    ],
)
def test_a_table_of_some_nodes(positions: Any) -> None:
    nodes = small().all_nodes().take(positions)
    assert len(nodes) == 2
    assert sorted(nodes.names) == ["n1", "n3"]
    assert dict(zip(nodes.names, nodes.pod_count.tolist(), strict=True)) == {"n1": 2, "n3": 0}
    assert [node.name for node in nodes] == nodes.names


def columns_of(nodes: NodeTable) -> dict[str, Any]:
    return {
        "allocatable": nodes.allocatable["cpu"],
        "requested": nodes.requested["cpu"],
        "nonzero": nodes.nonzero_requested["cpu"],
        "pod_count": nodes.pod_count,
        "allowed_pods": nodes.allowed_pods,
        "unschedulable": nodes.unschedulable,
        "taint_set": nodes.taint_set,
        "feature_set": nodes.feature_set,
        "label": nodes.label("disk"),
        "view.label_ids": nodes.view.label_ids("disk"),
        "view.visiting_rows": nodes.view.visiting_rows(),
    }


@pytest.mark.parametrize("name", columns_of(small().all_nodes()))
def test_a_column_cannot_be_written(name: str) -> None:
    column = columns_of(small().all_nodes())[name]
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


def test_a_node_by_name() -> None:
    view = small()
    node = view.node("n2")
    assert node is not None
    assert node.allocatable["cpu"] == 4000
    assert view.node("nobody") is None
    assert view.row_of("nobody") == -1
