"""The volumes that nodes hold, counted per row and driver.

A row is counted again when its pods, its attachments or the objects behind them change.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go Filter
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubesched.plugins.node_volume_limits.resolve import may_be_attached
from kubesched.plugins.node_volume_limits.uses import NO_VOLUME, NOTHING, VolumeUses
from kubesched.snapshot.expressions import Values, looked_up
from kubesched.snapshot.interning import grown
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.trial import Trial
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

# How many more unused uses than used ones are kept before they are dropped.
_DEAD_MAX: Final = 1024
_CHANGES_ONE_BY_ONE_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Held:
    """The volumes of one node: those of its pods, and those of pods and attachments together."""

    uses: tuple[int, ...]
    by_pods: frozenset[int]
    in_all: frozenset[int]
    problem: str
    """The error of resolving the volumes of its pods, if any."""


class AttachedVolumes:
    """The volumes of pods and attachments on every row of one cluster."""

    def __init__(self) -> None:
        self._cluster: object = None
        self._view: ClusterView
        self._uses: VolumeUses
        self._seen = 0

    def follow(self, view: ClusterView) -> None:
        """Recount the rows where something changed."""
        self._view = view
        if self._cluster is not view.identity or not view.counters.keeps or self._is_mostly_dead():
            self._build(view)
            return
        rows: dict[int, None] = {}
        for use in self._uses.follow():
            rows.update(dict.fromkeys(self._rows_with(use)))
        for name in self._uses.follow_attachments():
            rows[view.row_of(name)] = None
        if view.stamp != self._seen:
            rows.update(dict.fromkeys(self._changed_rows(view)))
            self._seen = view.stamp
        if rows:
            rows.pop(-1, None)
            for row in rows:
                self._count(row)

    def _is_mostly_dead(self) -> bool:
        live_count = len(self._rows_of) + self._uses.attachment_count
        return len(self._uses) > 2 * live_count + _DEAD_MAX

    def _changed_rows(self, view: ClusterView) -> Iterable[int]:
        changes = view.changes_since(self._seen)
        if changes is not None and len(changes) <= _CHANGES_ONE_BY_ONE_MAX:
            return [change.row for change in changes]
        rows: list[int] = view.rows_changed_since(self._seen).tolist()
        return rows

    def _build(self, view: ClusterView) -> None:
        self._cluster, self._seen = view.identity, view.stamp
        self._uses = VolumeUses(view.objects)
        self._uses.follow_attachments()
        self._uses_on: dict[int, tuple[int, ...]] = {}
        self._rows_of: dict[int, set[int]] = {}
        self._counts: list[IntColumn] = []
        self._are_holding: BoolColumn = np.zeros(0, dtype=np.bool_)
        self.problems: dict[int, str] = {}
        """The error by row, where the volumes of its pods cannot be resolved."""
        for row in self._rows_with_volumes(view):
            self._count(row)

    def _rows_with_volumes(self, view: ClusterView) -> Iterable[int]:
        """Return the rows with pods that may hold a volume, and those with attachments."""
        pods, may_hold = view.pods, self._may_hold(view)
        rows = [row for name in self._uses.on_node if (row := view.row_of(name)) >= 0]
        if may_hold.any():
            holding = np.flatnonzero(pods.counted[: pods.count])
            holding = holding[may_hold[pods.shape[holding]]]
            rows += np.unique(pods.row[holding]).tolist()
        return dict.fromkeys(rows)

    def _may_hold(self, view: ClusterView) -> BoolColumn:
        """Return by shape whether its pods may hold a volume."""
        are_holding, shapes = self._are_holding, view.pods.shapes
        if len(are_holding) < len(shapes):
            new = [any(map(may_be_attached, shape.volumes)) for shape in shapes[len(are_holding) :]]
            are_holding = self._are_holding = np.append(are_holding, new)
        return are_holding

    def _rows_with(self, use: int) -> Collection[int]:
        name = self._uses.node_attached_to(use)
        return self._rows_of.get(use, ()) if name is None else (self._view.row_of(name),)

    # -- counting -------------------------------------------------------------------------------

    def held_by(self, pods: Sequence[int], node_name: str) -> Held:
        """Return what a node of some pods holds; `follow` comes first."""
        uses, volume_of, problem = self._uses, self._uses.volume_of, ""
        held: dict[int, None] = {}
        shapes = self._view.pods.shape[pods].tolist() if pods else ()
        for index, shape in zip(pods, shapes, strict=True):
            holding = uses.by_shape.get(shape)
            if holding is NOTHING:
                continue  # Most pods have no such volume.
            holding = uses.of_pod(shape, self._view.bound_pod(index))
            held.update(dict.fromkeys(holding.uses))
            problem = problem or holding.problem
        by_pods = {volume_of[use] for use in held}
        by_pods.discard(NO_VOLUME)
        in_all = by_pods
        attached = uses.on_node.get(node_name)
        if attached is not None:
            in_all = by_pods.union(volume_of[use] for use in attached)
            in_all.discard(NO_VOLUME)
        return Held(tuple(held), frozenset(by_pods), frozenset(in_all), problem)

    def _count(self, row: int) -> None:
        pods, name = self._view.pods_on(row), self._view.name_of(row)
        held = self.held_by(pods, name)
        self._set_uses(row, held.uses)
        self._set_counts(row, Counter(self._uses.driver_of[volume] for volume in held.in_all))
        if held.problem:
            self.problems[row] = held.problem
        else:
            self.problems.pop(row, None)

    def _set_uses(self, row: int, uses: tuple[int, ...]) -> None:
        before = self._uses_on.get(row, ())
        if before == uses:
            return
        if uses:
            self._uses_on[row] = uses
        else:
            del self._uses_on[row]
        for use in before:
            if use not in uses:
                self._rows_of[use].discard(row)
                if not self._rows_of[use]:
                    del self._rows_of[use]
        for use in uses:
            self._rows_of.setdefault(use, set()).add(row)

    def _set_counts(self, row: int, counts: Mapping[int, int]) -> None:
        for _ in range(len(self._counts), len(self._uses.drivers)):
            self._counts.append(np.zeros(self._view.row_count, dtype=np.int64))
        for driver, column in enumerate(self._counts):
            if row >= len(column):
                column = self._counts[driver] = grown(column, self._view.row_count)  # noqa: PLW2901
            column[row] = counts.get(driver, 0)

    # -- reading --------------------------------------------------------------------------------

    def supposed(self, nodes: NodeTable) -> SupposedCounts:
        """Return the counts that the nodes of a trial would have."""
        trial = nodes.usage
        assert isinstance(trial, Trial), "callers pass a trial"
        positions = trial.moved_positions(self._may_hold(nodes.view))
        held = [
            self.held_by(trial.pods_on(position), nodes.name(position)) for position in positions
        ]
        return SupposedCounts(LiveCounts(self, nodes.rows), self._uses, len(nodes), positions, held)

    def count_of_driver(self, driver: str) -> IntColumn:
        """Return how many volumes of a driver each row has; more rows may follow."""
        row_count = self._view.row_count
        place = self._uses.drivers.get(driver, -1)
        if not 0 <= place < len(self._counts):
            return np.zeros(row_count, dtype=np.int64)
        column = self._counts[place] = grown(self._counts[place], row_count)
        return column

    def rows_with(self, unique_name: str) -> set[int]:
        """Return the rows whose pods use a volume."""
        uses = self._uses.uses_of(self._uses.volume_named(unique_name))
        return set().union(*(self._rows_of.get(use, ()) for use in uses))


class LiveCounts:
    """Counts over rows as they are: arrays, or plain numbers for one row."""

    def __init__(self, attached: AttachedVolumes, rows: Rows | int) -> None:
        self._attached = attached
        self._rows = rows

    def of_driver(self, driver: str) -> Values:
        """Return how many volumes of a driver there are."""
        return looked_up(self._attached.count_of_driver(driver), self._rows)

    def of_pods(self, unique_names: Sequence[str]) -> Values:
        """Return how many of some volumes pods there use."""
        rows = self._rows
        if not isinstance(rows, np.ndarray):
            return sum(rows in self._attached.rows_with(name) for name in unique_names)
        using = [users for users in map(self._attached.rows_with, unique_names) if users]
        if not using:
            return 0
        counts = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.int64)
        for users in using:
            places = np.fromiter(users, np.int64, len(users))
            counts[places[places < len(counts)]] += 1
        return counts[rows]

    def problems(self) -> dict[str, Values]:
        """Return by error the entries where resolving the pods' volumes fails."""
        problems, rows = self._attached.problems, self._rows
        if not problems:
            return {}
        if not isinstance(rows, np.ndarray):
            return {problems[rows]: True} if rows in problems else {}
        return {
            text: np.isin(rows, [row for row, why in problems.items() if why == text])
            for text in sorted(set(problems.values()))
        }


class SupposedCounts:
    """Counts over the nodes of a trial: live counts, except where pods with volumes changed."""

    def __init__(
        self,
        live: LiveCounts,
        uses: VolumeUses,
        node_count: int,
        positions: list[int],
        held: Sequence[Held],
    ) -> None:
        self._live = live
        self._uses = uses
        self._node_count = node_count
        self._positions = positions
        self._held = held

    def of_driver(self, driver: str) -> Values:
        """Return how many volumes of a driver there are."""
        place, driver_of = self._uses.drivers.get(driver, -1), self._uses.driver_of
        counts = [sum(driver_of[v] == place for v in held.in_all) for held in self._held]
        return self._with(self._live.of_driver(driver), counts)

    def of_pods(self, unique_names: Sequence[str]) -> Values:
        """Return how many of some volumes pods there use."""
        volumes = {self._uses.volume_named(name) for name in unique_names}
        counts = [len(held.by_pods & volumes) for held in self._held]
        return self._with(self._live.of_pods(unique_names), counts)

    def problems(self) -> dict[str, Values]:
        """Return by error the entries where resolving the pods' volumes fails."""
        live = self._live.problems()
        return {
            text: self._with(live.get(text, False), [held.problem == text for held in self._held])
            for text in sorted(({held.problem for held in self._held} - {""}).union(live))
        }

    def _with(self, live: Values, changed: Sequence[int | bool]) -> Values:
        """Return the live values, replaced on the nodes that would hold other volumes."""
        if not changed:
            return live
        column = np.array(np.broadcast_to(live, self._node_count))
        column[self._positions] = changed
        return column
