"""A decision does not depend on the order in which objects arrived."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.policy import PodDisruptionBudget
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Victims
from kubesched.framework.preemption.disruption_budgets import budgets_of
from kubesched.framework.preemption.dry_run import DryRun
from kubesched.framework.status import Code
from tests.property.random_cases import NUMBERS, Loaded, case_of, load, numbers_of

NEVER_STARTED = float("inf")


def without_choices(loaded: Loaded) -> dict[str, Any]:
    decision = loaded.decide().as_json()
    preemption = decision.pop("preemption")
    return {**decision, "preempts": preemption is not None}


@settings(max_examples=100)
@given(NUMBERS, st.randoms(use_true_random=False))
def test_arrival_order_only_decides_ties(number: int, chance: Any) -> None:
    case = case_of(number)
    shuffled = chance.sample(case["objects"], len(case["objects"]))
    first, second = load(case), load(case, objects=shuffled)
    assert without_choices(first) == without_choices(second)
    for loaded in (first, second):
        decision = loaded.decide()
        assert decision.suggested_host in (decision.best or ("",))


def criteria(victims: Victims) -> tuple[float, ...]:
    """Return upstream's criteria for candidates; smaller is better."""
    highest = max(pod.priority for pod in victims.pods)
    starts = [pod.start_s for pod in victims.pods if pod.priority == highest]
    earliest = min(NEVER_STARTED if start is None else start for start in starts)
    total = sum(pod.priority + 2**31 for pod in victims.pods)
    return (victims.pdb_violation_count, highest, total, len(victims.pods), -earliest)


def open_outcomes(loaded: Loaded) -> list[tuple[str, list[str]]]:
    """Return the best candidates: all that tie on every criterion."""
    state, nodes = CycleState(), loaded.view.all_nodes()
    outcome = loaded.profile.run_pre_filter_plugins(state, loaded.pod, nodes)
    rows = nodes.rows
    if outcome.node_names is not None:
        rows = nodes.rows[[name in outcome.node_names for name in nodes.names]]
    if outcome.status is None:
        judged = loaded.view.nodes_at(rows)
        verdicts = loaded.profile.run_filter_plugins_with_nominated_pods(state, loaded.pod, judged)
        codes = [verdicts[position].code for position in range(len(judged))]
        rows = rows[[code is Code.UNSCHEDULABLE for code in codes]]
    budgets = budgets_of(loaded.view.objects.store_of(PodDisruptionBudget))
    dry_run = DryRun(loaded.profile.filters, state, loaded.pod, budgets)
    found = [v for v in dry_run.select(loaded.view, rows) if isinstance(v, Victims)]
    best = min(map(criteria, found), default=None)
    return [
        (victims.node_name, sorted(pod.key for pod in victims.pods))
        for victims in found
        if criteria(victims) == best
    ]


@settings(max_examples=100)
@given(numbers_of("preemption", "mixed", "messages"), st.randoms(use_true_random=False))
def test_preemption_differs_only_among_full_ties(number: int, chance: Any) -> None:
    case = {**case_of(number), "config": None}
    case["pod"]["spec"]["schedulerName"] = "default-scheduler"
    shuffled = chance.sample(case["objects"], len(case["objects"]))
    for loaded in (load(case), load(case, objects=shuffled)):
        outcome = loaded.decide().as_json()["preemption"]
        if outcome is not None:
            chosen = (outcome["nominatedNode"], outcome["victims"])
            assert chosen in open_outcomes(load(case))
            assert chosen in open_outcomes(load(case, objects=shuffled))
