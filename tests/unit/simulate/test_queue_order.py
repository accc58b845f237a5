from typing import Any

from kubesched.framework.runtime.registry import Registry
from kubesched.profile.build import configured
from kubesched.simulate.simulation import Simulation
from kubesched.simulate.world import World
from tests.unit.simulate.small_clusters import left, node, places, pod, scenario, simulated


def test_the_pod_with_the_higher_priority_goes_first() -> None:
    run = simulated(node("n", "1"), pod("low"), pod("high", priority=10))
    assert places(run) == {"high": "n"}
    assert left(run) == {"low": "Unschedulable"}


def test_equal_pods_keep_the_order_of_the_file() -> None:
    run = simulated(node("n", "2"), pod("c"), pod("a"), pod("b"))
    assert places(run) == {"c": "n", "a": "n"}
    assert left(run) == {"b": "Unschedulable"}


def test_the_reason_is_the_text_of_the_event() -> None:
    run = simulated(node("n", "1"), node("m", unschedulable=True), pod("big", "3"))
    outcome = run.left[0].outcome
    assert outcome.message.startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    )
    assert outcome.reasons == {"Insufficient cpu": 1, "node(s) were unschedulable": 1}


def test_pods_spread_over_equal_nodes() -> None:
    run = simulated(node("n"), node("m"), *(pod(f"p{i}") for i in range(4)))
    assert sorted(places(run).values()) == ["m", "m", "n", "n"]


def test_an_unschedulable_pod_is_retried_after_a_change() -> None:
    friend = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "db"}},
                }
            ]
        }
    }
    run = simulated(
        node("n"),
        node("m"),
        pod("web", priority=5, affinity=friend),
        pod("db", labels={"app": "db"}, nodeSelector={"kubernetes.io/hostname": "m"}),
    )
    assert places(run) == {"db": "m", "web": "m"}
    assert {placed.pod.key: placed.attempts for placed in run.placements} == {
        "default/db": 1,
        "default/web": 2,
    }


def test_pods_that_are_not_queued_have_a_reason() -> None:
    run = simulated(
        node("n"),
        pod("gated", schedulingGates=[{"name": "wait"}]),
        pod("foreign", schedulerName="other"),
        pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("fine"),
    )
    assert left(run) == {"gated": "Held", "foreign": "OtherScheduler", "leaving": "Deleting"}
    assert places(run) == {"fine": "n"}


def test_without_nodes_no_pod_is_placed() -> None:
    run = simulated(pod("lonely"))
    assert run.left[0].outcome.message == "no nodes available to schedule pods"


def test_a_nomination_in_the_files_reserves_room() -> None:
    # The nominated pod is gated; a pod with lower priority does not get its room.
    nominated = pod(
        "nominated",
        priority=10,
        schedulingGates=[{"name": "wait"}],
        status={"nominatedNodeName": "n"},
    )
    run = simulated(node("n", "1"), nominated, pod("lesser"))
    assert left(run) == {"nominated": "Held", "lesser": "Unschedulable"}
    equal = simulated(node("n", "1"), nominated, pod("greater", priority=11))
    assert places(equal) == {"greater": "n"}


def test_the_queue_is_sorted_by_the_profiles_plugin() -> None:
    class ByName:
        name = "ByName"

        def less(self, first: Any, second: Any) -> bool:
            return bool(first.pod.name < second.pod.name)

    config = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      queueSort: {enabled: [{name: ByName}], disabled: [{name: "*"}]}
      multiPoint: {disabled: [{name: PrioritySort}]}
"""
    registry = Registry({"ByName": lambda args, handle: ByName()})
    objects = scenario(node("n", "1"), pod("b", priority=9), pod("a")).objects
    run = Simulation(World(configured(config, registry=registry), objects)).run()
    # The pod with the lower priority goes first, and is preempted.
    assert run.attempts == 3
    assert places(run) == {"b": "n"}
    assert [victim.pod.key for victim in run.evicted] == ["default/a"]


def test_equal_pods_are_rejected_with_the_same_message() -> None:
    documents = [
        node("n", "2"),
        *(pod(f"p{i}", "1") for i in range(20)),
        pod("q", "1", priority=-1),
    ]
    run = simulated(*documents)
    careful = scenario(*documents)
    world = World(configured(), careful.objects)
    world.has_own_plugins = True  # Disables the cache of rejections.
    slow = Simulation(world).run()
    assert places(run) == places(slow)
    assert [(leftover.pod.key, leftover.outcome.message) for leftover in run.left] == [
        (leftover.pod.key, leftover.outcome.message) for leftover in slow.left
    ]
    assert len(run.left) == 19
