"""Which plugins are incremental, and which are called method by method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework.fast import GroupedScores
from kubesched.framework.runtime.adapters import ColumnFilter, ColumnScore


class Incremental:
    """Has all the methods, and the hooks that replace them."""

    name = "Incremental"

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        return None

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
        return []

    def incremental_filter(self, pod: Any, view: Any) -> str:
        return "verdicts"

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> None:
        return None

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        return scores

    def incremental_score(self, pod: Any, view: Any) -> str:
        return "scores"


class Inheriting(Incremental):
    """Changes nothing."""


class ScoringOtherwise(Incremental):
    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.ones(len(nodes), dtype=np.int64)


class FilteringOtherwise(Incremental):
    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
        raise ValueError("no")


class Sandboxed(Incremental):
    kubesched_sandbox = object()


@pytest.mark.parametrize(
    ("plugin", "filters", "scores"),
    [
        (Incremental(), True, True),
        (Inheriting(), True, True),
        (ScoringOtherwise(), True, False),
        (FilteringOtherwise(), False, True),
        (Sandboxed(), False, False),
    ],
)
def test_a_hook_counts_if_its_class_defines_the_replaced_methods(
    plugin: Any, filters: bool, scores: bool
) -> None:
    assert (ColumnFilter(plugin).incremental is not None) is filters
    assert (ColumnScore(plugin).incremental is not None) is scores


def test_scores_of_groups_are_those_of_their_nodes() -> None:
    by_group = GroupedScores(np.array([10, 20, 30]), np.array([2, 0, 2, 1]))
    assert by_group.column().tolist() == [30, 10, 30, 20]
    assert by_group.take(np.array([3, 0])).tolist() == [20, 30]
    each = GroupedScores(np.array([7, 8]))
    assert each.column().tolist() == [7, 8]
    assert each.take(np.array([1])).tolist() == [8]
