"""In which order the other scheduler's decisions are taken to have been made."""

import pytest

from kubesched.scheduler.shadow import BACK_S
from tests.unit.builders import Wire
from tests.unit.scheduler.shadow_world import World, refused

TWO = {"small": "4", "large": "6"}
"""The first pod goes to `large`, and a small second one to `small`."""
NO_CPU = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
NOT_HELPFUL = "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
NO_VICTIMS = (
    "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
    "1 Preemption is not helpful for scheduling."
)


def test_a_binding_is_judged_by_what_was_there_before_it() -> None:
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


def test_a_pod_that_takes_too_long_is_waited_for_once() -> None:
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


def test_more_important_pods_go_first_if_that_explains_more() -> None:
    world = World(TWO)
    world.wait("low", cpu="3")
    world.wait("high", cpu="3", priority=10)
    world.bind("low", "small", cpu="3")
    world.bind("high", "large", cpu="3", priority=10)
    world.step()
    assert world.results == [("high", "same"), ("low", "same")]


def test_a_pod_that_was_decided_before_a_more_important_one_came() -> None:
    world = World(TWO)
    world.wait("low", cpu="3")
    world.wait("high", cpu="3", priority=10)
    world.bind("low", "large", cpu="3")
    world.bind("high", "small", cpu="3", priority=10)
    world.later()
    assert world.results == [("low", "same"), ("high", "same")]


def test_a_difference_is_told_when_nothing_explains_it() -> None:
    world = World(TWO)
    world.wait("a")
    world.bind("a", "small")
    world.step()
    assert world.results == []
    assert world.shadow.wakes_at_s > world.clock.monotonic_s()
    world.later()
    assert world.results == [("a", "different_node")]


def test_a_difference_counts_in_what_follows() -> None:
    world = World(TWO)
    world.wait("a", cpu="3")
    world.bind("a", "small", cpu="3")
    world.wait("b", cpu="3")
    world.bind("b", "large", cpu="3")
    world.later()
    assert world.results == [("a", "different_node"), ("b", "same")]


def test_changes_behind_an_outcome_wait_with_it() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.bind("a", "small", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.later()
    assert world.results == [("a", "same")]  # `large` was full when it was decided.


def test_refusals_are_compared_in_their_turn() -> None:
    world = World(TWO)
    world.wait("a", cpu="5")
    world.wait("b", cpu="5")
    world.refuse("b", NO_CPU + NO_VICTIMS, cpu="5")
    world.step()
    assert world.results == []  # `a` may take what `b` does not get.
    world.bind("a", "large", cpu="5")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_the_same_refusal_is_compared_once_another_again() -> None:
    world = World(TWO)
    world.wait("a", cpu="9")
    world.refuse("a", NO_CPU + NOT_HELPFUL, cpu="9")
    world.refuse("a", NO_CPU + NOT_HELPFUL, cpu="9", labels={"moved": "yes"})
    world.step()
    assert world.results == [("a", "same")]
    world.refuse("a", "0/2 nodes are available: 2 too dark.", cpu="9")
    world.later()
    assert world.results == [("a", "same"), ("a", "text")]


def test_a_refused_pod_is_not_waited_for() -> None:
    world = World(TWO)
    world.wait("a", cpu="9")
    world.refuse("a", NO_CPU + NOT_HELPFUL, cpu="9")
    world.wait("b")
    world.bind("b", "large")
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]
    assert world.shadow.waiting_count == 0


@pytest.mark.parametrize("status", [{}, refused("gated", "SchedulingGated")])
def test_a_gated_pod_is_not_waited_for(status: Wire) -> None:
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


def test_a_deleted_pod_is_not_waited_for() -> None:
    world = World(TWO)
    world.wait("a")
    world.show("a", kind="DELETED")
    world.wait("b")
    world.bind("b", "large")
    world.step()
    assert world.results == [("b", "same")]


def test_pods_of_other_schedulers_are_none_of_ours() -> None:
    world = World(TWO)
    world.wait("a", schedulerName="another")
    world.bind("a", "small", schedulerName="another")
    world.show("bound-before", nodeName="small")
    world.step()
    assert world.results == []
    assert world.shadow.waiting_count == 0


def test_what_was_there_at_the_start_is_not_compared() -> None:
    world = World(TWO)
    world.wait("a")
    world.bind("a", "small")
    world.wait("b")
    world.step(compares=False)
    assert world.results == []
    assert world.shadow.waiting_count == 1


def test_an_eviction_waits_for_the_refusal_it_follows_from() -> None:
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
    nominated = refused("0/1 nodes are available: 1 Insufficient cpu.")
    world.wait("a", cpu="2", priority=10, status=nominated | {"nominatedNodeName": "n1"})
    world.step()
    assert world.results == [("a", "same")]
    world.later()
    world.bind("a", "n1", cpu="2", priority=10)
    world.step()
    assert world.results == [("a", "same"), ("a", "same")]


def test_at_the_end_nothing_is_waited_for() -> None:
    world = World(TWO)
    world.wait("slow", cpu="3")
    world.wait("a")
    world.step()
    world.bind("a", "large")
    world.scheduler.loop.is_scheduling = True
    world.scheduler.loop.finish()
    assert world.results == [("a", "same")]


def test_an_object_that_cannot_be_taken_over_does_not_stop_the_rest() -> None:
    world = World(TWO)

    def fails() -> None:
        raise ValueError("bad")

    world.shadow.put(fails)
    world.wait("a")
    world.bind("a", "large")
    world.step()
    assert world.results == [("a", "same")]
    assert any("Error applying a change" in line for line in world.lines)


def test_what_happened_between_decision_and_binding_is_taken_back_for_a_look() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.bind("a", "small", cpu="2")  # Decided while `large` was full.
    world.later()
    assert world.results == [("a", "same")]
    world.wait("b", cpu="2")
    world.bind("b", "large", cpu="2")  # Nothing is left of the look.
    world.step()
    assert world.results == [("a", "same"), ("b", "same")]


def test_what_happened_long_ago_is_not_taken_back() -> None:
    world = World(TWO)
    world.show("old", nodeName="large", requests={"cpu": "5"})
    world.wait("a", cpu="2")
    world.show("old", kind="DELETED", nodeName="large", requests={"cpu": "5"})
    world.step()
    world.clock.at_s += BACK_S
    world.bind("a", "small", cpu="2")
    world.later()
    assert world.results == [("a", "different_node")]


def test_a_promised_node_that_they_pass_over() -> None:
    world = World(TWO)
    promised = refused(NO_CPU + NO_VICTIMS) | {"nominatedNodeName": "small"}
    world.wait("a", status=promised)
    world.step(compares=False)
    world.bind("a", "large", status=promised)
    world.later()
    assert world.results == [("a", "different_node")]
    assert world.verdicts[0].why == "small was promised to the pod, and fits"


def test_a_plugin_that_breaks_off_does_not_stop_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(TWO)

    def breaks(*arguments: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("kubesched.scheduler.shadow.compare", breaks)
    world.wait("a")
    world.bind("a", "large")
    world.later()
    assert world.results == [("a", "we_refuse")]
    assert world.verdicts[0].why == "our decision broke off: KeyError: 'lost'"
