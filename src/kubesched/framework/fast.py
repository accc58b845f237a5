"""Optional fast hooks of plugins: the same verdicts and scores by cheaper means.

Owns the contract of every hook, with its law. No hook is required: a plugin without any is called
through its ordinary methods, and a plugin may have any of the members named here. Only
`framework.runtime.adapters` looks for hooks; it ignores those of sandboxed plugins, which are
called through their sandbox. `docs/kept-verdicts.md` describes where the results are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Plugin, Rejected
from kubesched.framework.status import Status
from kubesched.snapshot.node_columns import (
    BoolColumn,
    IntColumn,
    NodeCounters,
    ResourceMatrix,
    Room,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeRow, NodeTable, Rows

RowRule: TypeAlias = "Callable[[NodeCounters], Any]"
"""Evaluates one row by its counters, which are plain small integers."""
MatrixRule: TypeAlias = "Callable[[ResourceMatrix], Any]"
"""Evaluates several rows by their resource matrix."""
RoomRule: TypeAlias = "Callable[[Room], Any]"
"""Evaluates several rows by their free resources."""


class FastFilter(Plugin, Protocol):
    """Hooks of a plugin with `filter_nodes`."""

    takes_rows: bool
    """Law: `filter_nodes(state, pod, row)` with a `NodeRow`, plain numbers in place of columns,
    returns the verdict that the row has in a table."""

    def row_rejects(self, state: CycleState, pod: PodInfo) -> RowRule | None:
        """Return a quick check of one row, None if there is none for this pod.

        Law: the check is true exactly where `filter_nodes` rejects the row; then the filter is
        called for the reason.
        """
        ...

    def any_row_rejected(self, state: CycleState, pod: PodInfo) -> RoomRule | None:
        """Return a quick check of several rows, None if there is none for this pod.

        Law: the check is true exactly if `filter_nodes` rejects one of the rows; then the filter
        is called for the reasons.
        """
        ...


class FastScore(Plugin, Protocol):
    """Hooks of a plugin with `score_nodes`."""

    normalizes_by_scaling: bool
    """Law: `normalize_scores` gives equal scores to nodes with equal raw scores; if all raw scores
    are equal, the result does not depend on the number of nodes."""

    def row_score(self, state: CycleState, pod: PodInfo) -> RowRule | None:
        """Return a rule that scores one row. Law: its score is that of `score_nodes`."""
        ...

    def matrix_score(self, state: CycleState, pod: PodInfo) -> MatrixRule | None:
        """Return a rule that scores several rows.

        Law: its scores are those of `score_nodes`, and between the lowest and the highest score
        that is allowed.
        """
        ...

    def compact_scores(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> NDArray[Any] | int:
        """Return the scores as small integer types. Law: they equal those of `score_nodes`."""
        ...


class IncrementalFilterPlugin(Plugin, Protocol):
    """A filter that can keep its verdict current from attempt to attempt.

    Ignored unless the class that defines the hook also defines `pre_filter` and `filter_nodes`: a
    derived class may have changed their meaning.
    """

    def incremental_filter(self, pod: PodInfo, view: ClusterView) -> IncrementalFilter | None:
        """Return the verdict for all pods with this pod's template; None to be called as usual."""
        ...


class IncrementalScorePlugin(Plugin, Protocol):
    """A score that can keep its normalized scores current from attempt to attempt.

    Ignored unless the class that defines the hook also defines `pre_score`, `score_nodes` and
    `normalize_scores`.
    """

    def incremental_score(self, pod: PodInfo, view: ClusterView) -> IncrementalScore | None:
        """Return the scores for all pods with this pod's template; None to be called as usual."""
        ...


class IncrementalFilter(Protocol):
    """A filter's verdict on all nodes, kept current. It iterates over its rejections.

    Law: after `refresh` the rejections are those that `filter_nodes` would return after
    `pre_filter`.
    """

    key: str
    """The key under which `pre_filter` writes its state."""
    value: Any
    """The state that `pre_filter` would write; valid until the next `refresh`."""
    version: int
    """Changes whenever the rejected rows change."""

    def refresh(self, view: ClusterView) -> Status | IncrementalFilter | None:
        """Bring the verdict up to date.

        Return itself, `SKIP` if `pre_filter` would, or None if a new incremental filter is needed.
        """
        ...

    def masks(self) -> list[BoolColumn]:
        """Return the rejected rows, one mask per rejection."""
        ...

    def concerns(self, pods: PodRows) -> bool:
        """Return whether these pods, added to a node, could change its verdict."""
        ...

    def __iter__(self) -> Iterator[Rejected]: ...


class FeasibleRows(Protocol):
    """The feasible rows of an attempt, in visiting order."""

    @property
    def rows(self) -> Rows:
        """Return the rows: the same array object for as long as they are the same."""
        ...


class GroupedScores(NamedTuple):
    """Scores of the feasible rows. Rows that differ in few ways share the score of their group."""

    scores: IntColumn
    """One for each group, or for each row."""
    groups: Rows | None = None
    """The group of each row; None if there is a score for each row. A plugin makes the array
    read-only if it never changes it: a lookup in the order of kept columns then stays valid."""

    def take(self, places: Rows) -> IntColumn:
        """Return the scores at some places among the feasible rows."""
        return self.scores.take(places if self.groups is None else self.groups.take(places))

    def column(self) -> IntColumn:
        """Return the score of each row."""
        return self.scores if self.groups is None else self.scores.take(self.groups)


class IncrementalScore(Protocol):
    """A plugin's normalized scores of the feasible rows, kept current.

    Law: `refresh` returns what `normalize_scores` would after `pre_score` and `score_nodes`.
    """

    key: str
    """The key under which `pre_score` writes its state."""
    value: Any
    """The state that `pre_score` would write; valid until the next `refresh`."""

    def refresh(self, view: ClusterView, feasible: FeasibleRows) -> GroupedScores | Status | None:
        """Return the scores, `SKIP`, or None if a new incremental score is needed."""
        ...


class FastReserve(Plugin, Protocol):
    """Hook of a plugin with `reserve`, read only from the plugin's own class."""

    reserves_if_skipped: bool
    """Law: if false, `reserve` does nothing for a pod for which `pre_filter` returned `SKIP`."""


class FastBind(Plugin, Protocol):
    """Hook of a plugin with `bind`."""

    binds_at_once: bool
    """Law: if true, `bind` does nothing but write the binding, and never skips."""
