"""The queueing of a profile: PreEnqueue, event registrations, sort key."""

from typing import Any

from kubesched.config.load import default_config
from kubesched.framework.cluster_event import ActionType as A
from kubesched.framework.cluster_event import ClusterEvent
from kubesched.framework.cluster_event import EventResource as R
from kubesched.framework.interface import EventRegistration
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.enqueue import (
    enqueue_registrations,
    pre_enqueue_calls,
    queue_sort_key,
)
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Code, Status, StatusError, unresolvable
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.profile.build import build
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_pod, a_profile

NODE_ADD = EventRegistration(ClusterEvent(R.NODE, A.ADD))

# Results of the plugins' EventsToRegister in v1.36 with all gates at their defaults.
UPSTREAM: dict[str, list[tuple[str, A]]] = {
    "SchedulingGates": [(R.POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)],
    "NodeUnschedulable": [
        (R.NODE, A.ADD | A.UPDATE_NODE_TAINT),
        (R.POD, A.UPDATE_POD_TOLERATION),
    ],
    "NodeName": [(R.NODE, A.ADD)],
    "TaintToleration": [(R.NODE, A.ADD | A.UPDATE_NODE_TAINT), (R.POD, A.UPDATE_POD_TOLERATION)],
    "NodeAffinity": [(R.NODE, A.ADD | A.UPDATE_NODE_LABEL)],
    "NodePorts": [(R.POD, A.DELETE), (R.NODE, A.ADD)],
    "NodeResourcesFit": [
        (R.POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN),
        (R.NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE),
        (R.DEVICE_CLASS, A.ADD | A.UPDATE),
    ],
    "NodeDeclaredFeatures": [
        (R.NODE, A.ADD | A.UPDATE_NODE_DECLARED_FEATURE),
        (R.POD, A.UPDATE),
    ],
    "VolumeRestrictions": [
        (R.POD, A.DELETE),
        (R.NODE, A.ADD),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD),
    ],
    "NodeVolumeLimits": [
        (R.CSI_NODE, A.ADD),
        (R.CSI_NODE, A.UPDATE),
        (R.POD, A.DELETE),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD),
        (R.VOLUME_ATTACHMENT, A.DELETE),
    ],
    "VolumeBinding": [
        (R.STORAGE_CLASS, A.ADD | A.UPDATE),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD | A.UPDATE),
        (R.PERSISTENT_VOLUME, A.ADD | A.UPDATE),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL),
        (R.CSI_NODE, A.ADD | A.UPDATE),
        (R.CSI_DRIVER, A.UPDATE),
        (R.CSI_STORAGE_CAPACITY, A.ADD | A.UPDATE),
    ],
    "VolumeZone": [
        (R.STORAGE_CLASS, A.ADD),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD | A.UPDATE),
        (R.PERSISTENT_VOLUME, A.ADD | A.UPDATE),
    ],
    "PodTopologySpread": [
        (R.POD, A.ADD | A.UPDATE_POD_LABEL | A.UPDATE_POD_TOLERATION | A.DELETE),
        (R.NODE, A.ADD | A.DELETE | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT),
    ],
    "InterPodAffinity": [
        (R.POD, A.ADD | A.UPDATE_POD_LABEL | A.DELETE),
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL),
    ],
    "DynamicResources": [
        (R.NODE, A.ADD | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_ALLOCATABLE),
        (R.RESOURCE_CLAIM, A.ADD | A.UPDATE),
        (R.POD, A.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
        (R.DEVICE_CLASS, A.ADD | A.UPDATE),
        (R.RESOURCE_SLICE, A.ADD | A.UPDATE),
    ],
    "DefaultPreemption": [(R.POD, A.DELETE)],
}


def default_profile() -> Profile:
    return build(default_config()).profiles["default-scheduler"]


def events(registrations: Any) -> dict[str, list[tuple[str, A]]]:
    return {
        name: [
            (registration.event.resource, registration.event.action) for registration in registered
        ]
        for name, registered in registrations.items()
    }


def test_the_default_plugins_register_for_the_events_of_upstream() -> None:
    assert events(enqueue_registrations(default_profile())) == UPSTREAM


class Named:
    """A plugin with a name."""

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__


class Rejecting(Named):
    """May reject a pod."""

    def pre_filter(self, state: Any, pod: PodInfo, nodes: Any) -> Status | None:
        return None


class Registering(Rejecting):
    """May reject a pod, and registers for events."""

    def events_to_register(self) -> list[EventRegistration]:
        return [NODE_ADD]


class Scoring(Named):
    """Rejects no pod, whatever it registers for."""

    def score(self, state: Any, pod: PodInfo, node: Any) -> int:
        return 0

    def events_to_register(self) -> list[EventRegistration]:
        return [NODE_ADD]


ALL_EVENTS = [
    (resource, A.ALL)
    for resource in (
        R.POD,
        R.NODE,
        R.PERSISTENT_VOLUME,
        R.PERSISTENT_VOLUME_CLAIM,
        R.CSI_NODE,
        R.CSI_DRIVER,
        R.CSI_STORAGE_CAPACITY,
        R.STORAGE_CLASS,
        R.RESOURCE_CLAIM,
        R.DEVICE_CLASS,
    )
]


def test_a_rejecting_plugin_without_registrations_is_registered_for_all_events() -> None:
    profile = a_profile(Registering(), Rejecting(), Scoring())
    assert events(enqueue_registrations(profile)) == {
        "Registering": [(R.NODE, A.ADD)],
        "Rejecting": ALL_EVENTS,
    }


def test_extenders_are_registered_for_all_events() -> None:
    registered = events(enqueue_registrations(a_profile(Registering()), has_extenders=True))
    assert registered == {"Extender": ALL_EVENTS, "Registering": [(R.NODE, A.ADD)]}


class Holding(Named):
    """Gates all pods, with a given result."""

    def __init__(self, name: str, answer: Status | Exception | None) -> None:
        super().__init__(name)
        self._answer = answer

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_pre_enqueue_plugins_are_called_in_order_and_never_raise() -> None:
    rejection = unresolvable("no")
    profile = a_profile(
        Holding("A", None),
        Holding("B", rejection),
        Holding("C", StatusError(rejection)),
        Holding("D", RuntimeError("oh")),
    )
    calls = pre_enqueue_calls(profile)
    answers = {name: call(a_pod()) for name, call in calls.items()}
    assert list(answers) == ["A", "B", "C", "D"]
    assert (answers["A"], answers["B"], answers["C"]) == (None, rejection, rejection)
    assert answers["D"] == Status(Code.ERROR, ("RuntimeError: oh",))


def test_the_sort_key_of_the_default_plugin_agrees_with_less() -> None:
    profile = default_profile()
    key = queue_sort_key(profile)
    assert key is not None
    queued = [
        QueuedPodInfo(a_pod(priority=priority), time_s)
        for priority in (-1, 0, 7)
        for time_s in (1.0, 2.0)
    ]
    for first in queued:
        for second in queued:
            assert (key(first) < key(second)) == profile.less(first, second)


def test_a_plugin_may_have_no_sort_key() -> None:
    class Unsorted(Named):
        def less(self, first: Any, second: Any) -> bool:
            return False

    assert queue_sort_key(a_profile(Unsorted())) is None
    assert queue_sort_key(a_profile(PrioritySort())) is not None
