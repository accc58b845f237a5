"""The outcome of PreFilter: continue, stop, or consider some nodes only."""

from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.runtime.filter_phase import PreFilterOutcome
from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import PreFilter


def run(*answers: Any) -> tuple[PreFilterOutcome, CycleState]:
    plugins = [PreFilter(chr(ord("A") + number), answer) for number, answer in enumerate(answers)]
    state, view = CycleState(), a_cluster([a_node("n1")])
    outcome = a_profile(*plugins).run_pre_filter_plugins(state, a_pod(), view.all_nodes())
    return outcome, state


def ran(state: CycleState) -> str:
    return "".join(letter for letter in "ABCD" if state.get(f"ran-{letter}"))


def names(*node_names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(node_names))


def test_every_form_of_success_continues() -> None:
    outcome, state = run(None, SUCCESS, SKIP)
    assert outcome == PreFilterOutcome()
    assert state.skip_filter_plugins == {"C"}


def test_an_unresolvable_rejection_stops_at_once() -> None:
    outcome, state = run(SKIP, unresolvable("no"), None)
    assert outcome.status == unresolvable("no").by("B")
    assert ran(state) == "AB"
    assert state.skip_filter_plugins == {"A"}


def test_other_plugins_run_after_a_plain_rejection_since_preemption_needs_their_state() -> None:
    outcome, state = run(unschedulable("no"), None)
    assert outcome.status == unschedulable("no").by("A")
    assert ran(state) == "AB"


def test_the_last_plain_rejection_counts() -> None:
    outcome, _ = run(unschedulable("one"), unschedulable("two"), None)
    assert outcome.status == unschedulable("two").by("B")


def test_an_unresolvable_rejection_after_a_plain_one_counts() -> None:
    outcome, _ = run(unschedulable("one"), unresolvable("two"))
    assert outcome.status == unresolvable("two").by("B")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(error("bad"), "bad", id="an error status"),
        pytest.param(StatusError(error("bad")), "bad", id="a raised status"),
        pytest.param(ValueError("bad"), "ValueError: bad", id="an exception"),
        pytest.param(Status(Code.WAIT, ("later",)), "later", id="a status of another point"),
    ],
)
def test_anything_else_is_an_error(answer: Any, text: str) -> None:
    outcome, state = run(answer, None)
    expected = Status(Code.ERROR, (f'running PreFilter plugin "A": {text}',), "A")
    assert outcome.status == expected
    assert ran(state) == "A"


def test_node_names_are_intersected() -> None:
    outcome, _ = run(names("n1", "n2"), None, names("n2", "n3"))
    assert outcome == PreFilterOutcome(None, frozenset({"n2"}), ("A", "C"))


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        pytest.param([names()], "node(s) didn't satisfy plugin A", id="one plugin names no node"),
        pytest.param(
            [names("n1"), None, names("n2")],
            "node(s) didn't satisfy plugin(s) [A C] simultaneously",
            id="two plugins name no common node",
        ),
    ],
)
def test_no_node_left_is_an_unresolvable_rejection_without_a_plugin(
    answers: Any, text: str
) -> None:
    outcome, state = run(*answers, None)
    assert outcome.status == unresolvable(text)
    assert not state.get(f"ran-{chr(ord('A') + len(answers))}")
