"""The columns behind a decision by kept verdicts, for explanations.

Owns the types that other packages read: nothing else of `attempt.kept` is imported outside of
`attempt`. All of it is valid until the cluster changes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.attempt.kept.columns import Positions
from kubesched.attempt.kept.feasible_set import FeasibleSet, packed_total, visited_positions
from kubesched.attempt.kept.layout import ProfileLayout
from kubesched.attempt.kept.nominated_rows import NominatedRows
from kubesched.attempt.kept.verdicts import KeptVerdicts
from kubesched.attempt.select_host import PackedColumn
from kubesched.framework.fast import GroupedScores, IncrementalFilter
from kubesched.framework.interface import FilterVerdict
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.view import ClusterView

__all__ = ["Basis", "NominatedRows", "packed_total"]


class Basis(msgspec.Struct, frozen=True):
    """The columns from which a node was chosen."""

    kept: KeptVerdicts
    feasible: FeasibleSet
    start: int
    """The index in the visiting order at which the search started."""
    uncached_scores: Mapping[str, GroupedScores] = {}
    """Weighted scores of uncached plugins, by place among the feasible rows."""
    uncached_verdicts: Mapping[str, FilterVerdict | IncrementalFilter] = {}
    """Verdicts of uncached filters on all rows."""
    uncached_on_nominated: Mapping[str, Verdicts] = {}
    """Verdicts of uncached filters on rows with nominated pods, with these pods added."""
    one_by_one: Verdicts | None = None
    """Verdicts of one-node filters on the rows that no other filter rejects, as far as visited."""
    known_keys: PackedColumn | None = None
    """The keys of feasible rows, if the attempt computed them."""

    @property
    def layout(self) -> ProfileLayout:
        """Return the plugins of the profile."""
        return self.kept.layout.profile

    @property
    def keys(self) -> PackedColumn | None:
        """Return the keys of the feasible rows by place; None if nothing was scored."""
        if len(self.feasible) < 2:
            return None
        if self.known_keys is None:
            return self.feasible.keys_by_place(self.uncached_scores.values())
        return self.known_keys

    def is_current(self, view: ClusterView) -> bool:
        """Return whether the cluster has not changed since."""
        return self.kept.validity.is_current(view)

    def visited_positions(self, view: ClusterView) -> Positions:
        """Return the positions of the rows that were visited, in visiting order."""
        return visited_positions(self.kept, view, self.start, self.feasible.visited_count)
