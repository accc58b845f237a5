"""Plugins of a few lines whose answers a test chooses.

Owns nothing but their shape; what they say is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import NodeTable, NodeView
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import AllReasons, FilterVerdict, Rejected
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo


def mask_of(nodes: NodeTable, names: Sequence[str]) -> BoolColumn:
    """Return which nodes are named."""
    return np.array([name in names for name in nodes.names], dtype=np.bool_)


class ColumnRefusal:
    """Refuses named nodes, each with its status, all at once."""

    def __init__(self, name: str, statuses: Mapping[str, Status]) -> None:
        self.name = name
        self._statuses = statuses

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return [Rejected(mask_of(nodes, [n]), s) for n, s in self._statuses.items()]


class OneNodeRefusal:
    """Refuses named nodes one by one, and remembers whom it was asked about."""

    def __init__(self, name: str, statuses: Mapping[str, Status]) -> None:
        self.name = name
        self._statuses = statuses
        self.asked: list[str] = []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        self.asked.append(node.name)
        return self._statuses.get(node.name)


class Reasons:
    """Gives named nodes several reasons."""

    def __init__(self, name: str, rejections: Sequence[tuple[Sequence[str], Status]]) -> None:
        self.name = name
        self._rejections = rejections

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return AllReasons([Rejected(mask_of(nodes, n), s) for n, s in self._rejections])


class AnyFilter:
    """Answers a column filter's question with a function."""

    def __init__(self, answer: Callable[[NodeTable], Any], name: str = "Any") -> None:
        self.name = name
        self._answer = answer

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Any:
        return self._answer(nodes)


class PreFilter:
    """Answers pre-filter, and refuses every node if it is asked to filter."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self._answer = answer

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Any:
        state.write(f"ran-{self.name}", True)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Score:
    """Scores nodes by name, all at once; may normalise and skip."""

    def __init__(self, name: str, scores: Mapping[str, Any] | Exception, skip: Any = None) -> None:
        self.name = name
        self._scores = scores
        self._skip = skip

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        status: Status | None = self._skip
        return status

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        if isinstance(self._scores, Exception):
            raise self._scores
        return np.array([self._scores[name] for name in nodes.names])


class OneNodeScore:
    """Scores nodes by name, one by one."""

    def __init__(self, name: str, scores: Mapping[str, Any]) -> None:
        self.name = name
        self._scores = scores

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        score = self._scores[node.name]
        if isinstance(score, Exception):
            raise score
        chosen: int = score  # A test may hand in a wrong type.
        return chosen
