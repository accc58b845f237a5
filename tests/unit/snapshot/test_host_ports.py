"""Taken host ports: the index over all rows equals the ports of each row."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cache.writer import ClusterWriter
from kubesched.framework.cycle_state import CycleState
from kubesched.plugins.node_ports import NodePorts
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.trial import Trial
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_node, a_pod

ADDRESSES = ("", "10.0.0.1", "10.0.0.2")
NODES = ("n0", "n1", "n2")

ports = st.lists(
    st.tuples(
        st.sampled_from(ADDRESSES), st.sampled_from(("TCP", "UDP")), st.sampled_from((80, 81))
    ),
    min_size=1,
    max_size=3,
    unique=True,
)
steps = st.lists(st.tuples(st.sampled_from(NODES), ports, st.booleans()), max_size=12)


def a_pod_with(name: str, requested: Any) -> Any:
    host_ports = [
        {"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address}
        for address, protocol, port in requested
    ]
    return a_pod(name, containers=[{"name": "c", "image": "i", "ports": host_ports}])


def clash(requested: Any, taken: Any) -> bool:
    """Return whether two sets of ports cannot be on one node."""
    return any(
        port[1:] == other[1:] and (port[0] == other[0] or "" in (port[0], other[0]))
        for port in requested
        for other in taken
    )


def rejected_mask(pod: Any, nodes: Any) -> list[bool]:
    plugin, state = NodePorts(), CycleState()
    assert plugin.pre_filter(state, pod, nodes) is None
    mask = np.zeros(len(nodes), dtype=np.bool_)
    verdict: Any = plugin.filter_nodes(state, pod, nodes)
    for rejected in verdict:
        mask |= rejected.mask
    return mask.tolist()


@given(steps=steps, requested=ports)
def test_tables_rows_and_trials_agree_on_taken_ports(steps: Any, requested: Any) -> None:
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    for name in NODES:
        writer.set_node(a_node(name))
    taken: dict[str, set[Any]] = {name: set() for name in NODES}
    bound: list[tuple[str, str, Any]] = []
    for number, (name, host_ports, leaves) in enumerate(steps):
        if leaves and bound:
            uid, node_name, released = bound.pop(0)
            writer.remove_pod(uid)
            # A set: a port that two pods share is free when the first pod is removed.
            taken[node_name] -= set(released)
        else:
            pod = a_pod_with(f"p{number}", host_ports)
            writer.add_pod(pod, name)
            bound.append((pod.uid, name, host_ports))
            taken[name] |= set(host_ports)
    expected = [clash(requested, taken[name]) for name in NODES]
    view, pod = ClusterView(cluster), a_pod_with("new", requested)
    assert rejected_mask(pod, view.all_nodes()) == expected
    assert rejected_mask(pod, view.nodes_at(np.array([2, 0]))) == [expected[2], expected[0]]
    assert [rejected_mask(pod, view.row(row))[0] for row in range(3)] == expected
    assert rejected_mask(pod, Trial(view, np.array([1, 2])).nodes) == expected[1:]
    numbers = {(port[1:], name) for name in NODES for port in taken[name]}
    indexed = {(k, NODES[row]) for k, rows in cluster.nodes.rows_of_port.items() for row in rows}
    assert indexed == numbers


def test_a_port_that_no_row_takes_is_removed_from_the_index() -> None:
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    writer.set_node(a_node("n0"))
    pod = a_pod_with("p", [("", "TCP", 80)])
    writer.add_pod(pod, "n0")
    writer.remove_pod(pod.uid)
    assert cluster.nodes.rows_of_port == {}


@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_trial_has_its_own_ports(change: str) -> None:
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    writer.set_node(a_node("n0"))
    writer.set_node(a_node("n1"))
    index = writer.add_pod(a_pod_with("old", [("", "TCP", 80)]), "n0")
    view, pod = ClusterView(cluster), a_pod_with("new", [("", "TCP", 80)])
    trial = Trial(view, np.array([1, 0]))
    if change == "added":
        trial.add(np.array([index, -1], dtype=np.int32))
        assert rejected_mask(pod, trial.nodes) == [True, True]
    else:
        trial.remove(np.array([-1, index], dtype=np.int32))
        assert rejected_mask(pod, trial.nodes) == [False, False]
    assert rejected_mask(pod, view.all_nodes()) == [True, False]
