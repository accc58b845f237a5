"""Topology domains, and the rows in those whose sum is above a limit.

Owns what follows from the nodes alone, and sets of rows that follow sums per domain. Never counts a
pod, never judges a node, and never writes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kubesched.columns.cluster import Cluster
    from kubesched.columns.node_columns import LabelColumn
    from kubesched.columns.view import NodeTable

Places = NDArray[np.intp]
Sums = NDArray[np.signedinteger[Any]]
"""Counts of pods are int32, weights int64."""
KeptT = TypeVar("KeptT")

DOMAINS_ONE_BY_ONE_MAX: Final = 64
ROWS_ONE_BY_ONE_MAX: Final = 16
FEW_DOMAINS_MAX: Final = 64
KNOWN_MAX: Final = 32
COLUMNS_MAX: Final = 32
FACTS_MAX: Final = 512


class Domains:
    """One topology key: each row's domain, `count` for a row without the key."""

    __slots__ = ("_rows_by_domain", "count", "ids", "is_everywhere", "lacking")

    def __init__(self, column: LabelColumn, row_count: int, judged_rows: Places) -> None:
        self.count = len(column.values)
        ids: Places = column.ids[:row_count].astype(np.intp)
        ids[ids < 0] = self.count
        self.ids = ids
        self.lacking: NDArray[np.bool_] = ids == self.count
        self.lacking.flags.writeable = False
        """Which rows do not have the key."""
        self.is_everywhere = not self.lacking[judged_rows].any()
        """Whether every node has the key."""
        self._rows_by_domain: tuple[Places, list[int]] | None = None

    def rows_of(self, domain: int) -> Places:
        """Return the rows of a domain."""
        rows, bounds = self._by_domain()
        return rows[bounds[domain] : bounds[domain + 1]]

    def few_rows_of(self, domains: list[int]) -> list[int] | None:
        """Return the rows of some domains; None if they are many."""
        rows, bounds = self._by_domain()
        found: list[int] = []
        for domain in domains:
            begin, end = bounds[domain], bounds[domain + 1]
            if end - begin == 1:
                found.append(rows.item(begin))
            elif end - begin <= ROWS_ONE_BY_ONE_MAX:
                found += rows[begin:end].tolist()
            else:
                return None
        return found

    def _by_domain(self) -> tuple[Places, list[int]]:
        """Return the rows in the order of their domains, and where each domain's begin."""
        found = self._rows_by_domain
        if found is None:
            ends = np.bincount(self.ids, minlength=self.count + 1).cumsum()
            rows = np.argsort(self.ids, kind="stable")
            found = self._rows_by_domain = (rows, [0, *ends.tolist()])
        return found


class Marked(Protocol):
    """Some of all rows, which may change."""

    @property
    def number(self) -> int:
        """Return what moves on whenever others are marked."""
        ...

    @property
    def moved(self) -> list[int] | None:
        """Return which rows were marked or unmarked when the number last moved; None for many."""
        ...

    def sign(self) -> bytes | int:
        """Return what is equal whenever the same rows are marked again, if that can be known."""
        ...

    def has(self, row: int) -> int:
        """Return whether a row is marked, as anything that is true or false."""
        ...

    def column(self) -> NDArray[np.bool_] | None:
        """Return which rows are marked, None for none; the array is never written again."""
        ...


class SameRows:
    """Rows that never change."""

    __slots__ = ("_column",)
    number = 0
    moved: list[int] | None = None

    def __init__(self, column: NDArray[np.bool_]) -> None:
        self._column = column

    def sign(self) -> int:
        """Return what is always the same."""
        return 0

    def has(self, row: int) -> int:
        """Return whether a row is one of them."""
        return self._column.item(row)

    def column(self) -> NDArray[np.bool_]:
        """Return which rows they are."""
        return self._column


class RowsAbove:
    """Which rows are in a domain whose sum is above a limit, kept while sums and limit move."""

    __slots__ = (
        "_domains",
        "_flags",
        "_known",
        "_rows",
        "_unmoved",
        "count",
        "limit",
        "moved",
        "number",
        "touched",
    )

    def __init__(self, domains: Domains) -> None:
        self._domains = domains
        self._flags = bytearray(domains.count + 1)
        """Which domains are."""
        self._known: dict[bytes, NDArray[np.bool_]] = {}
        """Where there are few domains: the rows by which of the domains are."""
        self._rows: NDArray[np.bool_] | None = None
        """The rows as they were when last asked for."""
        self._unmoved: list[int] = []
        """The domains that have changed since."""
        self.limit: int | None = None
        """What the domains were last looked at by; None if they have to be looked at anew."""
        self.count = 0
        """How many domains are."""
        self.number = 0
        self.moved: list[int] | None = None
        self.touched: list[int] = []
        """The domains whose sum may have changed since last time."""

    def forget(self) -> None:
        """Have every domain looked at next time."""
        self.limit = None
        self.touched.clear()

    def look_at_touched(self, sums: Sums, limit: int) -> None:
        """Look again at domains whose sum may have changed."""
        flags, changed = self._flags, list[int]()
        for domain in self.touched:
            above = sums.item(domain) > limit
            if above != flags[domain]:
                flags[domain] = above
                self.count += 1 if above else -1
                changed.append(domain)
        self.touched.clear()
        if changed:
            self.number += 1
            are_few = len(flags) <= FEW_DOMAINS_MAX
            self.moved = None if are_few else self._domains.few_rows_of(changed)
            if self._rows is not None:
                self._unmoved += changed
                if len(self._unmoved) > DOMAINS_ONE_BY_ONE_MAX:
                    self._forget_rows()

    def look_at_all(self, sums: Sums, limit: int) -> None:
        """Look at all domains."""
        flags, self.limit = (sums > limit).tobytes(), limit
        self.touched.clear()
        if flags != self._flags:
            self._flags, self.count = bytearray(flags), flags.count(1)
            self.number += 1
            self.moved = None
            self._forget_rows()

    def _forget_rows(self) -> None:
        self._rows = None
        self._unmoved.clear()

    def sign(self) -> bytes | int:
        """Return which domains are, if there are few."""
        return bytes(self._flags) if len(self._flags) <= FEW_DOMAINS_MAX else self.number

    def has(self, row: int) -> int:
        """Return whether a row is one of them."""
        return self._flags[self._domains.ids.item(row)]

    def column(self) -> NDArray[np.bool_] | None:
        """Return which rows they are; where domains are few, the very same array if they recur."""
        if not self.count:
            return None
        rows = self._rows
        if rows is None or self._unmoved:
            few = len(self._flags) <= FEW_DOMAINS_MAX
            rows = self._rows = self._recurring() if few else self._moved_on(rows)
            self._unmoved.clear()
        return rows

    def _recurring(self) -> NDArray[np.bool_]:
        flags = bytes(self._flags)
        rows = self._known.get(flags)
        if rows is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            rows = self._known[flags] = self._moved_on(None)
        return rows

    def _moved_on(self, rows: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        flags = self._flags
        if rows is None:
            rows = np.frombuffer(flags, dtype=np.bool_).take(self._domains.ids)
        else:
            # Whoever was given the old array keeps it as it was.
            rows = rows.copy()
            for domain in self._unmoved:
                rows[self._domains.rows_of(domain)] = flags[domain]
        rows.flags.writeable = False
        return rows


class RowsNotAbove:
    """All rows but those in a domain whose sum is above a limit."""

    __slots__ = ("_above", "_all_rows", "_made_from", "_rows")

    def __init__(self, above: RowsAbove, all_rows: NDArray[np.bool_]) -> None:
        self._above = above
        self._all_rows = self._rows = all_rows
        self._made_from: NDArray[np.bool_] | None = None

    @property
    def number(self) -> int:
        """Return what moves on whenever other rows are."""
        return self._above.number

    @property
    def moved(self) -> list[int] | None:
        """Return which rows came or went when the number last moved; None for many."""
        return self._above.moved

    def sign(self) -> bytes | int:
        """Return what tells which rows are above."""
        return self._above.sign()

    def has(self, row: int) -> int:
        """Return whether a row is one of them."""
        return not self._above.has(row)

    def column(self) -> NDArray[np.bool_]:
        """Return which rows they are."""
        above = self._above.column()
        if above is None:
            return self._all_rows
        if above is not self._made_from:
            self._rows, self._made_from = ~above, above
            self._rows.flags.writeable = False
        return self._rows


class Topology:
    """What follows from the nodes alone; true until a node comes, goes or changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.node_epoch = cluster.node_epoch
        self.rows: Places = cluster.visiting_rows()
        self.row_count = cluster.nodes.row_count
        """How long whole columns are; rows that come later have no node."""
        valid = cluster.valid_rows()
        self._all_rows: Places | None = valid if len(valid) == self.row_count else None
        self._facts: dict[Hashable, Any] = {}
        self._columns: dict[tuple[str, int], tuple[Places, Places]] = {}

    def fact(self, key: Hashable, make: Callable[[], KeptT]) -> KeptT:
        """Return what was worked out from the nodes under this key."""
        found: KeptT | None = self._facts.pop(key, None)
        if found is None:
            found = make()
            if len(self._facts) >= FACTS_MAX:
                del self._facts[next(iter(self._facts))]
        self._facts[key] = found
        return found

    def domains(self, key: str) -> Domains:
        """Return each row's domain of a topology key."""

        def make() -> Domains:
            judged = self._cluster.judged_rows()
            return Domains(self._cluster.nodes.label(key), self.row_count, judged)

        return self.fact(("domains", key), make)

    def over(self, nodes: NodeTable, whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a column over all rows as one over the nodes of a table; not to be written."""
        if nodes.rows is self._all_rows:
            return whole
        taken = whole.take(nodes.rows)
        taken.setflags(write=False)
        return taken

    def all_rows(self) -> NDArray[np.bool_]:
        """Return a column over all rows that is true everywhere; not to be written."""

        def make() -> NDArray[np.bool_]:
            every = np.ones(self.row_count, dtype=np.bool_)
            every.flags.writeable = False
            return every

        return self.fact("all rows", make)

    def places(self, rows: Places) -> Places:
        """Return where in an array of rows each row is, -1 if it is not there."""
        known = self._columns.get(("", id(rows)))
        if known is not None and known[0] is rows:
            return known[1]
        places: Places = np.full(self.row_count, -1, dtype=np.intp)
        places[rows] = np.arange(len(rows))
        self._remember("", rows, places)
        return places

    def _remember(self, key: str, rows: Places, column: Places) -> None:
        if len(self._columns) >= COLUMNS_MAX:
            self._columns.clear()
        self._columns[key, id(rows)] = (rows, column)

    def column(self, nodes: NodeTable, key: str) -> Places:
        """Return the domain of each node of a table; that of one without the key is `count`."""
        rows = nodes.rows
        # The same arrays of rows come again and again: all nodes, all that fit.
        known = self._columns.get((key, id(rows)))
        if known is not None and known[0] is rows:
            return known[1]
        column: Places = self.domains(key).ids.take(rows)
        self._remember(key, rows, column)
        return column
