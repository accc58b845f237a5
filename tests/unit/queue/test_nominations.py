"""Who was promised which node."""

from typing import Any

from kubesched.model.pod_info import PodInfo
from tests.unit.queue.world import NODE_ADD, World


def promised(world: World, name: str, node: str, **parts: Any) -> PodInfo:
    return world.pod(name, status={"nominatedNodeName": node}, **parts)


def test_a_new_pod_has_what_its_status_says() -> None:
    world = World()
    pod = promised(world, "a", "n1")
    world.queue.add(pod)
    assert world.promised == {"a": "n1"}
    assert world.nominator.node_of(pod.uid) == "n1"
    assert world.nominator.nominated_pods("n1") == [pod]


def test_a_gated_pod_is_promised_nothing() -> None:
    world = World()
    world.gates.held["Gate"].add("a")
    world.queue.add(promised(world, "a", "n1"))
    assert world.promised == {}


def test_a_pod_that_is_woken_or_comes_back_keeps_what_it_had() -> None:
    world = World()
    world.queue.add(promised(world, "a", "n1"))
    world.fail(world.pop(), "Fit")
    world.happen(NODE_ADD)
    assert world.promised == {"a": "n1"}


def test_a_node_given_outdoes_the_status() -> None:
    world = World()
    pod = promised(world, "a", "n1")
    world.nominator.add_nominated_pod(pod, "n2")
    assert world.promised == {"a": "n2"}
    assert world.nominator.nominated_pods("n1") == []
    world.nominator.add_nominated_pod(pod, "")
    assert world.promised == {}
    assert world.nominator.node_of(pod.uid) == ""
    world.nominator.add_nominated_pod(pod)
    assert world.promised == {"a": "n1"}


def test_pods_of_one_node_are_told_in_the_order_of_their_promises() -> None:
    world = World()
    first, second = promised(world, "b", "n1"), promised(world, "a", "n1")
    world.nominator.add_nominated_pod(first)
    world.nominator.add_nominated_pod(second)
    assert world.nominator.nominated_pods("n1") == [first, second]
    world.nominator.add_nominated_pod(first)
    assert world.nominator.nominated_pods("n1") == [second, first]


def test_a_pod_that_is_gone_is_promised_nothing() -> None:
    world = World(verbosity=4)
    pod = promised(world, "a", "n1")
    world.known.clear()
    world.nominator.add_nominated_pod(pod)
    assert world.promised == {}
    text = "Pod doesn't exist in podLister, aborted adding it to the nominator"
    assert world.messages() == [f'"{text}" pod="default/a"']


def test_a_pod_that_has_a_node_is_promised_none() -> None:
    world = World(verbosity=4)
    pod = promised(world, "a", "n1")
    world.pod("a", nodeName="n3")
    world.nominator.add_nominated_pod(pod)
    assert world.promised == {}
    text = "Pod is already scheduled to a node, aborted adding it to the nominator"
    assert world.messages() == [f'"{text}" pod="default/a" node="n3"']


def test_a_promise_outlives_an_update_that_does_not_know_of_it() -> None:
    world = World()
    old = world.add("a")
    world.nominator.add_nominated_pod(old, "n1")
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(old, new)
    assert world.promised == {"a": "n1"}
    assert world.nominator.nominated_pods("n1") == [new]


def test_an_update_that_drops_or_changes_it_is_believed() -> None:
    world = World()
    first = promised(world, "a", "n1")
    world.queue.add(first)
    second = promised(world, "a", "n2")
    world.queue.update(first, second)
    assert world.promised == {"a": "n2"}
    third = world.pod("a")
    world.queue.update(second, third)
    assert world.promised == {}


def test_updates_count_wherever_the_pod_waits() -> None:
    world = World()
    queued = world.refused("a")
    world.queue.update(queued.pod, promised(world, "a", "n1"))
    assert (world.where("a"), world.promised) == ("Unschedulable", {"a": "n1"})
    world.happen(NODE_ADD)
    world.queue.update(queued.pod, promised(world, "a", "n2"))
    assert (world.where("a"), world.promised) == ("Backoff", {"a": "n2"})


def test_a_deleted_pod_gives_its_promise_back_even_when_under_way() -> None:
    world = World()
    pod = promised(world, "a", "n1")
    world.queue.add(pod)
    world.pop()
    world.queue.delete(pod)
    assert world.promised == {}
