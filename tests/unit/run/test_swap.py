"""Swaps of profile sets: pods that wait, pods in flight, rejected profile sets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kubesched.api.builders import a_node, a_pod
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.run.swap import SwapError
from kubesched.testing.cluster import Cluster
from tests.unit.run.reload_world import profile, run, swap

WAIT = Status(Code.WAIT)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def begin(cluster: Cluster, plugin: type) -> None:
    """Start a scheduler with two nodes and a plugin."""
    cluster.add(a_node("a"), a_node("b"))
    swap(cluster, plugin)


class Rejects:
    """Rejects every pod."""

    name = "Mine"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("not today")

    def events_to_register(self) -> list[Any]:
        return []


class OnlyB:
    """Allows only node b."""

    name = "Mine"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None if node.name == "b" else unschedulable("not b")


def test_a_rejected_pod_is_retried_by_the_new_plugin(cluster: Cluster) -> None:
    begin(cluster, Rejects)
    cluster.add(a_pod("one"))
    cluster.schedule()
    assert "2 not today" in cluster.why("one")
    assert cluster.state("one") == "unschedulable"
    new = swap(cluster, OnlyB)
    assert new.number == 2
    cluster.advance(3)
    assert cluster.node_of("one") == "b"


def test_later_pods_are_decided_by_the_new_plugin(cluster: Cluster) -> None:
    cluster.add(a_node("a"), a_node("b"))
    swap(cluster, OnlyB)
    for number in range(5):
        cluster.add(a_pod(f"p{number}"))
    cluster.schedule()
    assert set(cluster.placed().values()) == {"b"}


class Broken:
    """Starts a task, then fails in its constructor."""

    name = "Mine"

    def __init__(self, handle: Any) -> None:
        handle.start_task("for ever", asyncio.Event().wait)
        raise ValueError("the label is missing")

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None


class WithTask:
    """Holds pods at permit until its own task allows them."""

    name = "Mine"
    is_allowing = False
    log: list[str] = []

    def __init__(self, handle: Any) -> None:
        self._handle = handle

        async def let_go() -> None:
            try:
                while True:
                    await handle.clock.sleep(1)
                    for held in handle.waiting_pods() if WithTask.is_allowing else ():
                        held.allow(self.name)
            finally:
                WithTask.log.append("task ended")

        handle.start_task("let go", let_go)

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status, float]:
        return WAIT, 600.0

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        WithTask.log.append(f"bound {pod.name}")


async def task_names() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


def test_a_failed_build_is_rejected_and_stops_its_tasks(cluster: Cluster) -> None:
    begin(cluster, OnlyB)
    with pytest.raises(SwapError, match="the label is missing"):
        swap(cluster, Broken)
    cluster.add(a_pod("one"))
    cluster.schedule()
    assert cluster.node_of("one") == "b"
    assert cluster.live.profile_set.number == 1
    assert "for ever" not in run(cluster, task_names())


def test_a_pod_held_by_permit_is_finished_by_the_old_plugins(cluster: Cluster) -> None:
    WithTask.log.clear()
    WithTask.is_allowing = False
    begin(cluster, WithTask)
    cluster.add(a_pod("held"))
    cluster.schedule()
    assert cluster.state("held") == "waitingOnPermit"
    swap(cluster, OnlyB)
    cluster.add(a_pod("later"))
    cluster.advance(5)
    assert cluster.node_of("later") == "b"
    assert cluster.state("held") == "waitingOnPermit"
    assert WithTask.log == []
    WithTask.is_allowing = True
    cluster.advance(5)
    assert cluster.state("held") == "bound"
    assert WithTask.log == ["bound held", "task ended"]
    assert cluster.live.retiring == []
    assert [reason for reason, _ in cluster.events("held")] == ["Scheduled"]


def test_a_pod_that_the_old_plugins_finally_reject_is_retried_by_the_new_ones(
    cluster: Cluster,
) -> None:
    WithTask.is_allowing = False
    begin(cluster, WithTask)
    cluster.add(a_pod("held"))
    cluster.schedule()
    swap(cluster, OnlyB)
    (held,) = cluster.live.waiting_pods
    held.reject("Mine", "no")
    cluster.advance(5)
    assert cluster.node_of("held") == "b"


def test_pods_of_a_removed_profile_are_queued_again_when_it_returns(
    cluster: Cluster,
) -> None:
    swap(cluster, profiles=[profile(), profile("second")])
    cluster.add(a_pod("mine", schedulerName="second"), a_pod("other"))
    cluster.schedule()
    assert cluster.state("mine") in ("unschedulable", "backoff")
    swap(cluster, profiles=[profile()])
    assert len(cluster.live.queue) == 1
    cluster.add(a_node("a"))
    cluster.advance(12)
    assert cluster.placed() == {"default/other": "a"}
    assert cluster.state("mine") == "foreign"
    swap(cluster, profiles=[profile("second"), profile()])
    cluster.advance(2)
    assert cluster.node_of("mine") == "a"


class Holds:
    """Gates all pods."""

    name = "Gate"

    def pre_enqueue(self, pod: Any) -> Status | None:
        return unschedulable("closed") if pod.labels.get("held") else None

    def events_to_register(self) -> list[Any]:
        return []


def test_a_new_pre_enqueue_plugin_gates_queued_pods_until_it_is_removed(cluster: Cluster) -> None:
    cluster.live.scheduler.stop_scheduling()
    cluster.add(a_node("a"), a_pod("held", labels={"held": "yes"}), a_pod("free"))
    cluster.schedule()
    assert cluster.state("held") == "active"
    swap(cluster, Holds)
    assert cluster.state("held") == "gated"
    assert cluster.state("free") == "active"
    swap(cluster)
    assert cluster.state("held") == "active"
    cluster.live.scheduler.start_scheduling()
    cluster.schedule()
    assert sorted(cluster.placed()) == ["default/free", "default/held"]


class LastFirst:
    """Sorts pods by name, last first."""

    name = "LastFirst"

    def less(self, first: Any, second: Any) -> bool:
        return bool(first.pod.name > second.pod.name)


def test_a_new_queue_sort_plugin_orders_queued_pods(cluster: Cluster) -> None:
    cluster.live.scheduler.stop_scheduling()
    cluster.add(a_node("a", capacity={"cpu": "1", "pods": "10"}))
    cluster.add(*(a_pod(name, requests={"cpu": "1"}) for name in ("a", "b", "c")))
    cluster.schedule()
    sort = {"queueSort": {"enabled": [{"name": "LastFirst"}], "disabled": [{"name": "*"}]}}
    swap(cluster, LastFirst, profiles=[{"plugins": sort}])
    cluster.live.scheduler.start_scheduling()
    cluster.schedule()
    assert cluster.placed() == {"default/c": "a"}


class Remembers:
    """Continues the count of its predecessor."""

    name = "Mine"

    def __init__(self) -> None:
        self.seen = 0

    def take_over(self, former: Any) -> None:
        self.seen = former.seen

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self.seen += 1


class RemembersNothing(Remembers):
    """Fails to take over."""

    name = "Mine"

    def take_over(self, former: Any) -> None:
        raise KeyError("seen")


def test_a_plugin_can_take_over_state_from_its_predecessor(cluster: Cluster) -> None:
    begin(cluster, Remembers)
    cluster.add(a_pod("one"))
    cluster.schedule()
    swap(cluster, Remembers)
    cluster.add(a_pod("two"))
    cluster.schedule()
    assert cluster.live.profiles["default-scheduler"].plugins["Mine"].seen == 2
    with pytest.raises(SwapError, match=r'plugin "Mine": take_over\(\): KeyError'):
        swap(cluster, RemembersNothing)
    assert cluster.live.profiles["default-scheduler"].plugins["Mine"].seen == 2


class WrongHint:
    """Returns an invalid registration."""

    name = "Mine"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None

    def events_to_register(self) -> list[Any]:
        return ["Node/Add"]


def test_invalid_registrations_are_rejected(cluster: Cluster) -> None:
    with pytest.raises(SwapError, match="expected a list of EventRegistration"):
        swap(cluster, WrongHint)


class HoldsAll:
    """Holds every pod at permit forever."""

    name = "Mine"

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status, float]:
        return WAIT, 600.0


def a_claim(name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def test_a_volume_reserved_by_an_old_attempt_is_not_reserved_twice(cluster: Cluster) -> None:
    begin(cluster, HoldsAll)
    cluster.add(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "only"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                "hostPath": {"path": "/data"},
            },
            "status": {"phase": "Available"},
        },
        a_claim("first"),
        a_claim("second"),
    )
    claims = [
        [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        for name in ("first", "second")
    ]
    cluster.add(a_pod("holds", volumes=claims[0]))
    cluster.schedule()
    assert cluster.state("holds") == "waitingOnPermit"
    swap(cluster, HoldsAll)
    cluster.add(a_pod("claims", volumes=claims[1]))
    cluster.schedule()
    assert cluster.state("claims") == "unschedulable"
    assert "didn't find available persistent volumes to bind" in cluster.why("claims")


def held_by_a_removed_profile(cluster: Cluster) -> None:
    cluster.add(a_node("a"))
    swap(cluster, HoldsAll, profiles=[profile(), profile("second", HoldsAll)])
    cluster.add(a_pod("held", schedulerName="second"))
    cluster.schedule()
    swap(cluster, profiles=[profile()])
    assert cluster.state("held") == "waitingOnPermit"


def test_a_held_pod_of_a_removed_profile_is_dropped_if_rejected(
    cluster: Cluster,
) -> None:
    held_by_a_removed_profile(cluster)
    (held,) = cluster.live.waiting_pods
    held.reject("Mine", "no")
    cluster.advance(2)
    assert cluster.state("held") == "foreign"
    assert len(cluster.live.queue) == 0
    assert cluster.live.queue.in_flight_pods() == []
    assert cluster.live.retiring == []
    swap(cluster, profiles=[profile(), profile("second")])
    cluster.schedule()
    assert cluster.node_of("held") == "a"


def test_a_held_pod_whose_profile_returns_is_not_scheduled_twice(cluster: Cluster) -> None:
    held_by_a_removed_profile(cluster)
    swap(cluster, profiles=[profile(), profile("second")])
    cluster.advance(2)
    assert cluster.state("held") == "waitingOnPermit"
    (held,) = cluster.live.waiting_pods
    held.allow("Mine")
    cluster.schedule()
    assert cluster.node_of("held") == "a"
    assert [reason for reason, _ in cluster.events("held")] == ["Scheduled"]


def test_a_deleted_held_pod_of_a_removed_profile_frees_its_node(
    cluster: Cluster,
) -> None:
    held_by_a_removed_profile(cluster)
    cluster.remove("Pod", "held")
    cluster.advance(1)
    assert list(cluster.live.waiting_pods) == []
    assert cluster.live.cache.assumed_count == 0
