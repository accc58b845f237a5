"""NodePorts: which ports conflict, on live rows and in a trial."""

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, error, unschedulable
from kubesched.plugins.node_ports import NodePorts
from tests.unit.plugins.builders import (
    a_cluster,
    a_node,
    a_pod,
    a_trial,
    made,
    statuses_of,
)

PLUGIN = made(NodePorts)
REJECTED = unschedulable("node(s) didn't have free ports for the requested pod ports")


def with_ports(*ports: dict[str, Any], name: str = "pod", **fields: Any) -> Any:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 1, **p} for p in ports]}
    return a_pod(name, containers=[container], **fields)


def rejected(pod: Any, nodes: Any) -> Any:
    state = CycleState()
    if PLUGIN.pre_filter(state, pod, nodes) is SKIP:
        return None
    return statuses_of(PLUGIN.filter_nodes(state, pod, nodes), nodes.names)


@pytest.mark.parametrize(
    ("used", "requested", "conflict"),
    [
        pytest.param({"hostPort": 80}, {"hostPort": 80}, True, id="the same port"),
        pytest.param({"hostPort": 80}, {"hostPort": 81}, False, id="another port"),
        pytest.param(
            {"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, False, id="another protocol"
        ),
        pytest.param(
            {"hostPort": 80, "protocol": "TCP"}, {"hostPort": 80}, True, id="no protocol is TCP"
        ),
        pytest.param(
            {"hostPort": 80, "hostIP": "10.0.0.1"},
            {"hostPort": 80, "hostIP": "10.0.0.2"},
            False,
            id="another address",
        ),
        pytest.param(
            {"hostPort": 80, "hostIP": "10.0.0.1"},
            {"hostPort": 80},
            True,
            id="all addresses requested",
        ),
        pytest.param(
            {"hostPort": 80, "hostIP": "0.0.0.0"},
            {"hostPort": 80, "hostIP": "10.0.0.2"},
            True,
            id="all addresses taken",
        ),
    ],
)
def test_filter(used: Any, requested: Any, conflict: Any) -> None:
    view = a_cluster([a_node("free"), a_node("used")], {"used": [with_ports(used, name="old")]})
    expected = {"used": REJECTED} if conflict else {}
    assert rejected(with_ports(requested), view.all_nodes()) == expected


def test_a_pod_without_host_ports_skips_the_filter() -> None:
    nodes = a_cluster([a_node()]).all_nodes()
    assert PLUGIN.pre_filter(CycleState(), with_ports({}), nodes) is SKIP


def test_ports_of_a_sidecar_count_and_of_an_init_container_do_not() -> None:
    def pod(**init: Any) -> Any:
        ports = [{"containerPort": 1, "hostPort": 80}]
        return a_pod(initContainers=[{"name": "i", "image": "i", "ports": ports, **init}])

    view = a_cluster([a_node()], {"node": [with_ports({"hostPort": 80}, name="old")]})
    assert rejected(pod(), view.all_nodes()) is None
    assert rejected(pod(restartPolicy="Always"), view.all_nodes()) == {"node": REJECTED}


def test_a_trial_without_the_other_pod_has_the_port_free() -> None:
    view = a_cluster([a_node()], {"node": [with_ports({"hostPort": 80}, name="old")]})
    trial = a_trial(view, "node")
    trial.remove(np.array([view.pods.index_of["uid-default-old"]], dtype=np.int32))
    assert rejected(with_ports({"hostPort": 80}), trial.nodes) == {}
    assert rejected(with_ports({"hostPort": 80}), view.all_nodes()) == {"node": REJECTED}


def test_filter_fails_where_pre_filter_is_disabled() -> None:
    nodes = a_cluster([a_node()]).all_nodes()
    found = statuses_of(PLUGIN.filter_nodes(CycleState(), a_pod(), nodes), nodes.names)
    assert found == {"node": error('reading "PreFilterNodePorts" from cycleState: not found')}


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        pytest.param(
            with_ports({"hostPort": 80}, name="o", nodeName="n"),
            QueueingHint.QUEUE,
            id="port freed",
        ),
        pytest.param(
            with_ports({"hostPort": 80}, name="o", status={"nominatedNodeName": "n"}),
            QueueingHint.QUEUE,
            id="a nominated pod with the port was deleted",
        ),
        pytest.param(
            with_ports({"hostPort": 80}, name="o"), QueueingHint.QUEUE_SKIP, id="it had no node"
        ),
        pytest.param(
            with_ports({"hostPort": 81}, name="o", nodeName="n"),
            QueueingHint.QUEUE_SKIP,
            id="another port",
        ),
        pytest.param(a_pod("o", nodeName="n"), QueueingHint.QUEUE_SKIP, id="it had no ports"),
    ],
)
def test_hint_after_a_deleted_pod(deleted: Any, expected: Any) -> None:
    registration, _ = PLUGIN.events_to_register()
    assert registration.hint(with_ports({"hostPort": 80}), deleted, None) is expected
