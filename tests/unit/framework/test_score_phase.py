"""Scores: raw, normalized, checked, weighted and summed."""

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.normalize import default_normalize, truncated_divide
from kubesched.framework.runtime.score_phase import Scores
from kubesched.framework.status import SKIP, Status, StatusError, error, unschedulable
from kubesched.snapshot.node_columns import IntColumn
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import OneNodeScore, Score

NAMES = ("n1", "n2", "n3")


def run(*plugins: Any, weights: dict[str, int] | None = None) -> Scores | Status:
    view, state = a_cluster([a_node(name) for name in NAMES]), CycleState()
    profile = a_profile(*plugins, weights=weights)
    failure = profile.run_pre_score_plugins(state, a_pod(), view.all_nodes())
    return failure or profile.run_score_plugins(state, a_pod(), view.all_nodes())


def scored(*plugins: Any, weights: dict[str, int] | None = None) -> Scores:
    scores = run(*plugins, weights=weights)
    assert isinstance(scores, Scores)
    return scores


def failed(*plugins: Any) -> str:
    status = run(*plugins)
    assert isinstance(status, Status)
    assert status.code == error("").code
    return status.message


def by_name(*scores: Any) -> dict[str, Any]:
    return dict(zip(NAMES, scores, strict=True))


def test_weighted_scores_add_up() -> None:
    scores = scored(
        Score("A", by_name(0, 50, 100)),
        OneNodeScore("B", by_name(100, 1, 0)),
        weights={"A": 2, "B": 3},
    )
    assert {name: column.tolist() for name, column in scores.by_plugin.items()} == {
        "A": [0, 100, 200],
        "B": [300, 3, 0],
    }
    assert scores.total.tolist() == [300, 103, 200]


def test_a_plugin_that_skipped_has_no_scores() -> None:
    scores = scored(Score("A", by_name(1, 1, 1), skip=SKIP), Score("B", by_name(1, 2, 3)))
    assert list(scores.by_plugin) == ["B"]
    assert scores.total.tolist() == [1, 2, 3]


def test_normalizing_gets_the_raw_scores_of_all_nodes() -> None:
    class Normalised(Score):
        def normalize_scores(self, state: Any, pod: Any, scores: IntColumn) -> IntColumn:
            return default_normalize(scores)

    assert scored(Normalised("A", by_name(5, 10, 1000))).total.tolist() == [0, 1, 100]


@pytest.mark.parametrize(
    ("value", "shown"),
    [pytest.param(101, "101", id="too high"), pytest.param(-1, "-1", id="too low")],
)
def test_a_score_outside_the_range_is_an_error(value: int, shown: str) -> None:
    assert failed(Score("P", by_name(0, value, 0))) == (
        'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score '
        f"{shown}, it should in the range of [0, 100] after normalizing"
    )


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        pytest.param(
            Score("P", by_name(1.5, 2.0, 3.0)),
            "returned scores of type float64, expected integers",
            id="floats",
        ),
        pytest.param(
            Score("P", by_name(float("nan"), 2.0, 3.0)),
            "returned scores of type float64, expected integers",
            id="not a number",
        ),
        pytest.param(
            Score("P", by_name(True, False, True)),
            "returned scores of type bool, expected integers",
            id="a mask",
        ),
        pytest.param(Score("P", ValueError("bad")), "ValueError: bad", id="an exception"),
        pytest.param(Score("P", StatusError(error("bad"))), "bad", id="a raised status"),
        pytest.param(
            OneNodeScore("P", by_name(1, ValueError("bad"), 2)), "ValueError: bad", id="on one node"
        ),
        pytest.param(
            OneNodeScore("P", by_name(1, 0.5, 2)),
            "returned scores of type float64, expected integers",
            id="a float for one node",
        ),
    ],
)
def test_a_score_that_is_not_an_integer_per_node_is_an_error(plugin: Any, text: str) -> None:
    assert failed(plugin) == f'running Score plugins: plugin "P" failed with: {text}'


def test_scores_of_another_shape_are_an_error() -> None:
    class Short:
        name = "P"

        def score_nodes(self, state: Any, pod: Any, nodes: Any) -> IntColumn:
            return np.zeros(2, dtype=np.int64)

    text = "returned scores of shape (2,), expected (3,)"
    assert failed(Short()) == f'running Score plugins: plugin "P" failed with: {text}'


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(ValueError("bad"), "ValueError: bad", id="an exception"),
        pytest.param(
            np.zeros(1, dtype=np.int64), "returned scores of shape (1,), expected (3,)", id="short"
        ),
        pytest.param(
            np.array([0.0, np.nan, 1.0]),
            "returned scores of type float64, expected integers",
            id="floats",
        ),
    ],
)
def test_an_invalid_normalization_is_an_error(answer: Any, text: str) -> None:
    class Wrong(Score):
        def normalize_scores(self, state: Any, pod: Any, scores: IntColumn) -> IntColumn:
            if isinstance(answer, Exception):
                raise answer
            column: IntColumn = answer
            return column

    assert failed(Wrong("P", by_name(1, 2, 3))) == (
        f'running Normalize on Score plugins: plugin "P" failed with: {text}'
    )


@pytest.mark.parametrize("status", [error("bad"), unschedulable("bad")], ids=["error", "rejection"])
def test_pre_score_can_only_succeed_skip_or_fail(status: Status) -> None:
    plugin = Score("P", by_name(1, 2, 3), skip=status)
    assert failed(plugin) == 'running PreScore plugin "P": bad'


def test_pre_score_keeps_plugins_skipped_before_the_failure() -> None:
    view, state = a_cluster([a_node("n1")]), CycleState()
    profile = a_profile(Score("A", {}, skip=SKIP), Score("B", {}, skip=error("bad")))
    profile.run_pre_score_plugins(state, a_pod(), view.all_nodes())
    assert state.skip_score_plugins == {"A"}


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        pytest.param([0, 5, 10], False, [0, 50, 100], id="the highest becomes 100"),
        pytest.param([0, 5, 10], True, [100, 50, 0], id="reversed, it becomes 0"),
        pytest.param([1, 2, 3], False, [33, 66, 100], id="fractions are truncated"),
        pytest.param([0, 0], False, [0, 0], id="zero stays zero"),
        pytest.param([0, 0], True, [100, 100], id="reversed, zero is best"),
        pytest.param([-5, -1], False, [-5, -1], id="the maximum is at least zero"),
        pytest.param([-3, 2], False, [-150, 100], id="negative stays negative"),
        pytest.param([-1, 3], False, [-33, 100], id="towards zero, as Go divides"),
    ],
)
def test_default_normalize(scores: list[int], reverse: bool, expected: list[int]) -> None:
    assert default_normalize(np.array(scores), reverse=reverse).tolist() == expected


def test_division_is_towards_zero() -> None:
    dividends = np.array([7, -7, 7, -7])
    assert truncated_divide(dividends, np.array([2, 2, -2, -2])).tolist() == [3, -3, -3, 3]
