"""The nominator: which pod is nominated to which node."""

from typing import Any

from kubesched.snapshot.pod_info import PodInfo
from tests.unit.queue.world import NODE_ADD, World


def nominated(world: World, name: str, node: str, **parts: Any) -> PodInfo:
    return world.pod(name, status={"nominatedNodeName": node}, **parts)


def test_a_new_pod_is_nominated_by_its_status() -> None:
    world = World()
    pod = nominated(world, "a", "n1")
    world.queue.add(pod)
    assert world.nominated == {"a": "n1"}
    assert world.nominator.node_of(pod.uid) == "n1"
    assert world.nominator.nominated_pods("n1") == [pod]


def test_a_gated_pod_is_not_nominated() -> None:
    world = World()
    world.gates.held["Gate"].add("a")
    world.queue.add(nominated(world, "a", "n1"))
    assert world.nominated == {}


def test_a_requeued_pod_keeps_its_nomination() -> None:
    world = World()
    world.queue.add(nominated(world, "a", "n1"))
    world.fail(world.pop(), "Fit")
    world.happen(NODE_ADD)
    assert world.nominated == {"a": "n1"}


def test_an_explicit_node_overrides_the_status() -> None:
    world = World()
    pod = nominated(world, "a", "n1")
    world.nominator.add_nominated_pod(pod, "n2")
    assert world.nominated == {"a": "n2"}
    assert world.nominator.nominated_pods("n1") == []
    world.nominator.add_nominated_pod(pod, "")
    assert world.nominated == {}
    assert world.nominator.node_of(pod.uid) == ""
    world.nominator.add_nominated_pod(pod)
    assert world.nominated == {"a": "n1"}


def test_pods_of_a_node_are_in_order_of_nomination() -> None:
    world = World()
    first, second = nominated(world, "b", "n1"), nominated(world, "a", "n1")
    world.nominator.add_nominated_pod(first)
    world.nominator.add_nominated_pod(second)
    assert world.nominator.nominated_pods("n1") == [first, second]
    world.nominator.add_nominated_pod(first)
    assert world.nominator.nominated_pods("n1") == [second, first]


def test_a_deleted_pod_is_not_nominated() -> None:
    world = World(verbosity=4)
    pod = nominated(world, "a", "n1")
    world.pods.clear()
    world.nominator.add_nominated_pod(pod)
    assert world.nominated == {}
    text = "Pod doesn't exist in podLister, aborted adding it to the nominator"
    assert world.messages() == [f'"{text}" pod="default/a"']


def test_a_bound_pod_is_not_nominated() -> None:
    world = World(verbosity=4)
    pod = nominated(world, "a", "n1")
    world.pod("a", nodeName="n3")
    world.nominator.add_nominated_pod(pod)
    assert world.nominated == {}
    text = "Pod is already scheduled to a node, aborted adding it to the nominator"
    assert world.messages() == [f'"{text}" pod="default/a" node="n3"']


def test_a_nomination_survives_an_update_without_one() -> None:
    world = World()
    old = world.add("a")
    world.nominator.add_nominated_pod(old, "n1")
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(old, new)
    assert world.nominated == {"a": "n1"}
    assert world.nominator.nominated_pods("n1") == [new]


def test_an_update_may_remove_or_change_a_nomination() -> None:
    world = World()
    first = nominated(world, "a", "n1")
    world.queue.add(first)
    second = nominated(world, "a", "n2")
    world.queue.update(first, second)
    assert world.nominated == {"a": "n2"}
    third = world.pod("a")
    world.queue.update(second, third)
    assert world.nominated == {}


def test_updates_apply_in_every_state() -> None:
    world = World()
    queued = world.rejected("a")
    world.queue.update(queued.pod, nominated(world, "a", "n1"))
    assert (world.where("a"), world.nominated) == ("Unschedulable", {"a": "n1"})
    world.happen(NODE_ADD)
    world.queue.update(queued.pod, nominated(world, "a", "n2"))
    assert (world.where("a"), world.nominated) == ("Backoff", {"a": "n2"})


def test_deletion_removes_the_nomination_of_an_in_flight_pod() -> None:
    world = World()
    pod = nominated(world, "a", "n1")
    world.queue.add(pod)
    world.pop()
    world.queue.delete(pod)
    assert world.nominated == {}
