"""Small plugins whose results a test chooses.

Owns only their shape; the results are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import AllReasons, FilterVerdict, Rejected
from kubesched.framework.status import Status
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable, NodeView


def mask_of(nodes: NodeTable, names: Sequence[str]) -> BoolColumn:
    """Return the mask of the named nodes."""
    return np.array([name in names for name in nodes.names], dtype=np.bool_)


class ColumnRejection:
    """Rejects named nodes, each with its status; a column filter."""

    def __init__(self, name: str, statuses: Mapping[str, Status]) -> None:
        self.name = name
        self._statuses = statuses

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return [Rejected(mask_of(nodes, [n]), s) for n, s in self._statuses.items()]


class OneNodeRejection:
    """Rejects named nodes one by one, and records the nodes that it was called for."""

    def __init__(self, name: str, statuses: Mapping[str, Status]) -> None:
        self.name = name
        self._statuses = statuses
        self.called_for: list[str] = []

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        self.called_for.append(node.name)
        return self._statuses.get(node.name)


class Reasons:
    """Rejects named nodes with several reasons."""

    def __init__(self, name: str, rejections: Sequence[tuple[Sequence[str], Status]]) -> None:
        self.name = name
        self._rejections = rejections

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return AllReasons([Rejected(mask_of(nodes, n), s) for n, s in self._rejections])


class AnyFilter:
    """A column filter whose verdict is that of a function."""

    def __init__(self, answer: Callable[[NodeTable], Any], name: str = "Any") -> None:
        self.name = name
        self._answer = answer

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Any:
        return self._answer(nodes)


class PreFilter:
    """Returns a PreFilter result, and rejects every node if its filter is called."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self._answer = answer

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Any:
        state.write(f"ran-{self.name}", True)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Score:
    """Scores nodes by name, all at once; may normalize and skip."""

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
        chosen: int = score  # A test may pass a wrong type.
        return chosen
