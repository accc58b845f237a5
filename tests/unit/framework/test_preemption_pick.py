"""The choice of a candidate node, and violations of disruption budgets."""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from kubesched.api.decode import decode_object
from kubesched.api.meta import KubeResource
from kubesched.api.policy import PodDisruptionBudget
from kubesched.framework.preemption.candidates import DryRunOutcomes, pick_one
from kubesched.framework.preemption.disruption_budgets import budgets_of
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_budget, a_cluster, a_node, a_pod

Victim = tuple[int, int | None]
"""Priority and start, in minutes."""


@dataclass(frozen=True)
class Candidate:
    """A candidate node with its victims, most important first."""

    node_name: str
    victims: tuple[Victim, ...]
    violations: int


def candidate(node_name: str, *victims: Victim, violations: int = 0) -> Candidate:
    return Candidate(node_name, victims, violations)


def a_victim_of(name: str, victim: Victim, **parts: Any) -> PodInfo:
    priority, minute = victim
    status = {} if minute is None else {"startTime": f"2024-05-01T00:{minute:02d}:00Z"}
    return a_pod(name, priority=priority, status=status, **parts)


def outcomes_of(view: ClusterView, candidates: list[Candidate]) -> DryRunOutcomes:
    width = max(len(candidate.victims) for candidate in candidates)
    pods = np.full((len(candidates), width), -1, dtype=np.int32)
    breaks = np.zeros(pods.shape, dtype=np.bool_)
    index_of = {pod.name: pod.index for pod in view.pods.pods if pod is not None}
    for line, candidate in enumerate(candidates):
        names = [f"{candidate.node_name}-{number}" for number in range(len(candidate.victims))]
        pods[line, : len(names)] = [index_of[name] for name in names]
        breaks[line, : candidate.violations] = True
    rows = np.array([view.row_of(candidate.node_name) for candidate in candidates])
    return DryRunOutcomes(view, rows, Verdicts(len(rows)), (pods, pods >= 0, breaks))


def picked(*candidates: Candidate, at_once: int = 99) -> str:
    """Return the picked node, with a number of candidates per chunk."""
    pods = {
        candidate.node_name: [
            a_victim_of(f"{candidate.node_name}-{n}", v) for n, v in enumerate(candidate.victims)
        ]
        for candidate in candidates
    }
    view = a_cluster([a_node(candidate.node_name) for candidate in candidates], pods)
    chunks = [list(candidates[n : n + at_once]) for n in range(0, len(candidates), at_once)]
    found = pick_one([outcomes_of(view, chunk) for chunk in chunks])
    assert found is not None
    return found.node_name


@pytest.mark.parametrize(
    "losers",
    [
        pytest.param([candidate("b", (0, 0), violations=1)], id="fewer violated budgets"),
        pytest.param([candidate("b", (11, 9))], id="a less important first victim"),
        pytest.param([candidate("b", (10, 9), (5, 9))], id="a smaller sum of priorities"),
        pytest.param([candidate("b", (10, 2))], id="a later start"),
        pytest.param([candidate("b", (10, 2)), candidate("c", (10, 3))], id="also among three"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 99])
def test_one_victim_of_priority_ten_that_started_late_wins(
    losers: list[Candidate], at_once: int
) -> None:
    winner = candidate("winner", (10, 5))
    assert picked(winner, *losers, at_once=at_once) == "winner"
    assert picked(*losers, winner, at_once=at_once) == "winner"


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            candidate("a", (20, 0), (20, 0)),
            candidate("b", (0, 5), violations=1),
            id="budgets come before priorities",
        ),
        pytest.param(
            candidate("a", (10, 0), (10, 0), (10, 0)),
            candidate("b", (11, 5)),
            id="the most important victim comes before their sum",
        ),
        pytest.param(
            candidate("a", (-5, 0)),
            candidate("b", (-5, 0), (-5, 0)),
            id="negative priorities do not make more victims look better",
        ),
        pytest.param(
            candidate("a", (10, 0), (3, 9)),
            candidate("b", (10, 9), (4, 9)),
            id="the sum comes before the start",
        ),
        pytest.param(
            candidate("a", (10, 4), (0, 1)),
            candidate("b", (10, 3), (0, 9)),
            id="only the most important victims' starts count",
        ),
        pytest.param(
            candidate("a", (10, 4), (10, 8)),
            candidate("b", (10, 3), (10, 9)),
            id="the earliest of them",
        ),
        pytest.param(
            candidate("a", (10, None)),
            candidate("b", (10, 59)),
            id="a victim that has not started counts as starting now",
        ),
    ],
)
def test_criteria_come_in_upstreams_order(better: Candidate, worse: Candidate) -> None:
    assert picked(better, worse) == better.node_name
    assert picked(worse, better) == better.node_name


def test_the_number_of_victims_decides_between_equal_sums() -> None:
    # Two priorities whose sum with 2^31 each equals one priority with 2^31.
    few = candidate("few", (1, 0), (-(2**31) + 2, 0))
    many = candidate("many", (1, 0), (-(2**31) + 1, 0), (-(2**31) + 1, 0))
    assert picked(many, few) == "few"
    assert picked(few, many) == "few"


def test_a_full_tie_goes_to_the_first() -> None:
    first, second = candidate("a", (1, 1)), candidate("b", (1, 1))
    assert picked(first, second) == "a"
    assert picked(second, first) == "b"


def test_without_a_candidate_none_is_picked() -> None:
    assert pick_one([]) is None


WEB = {"app": "web"}


def breaks(budgets: list[KubeResource], *victims: PodInfo) -> list[bool]:
    """Return which victims of one node violate a budget, in their order."""
    return breaks_by_node(budgets, list(victims))[0]


def breaks_by_node(budgets: list[KubeResource], *nodes: list[PodInfo]) -> list[list[bool]]:
    names = [f"node-{number}" for number in range(len(nodes))]
    pods = dict(zip(names, nodes, strict=True))
    view = a_cluster([a_node(name) for name in names], pods, budgets)
    lines = np.full((len(nodes), max(map(len, nodes))), -1, dtype=np.int32)
    for line, victims in enumerate(nodes):
        lines[line, : len(victims)] = [view.pods.index_of[pod.uid] for pod in victims]
    found = budgets_of(view.objects.store_of(PodDisruptionBudget)).violating(view, lines)
    assert not found[lines < 0].any()
    return [found[line, : len(victims)].tolist() for line, victims in enumerate(nodes)]


def a_victim(name: str, labels: dict[str, str] | None = None, **parts: Any) -> PodInfo:
    return a_victim_of(name, (0, 0), labels=WEB if labels is None else labels, **parts)


def test_a_budget_allows_a_number_of_victims_in_the_order_of_importance() -> None:
    victims = [a_victim(name) for name in "abc"]
    assert breaks([a_budget("b", WEB, allowed=2)], *victims) == [False, False, True]


@pytest.mark.parametrize(
    ("budget", "victim"),
    [
        pytest.param(a_budget("b", {"app": "db"}), a_victim("p"), id="another app"),
        pytest.param(a_budget("b", WEB, namespace="x"), a_victim("p"), id="another namespace"),
        pytest.param(a_budget("b", WEB, disrupted=["p"]), a_victim("p"), id="already disrupted"),
        pytest.param(a_budget("b", {}), a_victim("p"), id="an empty selector"),
        pytest.param(a_budget("b", None), a_victim("p"), id="no selector"),
        pytest.param(a_budget("b", WEB), a_victim("p", {}), id="a pod without labels"),
    ],
)
def test_a_budget_that_does_not_match_the_pod_is_not_violated(
    budget: KubeResource, victim: PodInfo
) -> None:
    assert breaks([budget], victim) == [False]


def test_a_selector_for_absent_labels_does_not_match_a_pod_without_labels() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    budget = decode_object(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": 0},
        }
    )
    assert breaks([budget], a_victim("p", {}), a_victim("q", {"x": "y"})) == [False, True]


def test_a_pod_violates_one_of_its_budgets_and_counts_in_all() -> None:
    tight, wide = a_budget("tight", WEB), a_budget("wide", {"tier": "1"}, allowed=1)
    both = a_victim("p", {"app": "web", "tier": "1"})
    other = a_victim("q", {"tier": "1"})
    assert breaks([tight, wide], both, other) == [True, True]


def test_a_budget_without_a_status_allows_nothing() -> None:
    budget = decode_object(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": WEB}},
        }
    )
    assert breaks([budget], a_victim("p")) == [True]


def test_budgets_are_counted_separately_for_each_node() -> None:
    budget = a_budget("b", WEB, allowed=1)
    first, second = [a_victim("a"), a_victim("b")], [a_victim("c")]
    assert breaks_by_node([budget], first, second) == [[False, True], [False]]


def test_a_pod_of_two_budgets_violates_the_tighter_one_and_counts_in_both() -> None:
    budgets = [a_budget("loose", WEB, allowed=1), a_budget("tight", {"tier": "front"}, allowed=0)]
    both = a_victim("a", {**WEB, "tier": "front"})
    assert breaks(budgets, both, a_victim("b")) == [True, True]


def test_an_already_disrupted_pod_does_not_count_in_its_budget() -> None:
    budget = a_budget("b", WEB, allowed=1, disrupted=["a"])
    assert breaks([budget], a_victim("a"), a_victim("b"), a_victim("c")) == [False, False, True]


def test_the_coverage_is_reused_while_selectors_stay_the_same() -> None:
    budget = a_budget("b", WEB, allowed=1)
    view = a_cluster([a_node("node")], {"node": [a_victim("a")]}, [budget])
    store = view.objects.store_of(PodDisruptionBudget)
    before = budgets_of(store)
    store.put("default/b", cast("PodDisruptionBudget", a_budget("b", WEB, allowed=0)))
    after = budgets_of(store, before.coverage)
    assert after.coverage is before.coverage
    assert (before.allowed.tolist(), after.allowed.tolist()) == ([1], [0])
    store.put("default/c", cast("PodDisruptionBudget", a_budget("c", {"app": "db"})))
    assert budgets_of(store, after.coverage).coverage is not after.coverage
