"""NodeUnschedulable and NodeName: the two plainest filters."""

from typing import Any

import pytest

from kubesched.framework.cluster_event import ActionType, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import unresolvable
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made, statuses_of

TOLERATED = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
TOLERATED_FOR_EXECUTION = [{**TOLERATED[0], "effect": "NoExecute"}]
OTHER_VALUE = [{"key": "node.kubernetes.io/unschedulable", "value": "yes"}]


def rejected(plugin: Any, pod: Any, view: Any) -> Any:
    nodes = view.all_nodes()
    return statuses_of(plugin.filter_nodes(CycleState(), pod, nodes), nodes.names)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], {"cordoned"}, id="a cordoned node is rejected"),
        pytest.param(TOLERATED, set(), id="the taint's toleration opens it"),
        pytest.param([{"operator": "Exists"}], set(), id="so does tolerating everything"),
        pytest.param(TOLERATED_FOR_EXECUTION, {"cordoned"}, id="but not for another effect"),
        pytest.param(OTHER_VALUE, {"cordoned"}, id="nor for another value"),
    ],
)
def test_cordoned_nodes(tolerations: Any, expected: Any) -> None:
    view = a_cluster([a_node("open"), a_node("cordoned", unschedulable=True)])
    found = rejected(made(NodeUnschedulable), a_pod(tolerations=tolerations), view)
    assert set(found) == expected
    assert set(found.values()) <= {unresolvable("node(s) were unschedulable")}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, False, QueueingHint.QUEUE, id="an open node came"),
        pytest.param(None, True, QueueingHint.QUEUE_SKIP, id="a cordoned node came"),
        pytest.param(True, False, QueueingHint.QUEUE, id="a node was opened"),
        pytest.param(False, True, QueueingHint.QUEUE_SKIP, id="a node was cordoned"),
        pytest.param(False, False, QueueingHint.QUEUE_SKIP, id="an open node changed otherwise"),
        pytest.param(True, True, QueueingHint.QUEUE_SKIP, id="a cordoned node stays so"),
    ],
)
def test_hint_after_a_node_change(before: Any, after: Any, expected: Any) -> None:
    registration, _ = made(NodeUnschedulable).events_to_register()
    assert registration.event.action == ActionType.ADD | ActionType.UPDATE_NODE_TAINT
    old = None if before is None else a_node(unschedulable=before)
    assert registration.hint(a_pod(), old, a_node(unschedulable=after)) is expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(a_pod(tolerations=TOLERATED), QueueingHint.QUEUE, id="the taint is tolerated"),
        pytest.param(
            a_pod(tolerations=OTHER_VALUE), QueueingHint.QUEUE_SKIP, id="something else is"
        ),
        pytest.param(
            a_pod("other", tolerations=TOLERATED), QueueingHint.QUEUE_SKIP, id="by another pod"
        ),
    ],
)
def test_hint_after_a_toleration_change(new: Any, expected: Any) -> None:
    _, registration = made(NodeUnschedulable).events_to_register()
    assert registration.event.action == ActionType.UPDATE_POD_TOLERATION
    assert registration.hint(a_pod(), a_pod(), new) is expected


@pytest.mark.parametrize(
    ("node_name", "expected"),
    [
        pytest.param("", set(), id="no name, no rejection"),
        pytest.param("b", {"a", "c"}, id="all but the named node"),
        pytest.param("gone", {"a", "b", "c"}, id="all, if no node has the name"),
    ],
)
def test_node_name(node_name: Any, expected: Any) -> None:
    view = a_cluster([a_node("a"), a_node("b"), a_node("c")])
    found = rejected(made(NodeName), a_pod(nodeName=node_name), view)
    assert set(found) == expected
    reason = "node(s) didn't match the requested node name"
    assert set(found.values()) <= {unresolvable(reason)}


def test_node_name_waits_for_an_added_node() -> None:
    (registration,) = made(NodeName).events_to_register()
    assert registration.event.action == ActionType.ADD
    assert registration.hint is None
