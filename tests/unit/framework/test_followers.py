"""Who is asked for a follower, and whose calls are made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework.adapt import ColumnFilter, ColumnScore
from kubesched.framework.followers import Added


class Following:
    """Has all the calls, and what takes their place."""

    name = "Following"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        return None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        return []

    def filter_follower(self, pod: Any, view: Any) -> str:
        return "verdicts"

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
        return None

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        return scores

    def score_follower(self, pod: Any, view: Any) -> str:
        return "scores"


class Inheriting(Following):
    """Changes nothing."""


class ScoringOtherwise(Following):
    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.ones(len(nodes), dtype=np.int64)


class FilteringOtherwise(Following):
    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        raise ValueError("no")


class Fenced(Following):
    kubesched_fence = object()


@pytest.mark.parametrize(
    ("plugin", "filters", "scores"),
    [
        (Following(), True, True),
        (Inheriting(), True, True),
        (ScoringOtherwise(), True, False),
        (FilteringOtherwise(), False, True),
        (Fenced(), False, False),
    ],
)
def test_a_follower_speaks_for_the_calls_it_was_written_beside(
    plugin: Any, filters: bool, scores: bool
) -> None:
    assert (ColumnFilter(plugin).follower is not None) is filters
    assert (ColumnScore(plugin).follower is not None) is scores


def test_scores_by_way_are_each_nodes_own() -> None:
    by_way = Added(np.array([10, 20, 30]), np.array([2, 0, 2, 1]))
    assert by_way.column().tolist() == [30, 10, 30, 20]
    assert by_way.take(np.array([3, 0])).tolist() == [20, 30]
    each = Added(np.array([7, 8]))
    assert each.column().tolist() == [7, 8]
    assert each.take(np.array([1])).tolist() == [8]
