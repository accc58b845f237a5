"""The order in which the other scheduler's decisions are applied."""

import pytest

from kubesched.shadow.scheduler import BACK_S
from tests.unit.builders import Wire
from tests.unit.shadow.shadow_world import World, rejected

TWO = {"small": "4", "large": "6"}
"""The first pod goes to `large`, and a small second one to `small`."""
NO_CPU = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
NOT_HELPFUL = "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
NO_VICTIMS = (
    "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
    "1 Preemption is not helpful for scheduling."
)


def test_a_binding_is_compared_on_the_state_before_it() -> None:
    world = World(TWO)
    world.wait("a", cpu="3")
    world.wait("b", cpu="3")
    world.step()
    world.bind("a", "large", cpu="3")
    world.bind("b", "small", cpu="3")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_a_binding_that_overtook_another_waits_for_it() -> None:
    world = World(TWO)
    world.wait("a", cpu="3")
    world.wait("b", cpu="3")
    world.bind("b", "small", cpu="3")  # Best only once `a` is on `large`.
    world.step()
    assert world.results == []
    world.bind("a", "large", cpu="3")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_a_slow_pod_is_awaited_once() -> None:
    world = World(TWO)
    world.wait("slow", cpu="3")
    world.wait("b")
    world.wait("c")
    world.bind("b", "large")
    world.step()
    assert world.results == []
    world.later()
    assert world.results == [("b", "same")]
    world.bind("c", "small")
    world.step()
    assert world.results == [("b", "same"), ("c", "same")]


def test_pods_of_higher_priority_go_first_if_that_explains_more() -> None:
    world = World(TWO)
    world.wait("low", cpu="3")
    world.wait("high", cpu="3", priority=10)
    world.bind("low", "small", cpu="3")
    world.bind("high", "large", cpu="3", priority=10)
    world.step()
    assert world.results == [("high", "same"), ("low", "same")]


def test_a_pod_decided_before_one_of_higher_priority_arrived() -> None:
    world = World(TWO)
    world.wait("low", cpu="3")
    world.wait("high", cpu="3", priority=10)
    world.bind("low", "large", cpu="3")
    world.bind("high", "small", cpu="3", priority=10)
    world.later()
    assert world.results == [("low", "same"), ("high", "same")]


def test_a_difference_is_reported_when_nothing_explains_it() -> None:
    world = World(TWO)
    world.wait("a")
    world.bind("a", "small")
    world.step()
    assert world.results == []
    assert world.shadow.wakes_at_s > world.clock.monotonic_s()
    world.later()
    assert world.results == [("a", "different_node")]


def test_a_differing_binding_counts_for_later_decisions() -> None:
    world = World(TWO)
    world.wait("a", cpu="3")
    world.bind("a", "small", cpu="3")
    world.wait("b", cpu="3")
    world.bind("b", "large", cpu="3")
    world.later()
    assert world.results == [("a", "different_node"), ("b", "same")]


def test_changes_after_a_held_outcome_wait() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.bind("a", "small", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.later()
    assert world.results == [("a", "same")]  # `large` was full when it was decided.


def test_rejections_are_compared_in_order() -> None:
    world = World(TWO)
    world.wait("a", cpu="5")
    world.wait("b", cpu="5")
    world.reject("b", NO_CPU + NO_VICTIMS, cpu="5")
    world.step()
    assert world.results == []  # `a` may take what `b` does not get.
    world.bind("a", "large", cpu="5")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_a_repeated_rejection_is_compared_once() -> None:
    world = World(TWO)
    world.wait("a", cpu="9")
    world.reject("a", NO_CPU + NOT_HELPFUL, cpu="9")
    world.reject("a", NO_CPU + NOT_HELPFUL, cpu="9", labels={"moved": "yes"})
    world.step()
    assert world.results == [("a", "same")]
    world.reject("a", "0/2 nodes are available: 2 too dark.", cpu="9")
    world.later()
    assert world.results == [("a", "same"), ("a", "text")]


def test_a_rejected_pod_is_not_awaited() -> None:
    world = World(TWO)
    world.wait("a", cpu="9")
    world.reject("a", NO_CPU + NOT_HELPFUL, cpu="9")
    world.wait("b")
    world.bind("b", "large")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]
    assert world.shadow.waiting_count == 0


@pytest.mark.parametrize("status", [{}, rejected("gated", "SchedulingGated")])
def test_a_gated_pod_is_not_awaited(status: Wire) -> None:
    world = World(TWO)
    world.wait("a", schedulingGates=[{"name": "closed"}], status=status)
    world.wait("b")
    world.bind("b", "large")
    world.step()
    assert world.results == [("b", "same")]
    assert world.shadow.waiting_count == 0
    world.wait("a")
    world.step()
    assert world.shadow.waiting_count == 1


def test_a_deleted_pod_is_not_awaited() -> None:
    world = World(TWO)
    world.wait("a")
    world.show("a", kind="DELETED")
    world.wait("b")
    world.bind("b", "large")
    world.step()
    assert world.results == [("b", "same")]


def test_pods_of_other_profiles_are_not_compared() -> None:
    world = World(TWO)
    world.wait("a", schedulerName="another")
    world.bind("a", "small", schedulerName="another")
    world.show("bound-before", nodeName="small")
    world.step()
    assert world.results == []
    assert world.shadow.waiting_count == 0


def test_initial_pods_are_not_compared() -> None:
    world = World(TWO)
    world.wait("a")
    world.bind("a", "small")
    world.wait("b")
    world.step(compares=False)
    assert world.results == []
    assert world.shadow.waiting_count == 1


def test_an_eviction_waits_for_its_rejection() -> None:
    world = World({"n1": "2"})
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim: Wire = {
        "requests": {"cpu": "2"},
        "nodeName": "n1",
        "status": {"conditions": [condition]},
    }
    world.show("victim", **victim)
    world.wait("a", cpu="2", priority=10)
    world.step()
    world.show("victim", kind="DELETED", **victim)
    world.step()
    assert world.results == []
    nominated = rejected("0/1 nodes are available: 1 Insufficient cpu.")
    world.wait("a", cpu="2", priority=10, status=nominated | {"nominatedNodeName": "n1"})
    world.step()
    assert world.results == [("a", "same")]
    world.later()
    world.bind("a", "n1", cpu="2", priority=10)
    world.step()
    assert world.results == [("a", "same"), ("a", "same")]


def test_nothing_is_awaited_at_the_end() -> None:
    world = World(TWO)
    world.wait("slow", cpu="3")
    world.wait("a")
    world.step()
    world.bind("a", "large")
    world.scheduler.loop.is_scheduling = True
    world.scheduler.loop.finish()
    assert world.results == [("a", "same")]


def test_a_malformed_object_does_not_stop_the_loop() -> None:
    world = World(TWO)

    def fails() -> None:
        raise ValueError("bad")

    world.shadow.put(fails)
    world.wait("a")
    world.bind("a", "large")
    world.step()
    assert world.results == [("a", "same")]
    assert any("Error applying a change" in line for line in world.lines)


def test_changes_between_decision_and_binding_are_rolled_back_temporarily() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.bind("a", "small", cpu="2")  # Decided while `large` was full.
    world.later()
    assert world.results == [("a", "same")]
    world.wait("b", cpu="2")
    world.bind("b", "large", cpu="2")  # The rollback was temporary.
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_old_changes_are_not_rolled_back() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.step()
    world.clock.at_s += BACK_S
    world.bind("a", "small", cpu="2")
    world.later()
    assert world.results == [("a", "different_node")]


def test_a_nominated_node_that_the_other_scheduler_ignores() -> None:
    world = World(TWO)
    nominee = rejected(NO_CPU + NO_VICTIMS) | {"nominatedNodeName": "small"}
    world.wait("a", status=nominee)
    world.step(compares=False)
    world.bind("a", "large", status=nominee)
    world.later()
    assert world.results == [("a", "different_node")]
    assert world.verdicts[0].why == "the pod is nominated to small, which fits"


def test_a_raising_plugin_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(TWO)

    def breaks(*arguments: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("kubesched.shadow.scheduler.compare", breaks)
    world.wait("a")
    world.bind("a", "large")
    world.later()
    assert world.results == [("a", "we_reject")]
    assert world.verdicts[0].why == "kubesched failed to decide: KeyError: 'lost'"
