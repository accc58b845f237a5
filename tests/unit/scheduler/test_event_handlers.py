"""The effect of each watch event on cache and queue, as in upstream's event handlers."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kubesched.client.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, unschedulable
from tests.unit.builders import Wire, pod_wire
from tests.unit.scheduler.live_world import World

LISTENER = "Listener"
FOO = Resource("example.com", "v1", "foos", kind="foos")


class Listener:
    """A plugin that rejects every pod and records the events of its hint calls."""

    name = LISTENER
    hint_events: ClassVar[list[tuple[str, str, Any, Any]]] = []
    nodes_then: ClassVar[list[list[str]]] = []

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    def filter(self, state: Any, pod: Any, node: Any) -> Status:
        return unschedulable("listening")

    def events_to_register(self) -> list[EventRegistration]:
        kinds = ("Pod", "Node", "PersistentVolumeClaim", "foos.v1.example.com")
        return [
            EventRegistration(ClusterEvent(kind, action), self._hint_of(kind, action))
            for kind in (*kinds, EventResource.STORAGE_CLASS)
            for action in _ACTIONS
            # Plugins may omit actions, and get no such events.
            if (kind, action) != ("foos.v1.example.com", ActionType.UPDATE)
        ]

    def _hint_of(self, kind: str, action: ActionType) -> Any:
        def hint(pod: Any, old: Any, new: Any) -> QueueingHint:
            view = self._handle.view
            self.nodes_then.append([view.name_of(row) for row in view.visiting_rows().tolist()])
            label = ClusterEvent(kind, action).label
            self.hint_events.append((pod.name, label, old, new))
            return QueueingHint.QUEUE_SKIP

        return hint


_ACTIONS = (ActionType.ADD, ActionType.DELETE, ActionType.UPDATE)


@pytest.fixture
def world() -> World:
    Listener.hint_events.clear()
    Listener.nodes_then.clear()
    return World(Listener, verbosity=5)


def event_labels(name: str = "waiting") -> list[str]:
    return [label for pod, label, _, _ in Listener.hint_events if pod == name]


def a_node(name: str = "n1", **parts: Any) -> Wire:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", **parts.pop("metadata", {})},
        "spec": parts.pop("spec", {}),
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}, **parts},
    }


def handled(world: World, label: str) -> int:
    """Return how often an event was measured."""
    count: int = world.metrics.event_handling_duration_seconds.labels(label).count
    return count


# -- pods with a node -----------------------------------------------------------------------------


def test_an_assigned_pod_counts_on_its_node_and_wakes_pending_pods(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("other", nodeName="n1", schedulerName="somebody"))
    assert world.node_of("other") == "n1"
    assert event_labels() == ["PodAdd"]
    assert world.where("other") is None
    assert world.lines("Add event for scheduled pod") == [
        '"Add event for scheduled pod" pod="default/other"'
    ]
    assert handled(world, "AssignedPodAdd") == 1


def test_an_update_of_an_assigned_pod_is_an_event_per_changed_property(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("other", nodeName="n1", requests={"cpu": "2"}))
    Listener.hint_events.clear()
    smaller = pod_wire("other", nodeName="n1", requests={"cpu": "1"}, labels={"a": "b"})
    world.show("MODIFIED", smaller)
    # A broad registration for Update covers each narrow event.
    assert event_labels() == ["PodUpdate", "PodUpdate"]
    (_, _, old, new) = Listener.hint_events[0]
    assert (old.labels, new.labels) == ({}, {"a": "b"})
    assert handled(world, "AssignedPodUpdatePodLabel") == 1
    assert handled(world, "AssignedPodUpdatePodScaleDown") == 1
    assert handled(world, "AssignedPodUpdate") == 1
    row = world.cache.snapshot()
    assert [pod.requests["cpu"] for pod in world.cache.bound_pods()] == [1000]
    assert row.pods.counted.sum() == 1


def test_a_deleted_assigned_pod_frees_its_node_and_wakes_pending_pods(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("other", nodeName="n1"))
    Listener.hint_events.clear()
    world.show("DELETED", pod_wire("other", nodeName="n1"))
    assert world.node_of("other") is None
    assert event_labels() == ["PodDelete"]
    assert Listener.hint_events[0][2].node_name == "n1"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_counts_as_deleted(world: World, phase: str) -> None:
    # With the field selector the API server sends DELETED, without it MODIFIED.
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("other", nodeName="n1"))
    world.show("MODIFIED", pod_wire("other", nodeName="n1", status={"phase": phase}))
    assert world.node_of("other") is None
    assert event_labels() == ["PodAdd", "PodDelete"]


def test_a_deletion_found_by_a_list_has_no_object(world: World) -> None:
    world.show("ADDED", pod_wire("assigned", nodeName="n1"))
    world.show("ADDED", pod_wire("pending"))
    world.show("DELETED", pod_wire("assigned"), without_object=True)
    world.show("DELETED", pod_wire("pending"), without_object=True)
    assert world.node_of("assigned") is None
    assert world.where("pending") is None
    assert len(world.pods) == 0


# -- pods without a node --------------------------------------------------------------------------


def test_a_new_pod_of_ours_is_queued(world: World) -> None:
    world.show("ADDED", pod_wire("new"))
    assert world.where("new") == "Active"
    assert world.lines("Add event for unscheduled pod") == [
        '"Add event for unscheduled pod" pod="default/new"'
    ]
    assert handled(world, "UnschedulablePodAdd") == 1


def test_a_pod_of_another_scheduler_is_stored_but_not_queued(world: World) -> None:
    world.show("ADDED", pod_wire("theirs", schedulerName="somebody"))
    world.show("MODIFIED", pod_wire("theirs", schedulerName="somebody", labels={"a": "b"}))
    assert world.where("theirs") is None
    assert len(world.pods) == 1
    world.show("DELETED", pod_wire("theirs", schedulerName="somebody"))
    assert len(world.pods) == 0
    assert world.messages() == []


def test_a_pod_bound_by_any_scheduler_leaves_the_queue(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("bound"))
    world.show("MODIFIED", pod_wire("bound", nodeName="n2"))
    assert world.where("bound") is None
    assert world.node_of("bound") == "n2"
    # It is an addition; a pod that leaves the queue is no deletion.
    assert event_labels() == ["PodAdd"]
    assert handled(world, "UnschedulablePodDelete") == 1


def test_a_binding_confirms_an_assumed_pod(world: World) -> None:
    world.show("ADDED", pod_wire("ours"))
    queued = world.assume("ours", "n1")
    assert world.cache.is_assumed(queued.pod)
    world.show("MODIFIED", pod_wire("ours", nodeName="n1"))
    assert not world.cache.is_assumed(queued.pod)
    assert world.node_of("ours") == "n1"
    assert len(world.pods) == 0


def test_a_pod_bound_to_another_node_than_assumed_counts_there(world: World) -> None:
    world.show("ADDED", pod_wire("ours"))
    queued = world.assume("ours", "n1")
    world.show("MODIFIED", pod_wire("ours", nodeName="n2"))
    assert world.node_of("ours") == "n2"
    assert not world.cache.is_assumed(queued.pod)


def test_an_update_with_the_same_resource_version_is_ignored(world: World) -> None:
    world.show("ADDED", pod_wire("pod", metadata={"resourceVersion": "7"}))
    world.show(
        "MODIFIED",
        pod_wire("pod", labels={"a": "b"}, metadata={"resourceVersion": "7"}),
    )
    assert world.lines("Update event for unscheduled pod") == []
    assert handled(world, "UnschedulablePodUpdate") == 0


def test_an_update_reaches_the_pod_in_the_queue(world: World) -> None:
    world.show("ADDED", pod_wire("pod"))
    world.show("MODIFIED", pod_wire("pod", labels={"a": "b"}))
    assert world.pop().pod.labels == {"a": "b"}
    assert handled(world, "UnschedulablePodUpdate") == 1
    assert handled(world, "UnschedulablePodUpdatePodLabel") == 1


def test_a_pod_becomes_active_when_its_gates_are_removed(world: World) -> None:
    world.show("ADDED", pod_wire("pod", schedulingGates=[{"name": "wait"}]))
    assert world.where("pod") == "Gated"
    world.show("MODIFIED", pod_wire("pod"))
    assert world.where("pod") == "Active"


def test_an_update_of_an_assumed_pod_is_ignored(world: World) -> None:
    world.show("ADDED", pod_wire("ours"))
    world.assume("ours", "n1")
    world.show("MODIFIED", pod_wire("ours", labels={"a": "b"}))
    assert world.node_of("ours") == "n1"
    assert world.where("ours") == "InFlight"
    assert world.lines("Update event for unscheduled pod") == []


GOING = {"deletionTimestamp": "2027-01-01T00:00:00Z"}


def test_a_terminating_assumed_pod_frees_its_node_at_once(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("ours"))
    world.assume("ours", "n1")
    world.show("MODIFIED", pod_wire("ours", metadata=GOING))
    assert world.node_of("ours") is None
    assert event_labels() == ["PodDelete"]
    assert Listener.hint_events[0][2].node_name == "n1"
    # Only the first event counts.
    world.show("MODIFIED", pod_wire("ours", metadata=GOING, labels={"a": "b"}))
    assert event_labels() == ["PodDelete"]


def test_a_deleted_assumed_pod_frees_its_node_at_once(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("ours"))
    world.assume("ours", "n1")
    world.show("DELETED", pod_wire("ours"))
    assert world.node_of("ours") is None
    assert event_labels() == ["PodDelete"]


def test_a_deleted_waiting_pod_is_rejected_and_counts_until_then(
    world: World,
) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("ours"))
    queued = world.assume("ours", "n1")
    held = world.live.waiting_pods.add(queued.pod, {"Permit": 60.0}, 0.0)
    world.show("DELETED", pod_wire("ours"))
    assert held.status is not None
    assert (held.status.is_rejected, held.status.message) == (True, "removed")
    assert world.node_of("ours") == "n1", "it counts until its attempt ends"
    assert event_labels() == ["PodDelete"]


def test_only_the_first_deletion_event_of_a_waiting_pod_counts(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("ours"))
    queued = world.assume("ours", "n1")
    world.live.waiting_pods.add(queued.pod, {"Permit": 60.0}, 0.0)
    world.show("MODIFIED", pod_wire("ours", metadata=GOING))
    world.show("MODIFIED", pod_wire("ours", metadata=GOING, labels={"a": "b"}))
    assert event_labels() == ["PodDelete"]


def test_a_deletion_of_an_assumed_pod_that_only_a_list_shows(world: World) -> None:
    world.show("ADDED", pod_wire("ours"))
    world.assume("ours", "n1")
    world.show("DELETED", pod_wire("ours"), without_object=True)
    assert world.node_of("ours") is None
    assert len(world.pods) == 0


def test_a_deletion_of_an_assumed_pod_that_was_forgotten_meanwhile(world: World) -> None:
    world.show("ADDED", pod_wire("ours"))
    queued = world.assume("ours", "n1")
    world.cache.forget_pod(queued.pod)
    world.show("DELETED", pod_wire("ours"))
    assert world.where("ours") == "InFlight"
    assert "Failed to apply a change" not in world.messages()


def test_a_pod_recreated_under_the_same_name_is_another_pod(world: World) -> None:
    world.show("ADDED", pod_wire("pod", uid="first"))
    world.show("ADDED", pod_wire("pod", uid="second", labels={"a": "b"}))
    queued = world.pop()
    assert queued.pod.uid == "second"
    assert world.queue.pop() is None
    # A late deletion event of the old pod does not affect its successor.
    world.show("DELETED", pod_wire("pod", uid="first"))
    stored = world.pods.get("default/pod")
    assert stored is not None
    assert stored.uid == "second"


def test_a_pod_recreated_while_its_predecessor_is_assumed(world: World) -> None:
    world.show("ADDED", pod_wire("pod", uid="first"))
    world.assume("pod", "n1")
    world.show("DELETED", pod_wire("pod", uid="first"))
    world.show("ADDED", pod_wire("pod", uid="second"))
    assert world.cache.bound_pod("first") is None
    assert world.where("pod") == "Active"


# -- nominations ----------------------------------------------------------------------------------


def nominated_to(node: str, **parts: Any) -> Wire:
    return pod_wire("nominated", priority=5, status={"nominatedNodeName": node}, **parts)


@pytest.mark.parametrize("then", ["n2", ""])
def test_a_changed_nomination_wakes_less_important_pods(world: World, then: str) -> None:
    world.reject("lower", LISTENER, priority=1)
    world.reject("equal", LISTENER, priority=5)
    world.reject("higher", LISTENER, priority=6)
    world.show("ADDED", nominated_to("n1"))
    assert world.nominated("n1") == ["nominated"]
    world.show("MODIFIED", nominated_to(then, labels={"a": "b"}))
    assert world.nominated("n1") == []
    # Hints run before more important pods are skipped.
    woken = {pod for pod, label, _, _ in Listener.hint_events if label == "PodDelete"}
    assert woken >= {"lower", "equal"}
    assert handled(world, "UnschedulablePodUpdate") == 1


def test_a_removed_nomination_does_not_wake_more_important_pods() -> None:
    world = World(_Woken, verbosity=3)
    world.reject("lower", "Woken", priority=1)
    world.reject("higher", "Woken", priority=6)
    world.show("ADDED", nominated_to("n1"))
    world.show("DELETED", nominated_to("n1"))
    assert world.where("lower") == "Backoff"
    assert world.where("higher") == "Unschedulable"


def test_an_unchanged_nomination_wakes_no_pod(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", nominated_to("n1"))
    world.show("MODIFIED", nominated_to("n1", labels={"a": "b"}))
    assert "PodDelete" not in event_labels()
    assert world.nominated("n1") == ["nominated"]


def test_a_first_nomination_wakes_no_pod(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", pod_wire("nominated", priority=5))
    world.show("MODIFIED", nominated_to("n1"))
    assert "PodDelete" not in event_labels()
    assert world.nominated("n1") == ["nominated"]


class _Woken(Listener):
    """A plugin whose hint queues a pod at every pod deletion."""

    name = "Woken"

    def events_to_register(self) -> list[EventRegistration]:
        return [EventRegistration(ClusterEvent(EventResource.POD, ActionType.DELETE))]


# -- nodes ----------------------------------------------------------------------------------------


def test_an_added_node_is_in_the_cache_before_hints_run(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", a_node(), NODES)
    assert event_labels() == ["NodeAdd"]
    assert Listener.nodes_then == [["n1"]]
    assert world.lines("Add event for node") == ['"Add event for node" node="n1"']


def test_a_removed_node_is_in_the_cache_until_hints_have_run(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("ADDED", a_node(), NODES)
    world.show("DELETED", a_node(), NODES)
    assert event_labels() == ["NodeAdd", "NodeDelete"]
    assert Listener.nodes_then == [["n1"], ["n1"]]
    assert world.cache.node_info("n1") is None
    assert handled(world, "NodeDelete") == 1


def test_the_deletion_of_an_unknown_node_is_no_event(world: World) -> None:
    world.reject("waiting", LISTENER)
    world.show("DELETED", a_node(), NODES, without_object=True)
    assert event_labels() == []


def test_a_heartbeat_of_a_node_is_no_event(world: World) -> None:
    def beating(at: str) -> Wire:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at}
        return a_node(conditions=[ready])

    world.reject("waiting", LISTENER)
    world.show("ADDED", beating("2027-01-01T00:00:00Z"), NODES)
    world.show("MODIFIED", beating("2027-01-01T00:00:10Z"), NODES)
    assert event_labels() == ["NodeAdd"]
    assert handled(world, "NodeUpdateNodeCondition") == 0


def test_an_update_of_a_node_is_an_event_per_changed_property(world: World) -> None:
    world.reject("waiting", LISTENER)
    taint = {"key": "k", "effect": "NoSchedule"}
    world.show("ADDED", a_node(spec={"unschedulable": True, "taints": [taint]}), NODES)
    world.show("MODIFIED", a_node(metadata={"labels": {"a": "b"}}), NODES)
    assert event_labels() == ["NodeAdd", *["NodeUpdate"] * 3]
    # Uncordoned and a taint less: the same event twice, as upstream.
    assert handled(world, "NodeUpdateNodeTaint") == 2
    assert handled(world, "NodeUpdateNodeLabel") == 1
    info = world.cache.node_info("n1")
    assert info is not None
    assert info.labels == {"a": "b"}


def test_pods_of_a_removed_node_count_when_it_is_added_again(world: World) -> None:
    world.show("ADDED", a_node(), NODES)
    world.show("ADDED", pod_wire("there", nodeName="n1", requests={"cpu": "3"}))
    world.show("DELETED", a_node(), NODES)
    assert world.cache.snapshot().node_count == 0
    world.show("ADDED", a_node(), NODES)
    view = world.cache.snapshot()
    assert view.row(view.row_of("n1")).requested["cpu"] == 3000


# -- other kinds ----------------------------------------------------------------------------------


def an_object(kind: Resource, name: str = "it", **fields: Any) -> Wire:
    namespace = {"namespace": "default"} if kind.namespaced else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "uid": "uid-it", **namespace, **fields.pop("metadata", {})},
        **fields,
    }


def test_changes_of_registered_kinds_are_events(world: World) -> None:
    world.reject("waiting", LISTENER)
    claim = an_object(PERSISTENT_VOLUME_CLAIMS, spec={})
    world.show("ADDED", claim, PERSISTENT_VOLUME_CLAIMS)
    bound = an_object(PERSISTENT_VOLUME_CLAIMS, spec={"volumeName": "v"})
    world.show("MODIFIED", bound, PERSISTENT_VOLUME_CLAIMS)
    world.show("DELETED", bound, PERSISTENT_VOLUME_CLAIMS)
    labels = [f"PersistentVolumeClaim{action}" for action in ("Add", "Update", "Delete")]
    assert event_labels() == labels
    olds_and_news = [
        (old and old.spec.volume_name, new and new.spec.volume_name)
        for _, _, old, new in Listener.hint_events
    ]
    assert olds_and_news == [(None, ""), ("", "v"), ("v", None)]
    assert [handled(world, label) for label in labels] == [1, 1, 1]


def test_an_object_is_in_the_cache_before_hints_run(world: World) -> None:
    world.show("ADDED", an_object(STORAGE_CLASSES, provisioner="p"), STORAGE_CLASSES)
    kind = world.cache.kind_of("StorageClass")
    assert kind is not None
    assert world.cache.stored(kind, "it") is not None
    world.show(
        "DELETED", an_object(STORAGE_CLASSES, provisioner="p"), STORAGE_CLASSES, without_object=True
    )
    assert world.cache.stored(kind, "it") is None


def test_a_custom_resource_is_stored_as_a_document_and_is_an_event(world: World) -> None:
    world.reject("waiting", LISTENER)
    handle = world.live.built.handles["default-scheduler"]
    foos = handle.informer("foos.v1.example.com")
    assert foos.get("default/it") is None
    world.show("ADDED", an_object(FOO, size=1), FOO)
    assert event_labels() == ["foos.v1.example.comAdd"]
    assert Listener.hint_events[0][3]["size"] == 1
    assert foos.get("default/it")["size"] == 1
    # The plugin did not register for updates: no hint runs, and nothing is counted.
    world.show("MODIFIED", an_object(FOO, size=2), FOO)
    assert event_labels() == ["foos.v1.example.comAdd"]
    assert handled(world, "foos.v1.example.comUpdate") == 0
    world.show("DELETED", an_object(FOO, size=2), FOO)
    assert Listener.hint_events[-1][2]["size"] == 2
    assert foos.get("default/it") is None


@pytest.mark.parametrize(
    "name", ["bars.v1.example.com", "nodes", "storageclasses.v1.storage.k8s.io"]
)
def test_the_informer_of_an_unwatched_kind_raises(world: World, name: str) -> None:
    handle = world.live.built.handles["default-scheduler"]
    with pytest.raises(LookupError, match=name):
        handle.informer(name)
    assert handle.informer("pods").get("default/none") is None


@pytest.mark.parametrize("kind", [NAMESPACES, VOLUME_ATTACHMENTS, CSI_NODES])
def test_the_deletion_of_an_unknown_object_is_no_event(world: World, kind: Resource) -> None:
    world.show("DELETED", an_object(kind), kind, without_object=True)
    assert "Failed to apply a change" not in world.messages()


def test_changes_of_unregistered_kinds_are_stored_but_no_events(world: World) -> None:
    world.show("ADDED", an_object(NAMESPACES), NAMESPACES)
    kind = world.cache.kind_of("Namespace")
    assert kind is not None
    assert world.cache.stored(kind, "it") is not None
    text = world.metrics.text()
    assert "scheduler_event_handling_duration_seconds_count{" not in (
        text if isinstance(text, str) else text.decode()
    )
