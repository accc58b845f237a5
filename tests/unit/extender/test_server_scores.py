"""`prioritize` of an extender: scaling of plugin scores."""

from __future__ import annotations

import pytest

from kubesched.extender.server.service import ServiceError
from kubesched.testing import a_pod
from tests.unit.extender.server_cases import (
    ByLabel,
    Choosy,
    Document,
    Extender,
    InColumns,
    an_extender,
    some_nodes,
)


def scores_of(extender: Extender, *names: str, pod: Document | None = None) -> dict[str, int]:
    outcome = extender.service.prioritize(extender.names(*names, pod=pod))
    return dict(zip(outcome.hosts, outcome.scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("max_score", "scores"),
    [
        (10, {"a": 0, "b": 4, "c": 9, "d": 10}),
        (100, {"a": 9, "b": 42, "c": 99, "d": 100}),
    ],
)
def test_scores_are_scaled_to_ten_or_to_the_configured_maximum(
    max_score: int, scores: dict[str, int]
) -> None:
    extender = an_extender(ByLabel, max_score=max_score)
    labels = {"a": "9", "b": "42", "c": "99", "d": "100"}
    some_nodes(extender, **{name: {"score": score} for name, score in labels.items()})
    assert scores_of(extender, *labels) == scores


def test_plugins_are_weighted() -> None:
    enabled = [{"name": "ByLabel", "weight": 3}, {"name": "InColumns", "weight": 1}]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    extender = an_extender(ByLabel, InColumns, config={"profiles": [profile]})
    some_nodes(extender, a={"score": "100"}, b={"score": "0"})
    # a: 100 by label and half of its cpu free; b: 0 by label, all cpu free.
    extender.put_pod(a_pod("old", requests={"cpu": "2"}, node="a"))
    assert scores_of(extender, "a", "b") == {"a": 8, "b": 2}


def test_whole_nodes_and_names_are_scored_alike() -> None:
    extender = an_extender(InColumns)
    a, b = some_nodes(extender, a={}, b={})
    extender.put_pod(a_pod("old", requests={"cpu": "3"}, node="b"))
    outcome = extender.service.prioritize(extender.whole(b, a))
    assert list(zip(outcome.hosts, outcome.scores.tolist(), strict=True)) == [("b", 2), ("a", 10)]
    assert scores_of(extender, "a", "b") == {"a": 10, "b": 2}
    assert outcome.best == "a"


def test_an_unknown_node_gets_no_score() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={"score": "50"})
    assert scores_of(extender, "a", "new") == {"a": 5}


def test_cycle_state_of_pre_filter_is_visible_in_score() -> None:
    extender = an_extender(Choosy, max_score=100)
    some_nodes(extender, a={}, b={}, c={})
    assert scores_of(extender, "a") == {"a": 3}


def test_without_score_plugins_there_are_no_scores() -> None:
    class OnlyFilters:
        name = "OnlyFilters"
        filter = Choosy.filter

    extender = an_extender(OnlyFilters)
    some_nodes(extender, a={})
    assert scores_of(extender, "a") == {}


def test_a_score_out_of_range_is_the_error_of_the_call() -> None:
    extender = an_extender(ByLabel)
    some_nodes(extender, a={"score": "101"})
    with pytest.raises(ServiceError) as raised:
        scores_of(extender, "a")
    assert "returns an invalid score 101, it should in the range of [0, 100]" in str(raised.value)
