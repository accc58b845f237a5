"""NodeDeclaredFeatures, and plugins that depend on enabled features."""

from types import SimpleNamespace
from typing import Any

import pytest

from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP, StatusError, error, unresolvable
from kubesched.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.plugins.pod_groups import (
    GangScheduling,
    PodGroupPodsCount,
    TopologyPlacementGenerator,
)
from tests.unit.plugins.builders import a_cluster, a_node, a_pod, made, statuses_of

PLUGIN = made(NodeDeclaredFeatures)
HOST_NETWORK = "UserNamespacesHostNetworkSupport"
RESTART = "RestartAllContainersOnContainerExits"
NEEDY = a_pod(hostNetwork=True, hostUsers=False)


def declaring(name: str, *features: str) -> Any:
    return a_node(name, status={"declaredFeatures": list(features)})


def test_nodes_that_lack_a_needed_feature_are_rejected() -> None:
    nodes = a_cluster(
        [declaring("none"), declaring("other", RESTART), declaring("has", RESTART, HOST_NETWORK)]
    )
    state, table = CycleState(), nodes.all_nodes()
    assert PLUGIN.pre_filter(state, NEEDY, table) is None
    found = statuses_of(PLUGIN.filter_nodes(state, NEEDY, table), table.names)
    rejected = unresolvable("node(s) didn't match Pod's required features")
    assert found == {"none": rejected, "other": rejected}


def test_a_pod_that_needs_nothing_skips_the_filter() -> None:
    table = a_cluster([declaring("none")]).all_nodes()
    assert PLUGIN.pre_filter(CycleState(), a_pod(hostNetwork=True), table) is SKIP


def test_filter_fails_where_pre_filter_is_disabled() -> None:
    table = a_cluster([declaring("none")]).all_nodes()
    found = statuses_of(PLUGIN.filter_nodes(CycleState(), a_pod(), table), table.names)
    text = 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
    assert found == {"none": error(text)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, declaring("n"), QueueingHint.QUEUE, id="a node came"),
        pytest.param(
            declaring("n"), declaring("n", "A"), QueueingHint.QUEUE, id="features changed"
        ),
        pytest.param(
            declaring("n", "A"),
            declaring("n", "A"),
            QueueingHint.QUEUE_SKIP,
            id="features are the same",
        ),
    ],
)
def test_hint_after_a_node_change(old: Any, new: Any, expected: Any) -> None:
    registration, _ = PLUGIN.events_to_register()
    assert registration.hint(NEEDY, old, new) is expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(a_pod(), QueueingHint.QUEUE, id="the pod needs less"),
        pytest.param(NEEDY, QueueingHint.QUEUE_SKIP, id="it needs the same"),
        pytest.param(a_pod("other"), QueueingHint.QUEUE_SKIP, id="another pod changed"),
    ],
)
def test_hint_after_a_pod_update(new: Any, expected: Any) -> None:
    _, registration = PLUGIN.events_to_register()
    assert registration.hint(NEEDY, NEEDY, new) is expected


GANG = a_pod(schedulingGroup={"podGroupName": "g"})


def test_a_pod_of_an_unknown_group_waits() -> None:
    plugin = made(GangScheduling)
    text = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    assert plugin.pre_enqueue(GANG) == unresolvable(text)
    assert plugin.pre_enqueue(a_pod()) is None
    assert plugin.permit(CycleState(), a_pod(), "n") == (None, 0.0)
    text = 'failed to get podGroup default/g: podgroup.scheduling.k8s.io "g" not found'
    assert plugin.permit(CycleState(), GANG, "n") == (error(text), 0.0)


@pytest.mark.parametrize(
    ("pod", "added", "expected"),
    [
        pytest.param(GANG, GANG, QueueingHint.QUEUE, id="of the same group"),
        pytest.param(GANG, a_pod(), QueueingHint.QUEUE_SKIP, id="of no group"),
        pytest.param(a_pod(), a_pod(), QueueingHint.QUEUE_SKIP, id="the pod has no group itself"),
        pytest.param(
            GANG,
            a_pod(namespace="x", schedulingGroup={"podGroupName": "g"}),
            QueueingHint.QUEUE_SKIP,
            id="of a group elsewhere",
        ),
    ],
)
def test_gang_hint_after_a_pod_came(pod: Any, added: Any, expected: Any) -> None:
    registration, _ = made(GangScheduling).events_to_register()
    assert registration.hint(pod, None, added) is expected


def test_placements_of_an_unknown_group_fail() -> None:
    group = SimpleNamespace(namespace="default", name="g")
    with pytest.raises(StatusError, match=r'^podgroup.scheduling.k8s.io "g" not found$'):
        made(TopologyPlacementGenerator).generate_placements(CycleState(), group, None)
    with pytest.raises(StatusError, match=r"^pod group state not found for pod group default/g$"):
        made(PodGroupPodsCount).score_placement(CycleState(), group, None)
