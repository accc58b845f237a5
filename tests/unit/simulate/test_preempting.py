from tests.unit.simulate.small_clusters import left, node, places, pod, simulated

LOW = {"app": "low"}


def test_a_victim_with_a_controller_is_recreated_and_finds_another_node() -> None:
    # The big pod fits on n only, once the small one has left; the small one fits on m as well.
    run = simulated(
        node("n", "2"),
        node("m", "1"),
        pod("small-1", "1", on="n", owner="ReplicaSet/small"),
        pod("big", "2", priority=10),
    )
    assert places(run) == {"big": "n", "small-1-again-1": "m"}
    assert left(run) == {}
    (preemption,) = run.preemptions
    assert (preemption.pod.key, preemption.node) == ("default/big", "n")
    (victim,) = preemption.victims
    assert (victim.pod.key, victim.recreated_as) == ("default/small-1", "default/small-1-again-1")
    assert run.placements[0].after_preemption
    assert run.placements[0].attempts == 2


def test_a_victim_without_a_controller_is_not_recreated() -> None:
    run = simulated(
        node("n", "1"), node("m", "1"), pod("x", on="n"), pod("y", on="m"), pod("big", priority=1)
    )
    assert len(run.evicted) == 1
    assert run.evicted[0].recreated_as == ""
    assert places(run) == {"big": run.preemptions[0].node}
    assert left(run) == {}


def test_a_stateful_set_recreates_its_pod_under_the_same_name() -> None:
    run = simulated(
        node("n", "1"), pod("db-0", on="n", owner="StatefulSet/db"), pod("big", priority=1)
    )
    assert run.evicted[0].recreated_as == "default/db-0"
    assert places(run) == {"big": "n"}
    assert left(run) == {"db-0": "Unschedulable"}


def test_a_pod_that_may_not_preempt_evicts_nothing() -> None:
    run = simulated(
        node("n", "1"), pod("low", on="n"), pod("polite", priority=9, preemptionPolicy="Never")
    )
    assert run.preemptions == []
    assert left(run) == {"polite": "Unschedulable"}
    assert "not eligible due to preemptionPolicy=Never." in run.left[0].outcome.message


def test_a_victim_may_preempt_in_turn() -> None:
    # top preempts middle, middle preempts bottom, bottom fits nowhere.
    run = simulated(
        node("n", "2"),
        node("m", "1"),
        pod("middle", "1", on="n", priority=5, owner="ReplicaSet/middle"),
        pod("filler", "1", on="n", priority=50),
        pod("bottom", "1", on="m", owner="ReplicaSet/bottom"),
        pod("top", "1", priority=10, nodeSelector={"kubernetes.io/hostname": "n"}),
    )
    assert places(run) == {"top": "n", "middle-again-1": "m"}
    assert left(run) == {"bottom-again-1": "Unschedulable"}
    assert [preemption.pod.key for preemption in run.preemptions] == [
        "default/top",
        "default/middle-again-1",
    ]


def test_an_eviction_counts_against_the_budget() -> None:
    # One disruption is allowed: the first preemption violates no budget, the second does.
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "low"},
        "spec": {"selector": {"matchLabels": LOW}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2},
    }
    run = simulated(
        node("n", "1"),
        node("m", "1"),
        budget,
        pod("low-1", on="n", labels=LOW),
        pod("low-2", on="m", labels=LOW),
        pod("first", priority=5),
        pod("second", priority=5),
    )
    assert sorted(places(run)) == ["first", "second"]
    assert [preemption.pdb_violation_count for preemption in run.preemptions] == [0, 1]


def test_a_nomination_of_lower_priority_to_the_same_node_is_cleared() -> None:
    lesser = pod(
        "lesser",
        priority=1,
        schedulingGates=[{"name": "wait"}],
        status={"nominatedNodeName": "n"},
    )
    run = simulated(node("n", "1"), pod("low", on="n"), lesser, pod("great", priority=9))
    assert places(run) == {"great": "n"}
    view = run.world.view
    assert view.nominated_on(view.row_of("n")) == []
