"""Which registrations cover an event."""

import pytest

from kubesched.framework import cluster_event
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource

A, R = ActionType, EventResource


@pytest.mark.parametrize(
    ("registered", "incoming", "expected"),
    [
        pytest.param((R.NODE, A.ADD), (R.NODE, A.ADD), True, id="the same"),
        pytest.param((R.NODE, A.ADD), (R.NODE, A.DELETE), False, id="another action"),
        pytest.param((R.NODE, A.ADD), (R.CSI_NODE, A.ADD), False, id="another resource"),
        pytest.param(
            (R.NODE, A.ADD | A.UPDATE_NODE_LABEL),
            (R.NODE, A.UPDATE_NODE_LABEL),
            True,
            id="one of several actions",
        ),
        pytest.param(
            (R.NODE, A.UPDATE_NODE_LABEL),
            (R.NODE, A.UPDATE),
            False,
            id="a broad event for a narrow registration",
        ),
        pytest.param(
            (R.PERSISTENT_VOLUME, A.UPDATE),
            (R.PERSISTENT_VOLUME, A.UPDATE),
            True,
            id="a broad event for a broad registration",
        ),
        pytest.param(
            (R.NODE, A.DELETE | A.UPDATE_NODE_LABEL),
            (R.NODE, A.UPDATE_NODE_LABEL | A.ADD),
            True,
            id="a mixed event is compared by its value: common bits, and not greater",
        ),
        pytest.param(
            (R.POD, A.DELETE), (R.ASSIGNED_POD, A.DELETE), True, id="a pod that has a node"
        ),
        pytest.param(
            (R.POD, A.UPDATE_POD_LABEL),
            (R.UNSCHEDULABLE_POD, A.UPDATE_POD_LABEL),
            True,
            id="a pod that waits",
        ),
        pytest.param(
            (R.ASSIGNED_POD, A.DELETE),
            (R.POD, A.DELETE),
            False,
            id="a broader resource is not covered",
        ),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.ADD), True, id="any resource"),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.DELETE), False, id="any resource, one action"),
        pytest.param((R.WILDCARD, A.ALL), (R.NODE, A.UPDATE), True, id="anything at all"),
        pytest.param((R.NODE, A.ADD), (R.WILDCARD, A.ALL), False, id="a timeout is not covered"),
        pytest.param(
            ("foos.v1.example.com", A.ADD),
            ("foos.v1.example.com", A.ADD),
            True,
            id="a custom resource",
        ),
    ],
)
def test_covers(
    registered: tuple[str, ActionType], incoming: tuple[str, ActionType], expected: bool
) -> None:
    assert ClusterEvent(*registered).covers(ClusterEvent(*incoming)) is expected


def test_the_bits_have_upstreams_order() -> None:
    names = [action.name for action in A if action.value.bit_count() == 1]
    assert names[:4] == ["ADD", "DELETE", "UPDATE_NODE_ALLOCATABLE", "UPDATE_NODE_LABEL"]
    assert A.UPDATE_POD_GENERATED_RESOURCE_CLAIM == 1 << 12
    assert int(A.ALL) == (1 << 13) - 1
    assert A.ALL & ~A.UPDATE == A.ADD | A.DELETE


def test_only_all_actions_on_all_resources_are_a_wildcard() -> None:
    assert ClusterEvent(R.WILDCARD, A.ALL).is_wildcard
    assert not ClusterEvent(R.WILDCARD, A.UPDATE).is_wildcard
    assert not ClusterEvent(R.NODE, A.ALL).is_wildcard


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ClusterEvent(R.NODE, A.ADD), "NodeAdd"),
        (ClusterEvent(R.NODE, A.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(R.NODE, A.UPDATE_NODE_DECLARED_FEATURE), "NodeUpdateNodeDeclaredFeature"),
        (cluster_event.ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (cluster_event.UNSCHEDULED_POD_ADD, "UnschedulablePodAdd"),
        (cluster_event.UNSCHEDULED_POD_UPDATE, "UnschedulablePodUpdate"),
        (
            ClusterEvent(R.UNSCHEDULABLE_POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        (ClusterEvent(R.CSI_NODE, A.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (ClusterEvent(R.POD, A.ALL), "PodAll"),
        (ClusterEvent("foos.v1.example.com", A.DELETE), "foos.v1.example.comDelete"),
        (ClusterEvent(R.POD, A.ADD | A.DELETE), "Pod"),
        (cluster_event.UNSCHEDULABLE_TIMEOUT_EVENT, "UnschedulableTimeout"),
        (cluster_event.FORCE_ACTIVATE_EVENT, "ForceActivate"),
    ],
)
def test_the_label_of_an_event(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def test_events_with_equal_fields_are_equal() -> None:
    assert ClusterEvent(R.NODE, A.ADD) == ClusterEvent(R.NODE, A.ADD)
    assert hash(ClusterEvent(R.NODE, A.ADD)) == hash(ClusterEvent(R.NODE, A.ADD))
    assert ClusterEvent(R.NODE, A.ADD) != ClusterEvent(R.NODE, A.ADD, "Custom")
    # Two mixtures have the same label, and are two events.
    assert ClusterEvent(R.NODE, A.ADD | A.DELETE) != ClusterEvent(
        R.NODE, A.DELETE | A.UPDATE_NODE_LABEL
    )


def test_the_two_special_events_are_wildcards() -> None:
    assert cluster_event.UNSCHEDULABLE_TIMEOUT_EVENT.is_wildcard
    assert cluster_event.FORCE_ACTIVATE_EVENT.is_wildcard
