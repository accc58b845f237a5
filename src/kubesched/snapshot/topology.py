"""Topology domains of nodes, and sets of rows in domains whose pod count is above a limit.

A domain is one value of a topology key, a row's domain is the id of its label value. Never counts a
pod, never filters a node, and never writes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kubesched.snapshot.node_columns import LabelColumn
    from kubesched.snapshot.tables import ClusterTables
    from kubesched.snapshot.view import NodeTable

Indexes = NDArray[np.intp]
Sums = NDArray[np.signedinteger[Any]]
"""Pod counts are int32, weights int64."""
KeptT = TypeVar("KeptT")

DOMAINS_ONE_BY_ONE_MAX: Final = 64
ROWS_ONE_BY_ONE_MAX: Final = 16
FEW_DOMAINS_MAX: Final = 64
ROW_SETS_MAX: Final = 32
COLUMNS_MAX: Final = 32
FACTS_MAX: Final = 512


class Domains:
    """The domains of one topology key: one per row, `count` for a row without the key."""

    def __init__(self, column: LabelColumn, row_count: int, judged_rows: Indexes) -> None:
        self.count = len(column.values)
        ids: Indexes = column.ids[:row_count].astype(np.intp)
        ids[ids < 0] = self.count
        self.ids = ids
        self.lacking: NDArray[np.bool_] = ids == self.count
        self.lacking.flags.writeable = False
        """The rows without the key, as bools."""
        self.is_everywhere = not self.lacking[judged_rows].any()
        """Whether every node has the key."""
        self._rows_by_domain: tuple[Indexes, list[int]] | None = None
        """The rows ordered by domain, and the start of each domain."""

    def rows_of(self, domain: int) -> Indexes:
        """Return the rows of a domain."""
        if self._rows_by_domain is None:
            ends = np.bincount(self.ids, minlength=self.count + 1).cumsum()
            self._rows_by_domain = (np.argsort(self.ids, kind="stable"), [0, *ends.tolist()])
        rows, bounds = self._rows_by_domain
        return rows[bounds[domain] : bounds[domain + 1]]

    def few_rows_of(self, domain: int) -> list[int] | None:
        """Return the rows of a domain; None if there are many."""
        rows = self.rows_of(domain)
        return rows.tolist() if len(rows) <= ROWS_ONE_BY_ONE_MAX else None


class SameRows:
    """A set of rows that never changes."""

    version = 0

    def __init__(self, column: NDArray[np.bool_]) -> None:
        self._column = column

    def column(self) -> NDArray[np.bool_]:
        return self._column


class RowsAbove:
    """The rows in domains whose sum is above a limit, updated as sums and limit change."""

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._flags = bytearray(domains.count + 1)
        """Whether each domain is above the limit."""
        self._rows_by_flags: dict[bytes, NDArray[np.bool_]] = {}
        """Row sets by flags, if there are few domains."""
        self._rows: NDArray[np.bool_] | None = None
        """The row set at its last use."""
        self._changed_domains: list[int] = []
        """The domains whose flag has changed since then."""
        self.limit: int | None = None
        """The limit of the flags; None if all domains must be checked again."""
        self.count = 0
        """Number of domains above the limit."""
        self.version = 0
        """Incremented when the set changes."""
        self.touched: list[int] = []
        """The domains whose sum may have changed since the last check."""

    def forget(self) -> None:
        """Check every domain at the next use."""
        self.limit = None
        self.touched.clear()

    def check_touched(self, sums: Sums, limit: int) -> None:
        """Check the domains whose sum may have changed."""
        flags, changed = self._flags, list[int]()
        for domain in self.touched:
            above = sums.item(domain) > limit
            if above != flags[domain]:
                flags[domain] = above
                self.count += 1 if above else -1
                changed.append(domain)
        self.touched.clear()
        if changed:
            self.version += 1
            if self._rows is not None:
                self._changed_domains += changed
                if len(self._changed_domains) > DOMAINS_ONE_BY_ONE_MAX:
                    self._forget_rows()

    def check_all(self, sums: Sums, limit: int) -> None:
        """Check all domains."""
        flags, self.limit = (sums > limit).tobytes(), limit
        self.touched.clear()
        if flags != self._flags:
            self._flags, self.count = bytearray(flags), flags.count(1)
            self.version += 1
            self._forget_rows()

    def _forget_rows(self) -> None:
        self._rows = None
        self._changed_domains.clear()

    def column(self) -> NDArray[np.bool_] | None:
        """Return the set as bools over all rows, None if empty; the array is never written.

        Equal sets of few domains share one array.
        """
        if not self.count:
            return None
        rows = self._rows
        if rows is None or self._changed_domains:
            few = len(self._flags) <= FEW_DOMAINS_MAX
            rows = self._rows = self._cached() if few else self._updated(rows)
            self._changed_domains.clear()
        return rows

    def _cached(self) -> NDArray[np.bool_]:
        flags = bytes(self._flags)
        rows = self._rows_by_flags.get(flags)
        if rows is None:
            if len(self._rows_by_flags) >= ROW_SETS_MAX:
                self._rows_by_flags.clear()
            rows = self._rows_by_flags[flags] = self._updated(None)
        return rows

    def _updated(self, rows: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        flags = self._flags
        if rows is None:
            rows = np.frombuffer(flags, dtype=np.bool_).take(self._domains.ids)
        else:
            # Readers may still hold the old array.
            rows = rows.copy()
            for domain in self._changed_domains:
                rows[self._domains.rows_of(domain)] = flags[domain]
        rows.flags.writeable = False
        return rows


class RowsNotAbove:
    """The complement of `RowsAbove`."""

    def __init__(self, above: RowsAbove, all_rows: NDArray[np.bool_]) -> None:
        self._above = above
        self._all_rows = self._rows = all_rows
        self._made_from: NDArray[np.bool_] | None = None

    @property
    def version(self) -> int:
        return self._above.version

    def column(self) -> NDArray[np.bool_]:
        above = self._above.column()
        if above is None:
            return self._all_rows
        if above is not self._made_from:
            self._rows, self._made_from = ~above, above
            self._rows.flags.writeable = False
        return self._rows


Marked: TypeAlias = "SameRows | RowsAbove | RowsNotAbove"
"""A set of rows; its `version` is incremented when the set changes, `column()` returns the set."""


class Topology:
    """Values derived from nodes alone; valid until a node is added, removed or changed."""

    def __init__(self, cluster: ClusterTables) -> None:
        self._cluster = cluster
        self.node_epoch = cluster.node_epoch
        self.rows: Indexes = cluster.visiting_rows()
        self.row_count = cluster.nodes.row_count
        """Length of whole-table columns; rows added later have no node."""
        valid = cluster.valid_rows()
        self._whole_rows: Indexes | None = valid if len(valid) == self.row_count else None
        self.all_rows: NDArray[np.bool_] = np.ones(self.row_count, dtype=np.bool_)
        """A whole-table column of True."""
        self.all_rows.flags.writeable = False
        self._facts: dict[Hashable, Any] = {}
        self._columns: dict[tuple[str, int], tuple[Indexes, Indexes]] = {}

    def fact(self, key: Hashable, make: Callable[[], KeptT]) -> KeptT:
        """Return the value cached under a key, computed at its first use."""
        fact: KeptT | None = self._facts.pop(key, None)
        if fact is None:
            fact = make()
            if len(self._facts) >= FACTS_MAX:
                del self._facts[next(iter(self._facts))]
        self._facts[key] = fact
        return fact

    def domains(self, key: str) -> Domains:
        """Return the domains of a topology key."""
        nodes, judged_rows = self._cluster.nodes, self._cluster.judged_rows
        return self.fact(
            ("domains", key), lambda: Domains(nodes.label(key), self.row_count, judged_rows())
        )

    def over(self, nodes: NodeTable, whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the entries of a whole-table column for the nodes of a table; read-only."""
        if nodes.rows is self._whole_rows:
            return whole
        taken = whole.take(nodes.rows)
        taken.setflags(write=False)
        return taken

    def places(self, rows: Indexes) -> Indexes:
        """Return the position of each row in an array of rows, -1 if it is not there."""

        def make() -> Indexes:
            places: Indexes = np.full(self.row_count, -1, dtype=np.intp)
            places[rows] = np.arange(len(rows))
            return places

        return self._by_rows("", rows, make)

    def column(self, nodes: NodeTable, key: str) -> Indexes:
        """Return the domain of each node of a table, `count` for nodes without the key."""
        return self._by_rows(key, nodes.rows, lambda: self.domains(key).ids.take(nodes.rows))

    def _by_rows(self, key: str, rows: Indexes, make: Callable[[], Indexes]) -> Indexes:
        # The same arrays of rows come often: all nodes, all feasible nodes.
        cached = self._columns.get((key, id(rows)))
        if cached is None or cached[0] is not rows:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.clear()
            cached = self._columns[key, id(rows)] = (rows, make())
        return cached[1]
