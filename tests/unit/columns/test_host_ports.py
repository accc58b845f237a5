"""Which rows have a host port taken: the index over all rows says what the rows say."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.columns.cluster import Cluster
from kubesched.columns.trial import Trial
from kubesched.columns.view import ClusterView
from kubesched.columns.writer import ClusterWriter
from kubesched.framework.cycle_state import CycleState
from kubesched.plugins.node_ports import NodePorts
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


def a_pod_with(name: str, wanted: Any) -> Any:
    listed = [
        {"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address}
        for address, protocol, port in wanted
    ]
    return a_pod(name, containers=[{"name": "c", "image": "i", "ports": listed}])


def clash(wanted: Any, taken: Any) -> bool:
    """Return whether two sets of ports cannot be on one node."""
    return any(
        one[1:] == other[1:] and (one[0] == other[0] or "" in (one[0], other[0]))
        for one in wanted
        for other in taken
    )


def refused(pod: Any, nodes: Any) -> list[bool]:
    plugin, state = NodePorts(None, None), CycleState()  # type: ignore[arg-type]
    assert plugin.pre_filter(state, pod, nodes) is None
    mask = np.zeros(len(nodes), dtype=np.bool_)
    verdict: Any = plugin.filter_nodes(state, pod, nodes)
    for rejected in verdict:
        mask |= rejected.mask
    return mask.tolist()


@given(steps=steps, wanted=ports)
def test_tables_rows_and_trials_find_the_same_ports_taken(steps: Any, wanted: Any) -> None:
    cluster = Cluster()
    writer = ClusterWriter(cluster)
    for name in NODES:
        writer.set_node(a_node(name))
    taken: dict[str, set[Any]] = {name: set() for name in NODES}
    there: list[tuple[str, str, Any]] = []
    for number, (name, listed, leaves) in enumerate(steps):
        if leaves and there:
            uid, where, gone = there.pop(0)
            writer.remove_pod(uid)
            # A set: ports of two pods that share one are free when the first goes.
            taken[where] -= set(gone)
        else:
            pod = a_pod_with(f"p{number}", listed)
            writer.add_pod(pod, name)
            there.append((pod.uid, name, listed))
            taken[name] |= set(listed)
    expected = [clash(wanted, taken[name]) for name in NODES]
    view, pod = ClusterView(cluster), a_pod_with("new", wanted)
    assert refused(pod, view.all_nodes()) == expected
    assert refused(pod, view.nodes_at(np.array([2, 0]))) == [expected[2], expected[0]]
    assert [refused(pod, view.row(row))[0] for row in range(3)] == expected
    assert refused(pod, Trial(view, np.array([1, 2])).nodes) == expected[1:]
    numbers = {(port[1:], name) for name in NODES for port in taken[name]}
    indexed = {(k, NODES[row]) for k, rows in cluster.nodes.rows_of_port.items() for row in rows}
    assert indexed == numbers


def test_a_port_no_row_has_any_more_is_forgotten() -> None:
    cluster = Cluster()
    writer = ClusterWriter(cluster)
    writer.set_node(a_node("n0"))
    pod = a_pod_with("p", [("", "TCP", 80)])
    writer.add_pod(pod, "n0")
    writer.remove_pod(pod.uid)
    assert cluster.nodes.rows_of_port == {}


@pytest.mark.parametrize("supposed", ["added", "removed"])
def test_a_trial_looks_at_its_own_ports(supposed: str) -> None:
    cluster = Cluster()
    writer = ClusterWriter(cluster)
    writer.set_node(a_node("n0"))
    writer.set_node(a_node("n1"))
    index = writer.add_pod(a_pod_with("old", [("", "TCP", 80)]), "n0")
    view, wanted = ClusterView(cluster), a_pod_with("new", [("", "TCP", 80)])
    trial = Trial(view, np.array([1, 0]))
    if supposed == "added":
        trial.add(np.array([index, -1], dtype=np.int32))
        assert refused(wanted, trial.nodes) == [True, True]
    else:
        trial.remove(np.array([-1, index], dtype=np.int32))
        assert refused(wanted, trial.nodes) == [False, False]
    assert refused(wanted, view.all_nodes()) == [True, False]
