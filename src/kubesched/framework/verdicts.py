"""Verdicts over rows: the status of each node.

Owns the compact form (an id per node, a list of distinct statuses) and the failure text's counts.
Upstream: pkg/scheduler/framework/interface.go NodeToStatus, types.go FitError
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

from kubesched.framework.status import SUCCESS, Code, Status
from kubesched.snapshot.node_columns import BoolColumn, IdColumn
from kubesched.snapshot.view import ClusterView, Rows

FITS = 0
# Up to this number, statuses are counted faster one after the other than all at once.
STATUSES_FEW_MAX = 4
ValueT = TypeVar("ValueT")


class Verdicts:
    """One status id per node of a table; id 0 fits."""

    __slots__ = ("_id_of", "ids", "statuses")

    def __init__(self, count: int) -> None:
        self.ids: IdColumn = np.zeros(count, dtype=np.int32)
        self.statuses: list[Status] = [SUCCESS]
        self._id_of: dict[Status, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Status:
        return self.statuses[self.ids[position]]

    @property
    def fits(self) -> BoolColumn:
        """Return the nodes that no filter has rejected."""
        return self.ids == FITS

    def reject(self, mask: BoolColumn, status: Status) -> None:
        """Give a status to the nodes of a mask that had none."""
        rejected = mask & self.fits
        if rejected.any():
            self.ids[rejected] = self.id_for(status)

    def add_rejections(self, positions: Rows, other: Verdicts) -> None:
        """Replace the verdicts at these positions by the rejections of another table."""
        for status_id in range(1, len(other.statuses)):
            rejected = positions[other.ids == status_id]
            if len(rejected):
                self.ids[rejected] = self.id_for(other.statuses[status_id])

    def counts(self) -> list[int]:
        """Return how many nodes have each of the statuses, by id."""
        if len(self.statuses) > STATUSES_FEW_MAX:
            return np.bincount(self.ids, minlength=len(self.statuses)).tolist()
        ids = self.ids
        return [int(np.count_nonzero(ids == number)) for number in range(len(self.statuses))]

    def at(self, positions: Rows | slice) -> Verdicts:
        """Return the verdicts on some nodes."""
        picked = Verdicts(0)
        picked.ids, picked.statuses, picked._id_of = self.ids[positions], self.statuses, self._id_of
        return picked

    def id_for(self, status: Status) -> int:
        """Return the id of a status."""
        status_id = self._id_of.get(status)
        if status_id is None:
            status_id = self._id_of[status] = len(self.statuses)
            self.statuses.append(status)
        return status_id

    def first_error(self) -> Status | None:
        """Return the error of the first node that has one."""
        bad = [i for i, s in enumerate(self.statuses) if i != FITS and not s.is_rejected]
        if not bad:
            return None
        positions = np.flatnonzero(np.isin(self.ids, bad))
        return self[positions[0]] if len(positions) else None


class NodeToStatus:
    """The verdict on every node of the cluster: by row for some, the same for all others."""

    def __init__(self, view: ClusterView, absent: Status | None = None) -> None:
        self._view = view
        self._rows: Rows = np.zeros(0, dtype=np.int64)
        self._verdicts = Verdicts(0)
        self._singles: dict[int, Status] = {}
        self._unknown: dict[str, Status] = {}
        """Verdicts on names that belong to no node."""
        # Parity: framework/interface.go NewDefaultNodeToStatus, v1.36.
        self._absent = absent or Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        self._cache: dict[Hashable, Any] = {}
        """Derived values, until a verdict changes."""

    @property
    def absent(self) -> Status:
        """Return the verdict on all nodes that have none of their own."""
        return self._absent

    @absent.setter
    def absent(self, status: Status) -> None:
        self._cache.clear()
        self._absent = status

    def _derived(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """Return a value that is computed once."""
        value: ValueT | None = self._cache.get(key)
        if value is None:
            value = self._cache[key] = make()
        return value

    def set_all(self, rows: Rows, verdicts: Verdicts) -> None:
        """Record the verdicts on rejected nodes; they must not change any more."""
        self._cache.clear()
        if np.count_nonzero(verdicts.ids) == len(rows):
            self._rows, self._verdicts = rows, verdicts
        else:
            rejected = verdicts.ids.nonzero()[0]
            self._rows, self._verdicts = rows[rejected], verdicts.at(rejected)
        if self._singles:
            for row in self._rows[np.isin(self._rows, list(self._singles))]:
                del self._singles[int(row)]

    def set_one(self, row: int, status: Status) -> None:
        """Record the verdict on one node that is not among the others."""
        self._cache.clear()
        self._singles[row] = status

    def set_named(self, statuses: Mapping[str, Status]) -> None:
        """Record verdicts by name, replacing others; a name may belong to no node."""
        self._cache.clear()
        for name, status in statuses.items():
            row = self._view.row_of(name)
            if row < 0:
                self._unknown[name] = status
            else:
                self._singles[row] = status
        kept = np.flatnonzero(~np.isin(self._rows, list(self._singles)))
        if len(kept) < len(self._rows):
            self._rows, self._verdicts = self._rows[kept], self._verdicts.at(kept)

    def __len__(self) -> int:
        return len(self._rows) + len(self._singles) + len(self._unknown)

    def has_node(self, name: str) -> bool:
        """Return whether there is a node of that name."""
        return self._view.row_of(name) >= 0

    def get(self, node_name: str) -> Status:
        """Return the verdict on a node."""
        row = self._view.row_of(node_name)
        if row in self._singles:
            return self._singles[row]
        positions = np.flatnonzero(self._rows == row)
        return self._verdicts[int(positions[0])] if len(positions) else self.absent

    def items(self) -> Mapping[str, Status]:
        """Return the verdicts on single nodes, by node name."""
        names = self._view.nodes_at(self._rows).names
        by_name = {name: self._verdicts[i] for i, name in enumerate(names)}
        singles = {self._view.name_of(row): status for row, status in self._singles.items()}
        return by_name | singles | self._unknown

    def rows_with(self, code: Code) -> Rows:
        """Return the rows whose verdict has a code, in visiting order."""
        return self._derived(code, lambda: self._rows_with(code))

    def _rows_with(self, code: Code) -> Rows:
        order = self._view.visiting_rows()
        codes = np.full(self._view.row_count, self.absent.code, dtype=np.int8)
        by_id = np.array([status.code for status in self._verdicts.statuses], dtype=np.int8)
        codes[self._rows] = by_id.take(self._verdicts.ids)
        for row, status in self._singles.items():
            codes[row] = status.code
        return order[codes.take(order) == code]

    def names_with(self, *codes: int) -> list[str]:
        """Return the names of nodes whose verdict has one of the codes."""
        rows = np.concatenate([self.rows_with(Code(code)) for code in codes])
        return self._view.nodes_at(rows).names

    def plugins(self, code: Code | None = None) -> set[str]:
        """Return the plugins that rejected a node, or rejected it with that code."""
        used = self._derived("statuses", self._used_statuses)
        return {s.plugin for s in used if code is None or s.code is code}

    def _used_statuses(self) -> list[Status]:
        """Return the rejections of some node by plugins."""
        if len(self) == 0:
            return []
        counts = zip(self._verdicts.statuses, self._verdicts.counts(), strict=True)
        used = (*(status for status, count in counts if count), *self._singles.values())
        return [status for status in used if status.is_rejected and status.plugin]

    def reason_counts(self, node_count: int) -> Counter[str]:
        """Return the number of nodes for each reason; `node_count` nodes are in the cluster."""
        return self._derived(("reasons", node_count), lambda: self._reason_counts(node_count))

    def _reason_counts(self, node_count: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        sizes = list(zip(self._verdicts.statuses, self._verdicts.counts(), strict=True))
        sizes += [(status, 1) for status in (*self._singles.values(), *self._unknown.values())]
        if len(self) < node_count:
            sizes.append((self.absent, node_count - len(self)))
        for status, size in sizes:
            for reason in status.reasons if size else ():
                counts[reason] += size
        return counts


def unavailable_text(
    node_count: int, statuses: NodeToStatus, *, pre_filter: str = "", post_filter: str = ""
) -> str:
    """Return the text of a failed attempt, as events and conditions show it."""
    # Parity: framework/types.go FitError.Error, v1.36. Entries sort as plain strings, counts first.
    text = f"0/{node_count} nodes are available:"
    if pre_filter:
        text += f" {pre_filter}."
    else:
        counts = statuses.reason_counts(node_count)
        entries = sorted((f"{n} {reason}" for reason, n in counts.items()), key=_go_order)
        if entries:
            text += f" {', '.join(entries)}."
    return f"{text} {post_filter}" if post_filter else text


def _go_order(text: str) -> bytes:
    """Return the bytes of a string, by which Go compares strings."""
    return text.encode("utf-8", "surrogatepass")
