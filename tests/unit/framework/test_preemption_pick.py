"""Which node's victims hurt least, and what budgets forbid."""

from typing import Any

import pytest

from kubesched.columns.pod_columns import BoundPod
from kubesched.framework.interface import Victims
from kubesched.framework.preemption.budgets import budgets_of, violating
from kubesched.framework.preemption.evaluator import pick_one
from kubesched.objects.decode import decode_object
from kubesched.objects.meta import KubeResource
from tests.unit.builders import a_budget, a_cluster, a_node, a_pod

Victim = tuple[int, int | None]
"""Priority, and the minute of its start."""


def bound(name: str, victim: Victim, **parts: Any) -> BoundPod:
    priority, minute = victim
    status = {} if minute is None else {"startTime": f"2024-05-01T00:{minute:02d}:00Z"}
    pod = a_pod(name, priority=priority, status=status, **parts)
    return BoundPod(pod, "node", nominated=False, whole=None)


def candidate(node_name: str, *victims: Victim, violations: int = 0) -> Victims:
    pods = tuple(bound(f"{node_name}-{number}", v) for number, v in enumerate(victims))
    return Victims(node_name, pods, violations)


@pytest.mark.parametrize(
    "losers",
    [
        pytest.param([candidate("b", (0, 0), violations=1)], id="fewer budgets broken"),
        pytest.param([candidate("b", (11, 9))], id="a less important first victim"),
        pytest.param([candidate("b", (10, 9), (5, 9))], id="a smaller sum of priorities"),
        pytest.param([candidate("b", (10, 2))], id="a later start"),
        pytest.param([candidate("b", (10, 2)), candidate("c", (10, 3))], id="also among three"),
    ],
)
def test_one_victim_of_priority_ten_that_started_late_wins(losers: list[Victims]) -> None:
    winner = candidate("winner", (10, 5))
    assert pick_one([winner, *losers]) is winner
    assert pick_one([*losers, winner]) is winner


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
            id="a victim that has not started, starts now",
        ),
    ],
)
def test_criteria_come_in_upstreams_order(better: Victims, worse: Victims) -> None:
    assert pick_one([better, worse]) is better
    assert pick_one([worse, better]) is better


def test_the_number_of_victims_decides_between_equal_sums() -> None:
    # Two priorities whose sum with 2^31 each equals one priority with 2^31.
    few = candidate("few", (1, 0), (-(2**31) + 2, 0))
    many = candidate("many", (1, 0), (-(2**31) + 1, 0), (-(2**31) + 1, 0))
    assert pick_one([many, few]) is few


def test_a_full_tie_goes_to_the_first() -> None:
    first, second = candidate("a", (1, 1)), candidate("b", (1, 1))
    assert pick_one([first, second]) is first
    assert pick_one([second, first]) is second


WEB = {"app": "web"}


def breaks(budgets: list[KubeResource], *victims: BoundPod) -> list[bool]:
    view = a_cluster([a_node("node")], objects=budgets)
    return violating(victims, budgets_of(view.objects.pod_disruption_budgets))


def a_victim(name: str, labels: dict[str, str] | None = None, **parts: Any) -> BoundPod:
    return bound(name, (0, 0), labels=WEB if labels is None else labels, **parts)


def test_a_budget_allows_so_many_in_the_order_of_importance() -> None:
    victims = [a_victim(name) for name in "abc"]
    assert breaks([a_budget("b", WEB, allowed=2)], *victims) == [False, False, True]


@pytest.mark.parametrize(
    ("budget", "victim"),
    [
        pytest.param(a_budget("b", {"app": "db"}), a_victim("p"), id="another app"),
        pytest.param(a_budget("b", WEB, namespace="x"), a_victim("p"), id="another namespace"),
        pytest.param(a_budget("b", WEB, disrupted=["p"]), a_victim("p"), id="on its way already"),
        pytest.param(a_budget("b", {}), a_victim("p"), id="an empty selector"),
        pytest.param(a_budget("b", None), a_victim("p"), id="no selector"),
        pytest.param(a_budget("b", WEB), a_victim("p", {}), id="a pod without labels"),
    ],
)
def test_a_budget_that_does_not_speak_of_the_pod_is_not_broken(
    budget: KubeResource, victim: BoundPod
) -> None:
    assert breaks([budget], victim) == [False]


def test_a_selector_for_absent_labels_does_not_find_a_pod_without_any() -> None:
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


def test_a_pod_breaks_if_one_of_its_budgets_does_and_takes_from_all() -> None:
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
