"""Pod counts per node and per topology domain, kept current by the change log.

A tally is the sum per row of a number that every pod contributes, for example 1 if a selector
matches its label class. A domain table sums a tally per topology domain. Both are built once and
then follow the change log; at any time they equal a rebuilt one. Never filters a node, and never
writes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

import numpy as np

from kubesched.kit.memory import budget
from kubesched.snapshot.interning import grown
from kubesched.snapshot.term_index import ClassPostings, TermPostings
from kubesched.snapshot.topology import Domains, Indexes, RowsAbove, Sums, Topology

if TYPE_CHECKING:
    from kubesched.snapshot.tables import ClusterTables

# At most this many changes are followed one by one, more as columns; too many cause a rebuild.
CHANGES_ONE_BY_ONE_MAX: Final = 16
HITS_MAX: Final = 256
HITS_ONE_BY_ONE_MAX: Final = 64
COMPARED_MAX: Final = 4
BYTES_MAX: Final = 64 * 1024 * 1024

_ROW, _LABEL_CLASS, _TERM_SET, _DELTA, _LIVE_DELTA = range(5)


class PodWeights(Protocol):
    """A number per label class or per term set, by id."""

    def up_to_date(self) -> Sums: ...


class Tally:
    """The sum per row of a number by label class, or by term set, of its pods."""

    def __init__(
        self,
        counters: Counters,
        values: PodWeights,
        *,
        by_terms: bool = False,
        live_only: bool = False,
    ) -> None:
        """Sum over all pods.

        Args:
            counters: The counters of the cluster.
            values: What one pod adds, by label class.
            by_terms: Whether `values` is by term set instead.
            live_only: Whether to leave out terminating pods.
        """
        self._cluster = counters.cluster
        self._log = counters.cluster.log
        self.values = values
        self._by_terms = by_terms
        self._live_only = live_only
        self._id = _TERM_SET if by_terms else _LABEL_CLASS
        self._delta = _LIVE_DELTA if live_only else _DELTA
        self.hits: list[tuple[int, int]] = []
        """The latest changes of `rows`: row and amount."""
        self.first_hit = 0
        """The number of the first of them, counted from the start."""
        self.rows: Sums = np.zeros(0, dtype=np.int32)
        self._table: Sums = self.rows
        self._seen = 0
        self._rebuild()

    @property
    def nbytes(self) -> int:
        """Return the approximate memory use."""
        return self.rows.nbytes

    def follow(self) -> None:
        """Apply the changes since the last call."""
        now = self._log.stamp
        behind = now - self._seen
        if behind == 0:
            return
        row_count = self._cluster.nodes.row_count
        if len(self.rows) < row_count:
            self.rows = grown(self.rows, row_count)
        if behind > CHANGES_ONE_BY_ONE_MAX:
            self._follow_columns()
        else:
            self._follow_few()
        self._seen = now
        if len(self.hits) > 2 * HITS_MAX:
            del self.hits[:HITS_MAX]
            self.first_hit += HITS_MAX

    def _follow_few(self) -> None:
        changes = self._log.since(self._seen)
        if changes is None:
            self._rebuild()
            return
        id_field, delta_field, table = self._id, self._delta, self._table
        rows, hits = self.rows, self.hits
        for change in changes:
            delta = change[delta_field]
            if delta:
                class_id = change[id_field]
                if class_id >= len(table):
                    table = self._table = self.values.up_to_date()
                value = table.item(class_id)
                if value:
                    row, amount = change[_ROW], value * delta
                    rows[row] = rows.item(row) + amount
                    hits.append((row, amount))

    def _follow_columns(self) -> None:
        changes = self._log.columns_since(self._seen)
        if changes is None:
            self._rebuild()
            return
        self._table = table = self.values.up_to_date()
        if not len(table):
            return
        # A change of a node itself has no class (-1 reads the last one), and its delta is 0.
        amounts = table.take(changes[self._id]) * changes[self._delta]
        indexes = np.flatnonzero(amounts)
        if len(indexes) > HITS_ONE_BY_ONE_MAX:
            np.add.at(self.rows, changes[_ROW, indexes], amounts[indexes].astype(self.rows.dtype))
            self._forget_hits()
            return
        for index in indexes.tolist():
            row, amount = changes.item(_ROW, index), amounts.item(index)
            self.rows[row] = self.rows.item(row) + amount
            self.hits.append((row, amount))

    def _rebuild(self) -> None:
        cluster, pods, count = self._cluster, self._cluster.pods, self._cluster.pods.count
        self._table = table = self.values.up_to_date()
        self.rows = np.zeros(max(cluster.nodes.row_count, 16), dtype=table.dtype)
        counted = table.nonzero()[0].tolist()
        if counted:
            ids = (pods.term_set if self._by_terms else pods.label_class)[:count]
            # A few comparisons are several times as fast as a look-up per pod.
            if len(counted) <= COMPARED_MAX:
                matching = ids == counted[0]
                for class_id in counted[1:]:
                    matching |= ids == class_id
            else:
                matching = (table != 0).take(ids)
            chosen = matching.nonzero()[0]
            counts = pods.counted[chosen]
            if self._live_only:
                counts &= ~pods.terminating[chosen]
            chosen = chosen[counts]
            np.add.at(self.rows, pods.row[chosen], table[ids[chosen]])
        self._forget_hits()
        self._seen = self._log.stamp

    def _forget_hits(self) -> None:
        # One number is skipped, so that readers that have read all hits notice it, too.
        self.first_hit += len(self.hits) + 1
        self.hits.clear()


class DomainTable:
    """The sums of a tally per domain of a topology key."""

    def __init__(self, tally: Tally, slots: Indexes, domains: Domains) -> None:
        """Sum the tally by `slots`: each row's domain, `domains.count` for a row not to count."""
        self.tally = tally
        self._slots = slots
        self._domains = domains
        self._last = domains.count
        self._seen = -1
        self._above: RowsAbove | None = None
        """Set at the first call of `above`."""
        self.sums: Sums = np.zeros(0, dtype=np.int32)
        self.nonzero_count = 0
        """Number of domains with a sum other than zero."""
        self._rebuild()

    @property
    def nbytes(self) -> int:
        """Return the approximate memory use, including the tally."""
        return self.sums.nbytes + self.tally.nbytes + len(self._slots)

    def follow(self) -> Sums:
        """Return the current sums, followed by a zero for rows in no domain."""
        tally = self.tally
        tally.follow()
        hits, first = tally.hits, tally.first_hit
        done = first + len(hits)
        seen = self._seen
        if seen != done:
            if seen < first or done - seen > HITS_ONE_BY_ONE_MAX:
                self._rebuild()
            else:
                self._catch_up(hits[seen - first :])
                self._seen = done
        return self.sums

    def above(self, limit: int) -> RowsAbove:
        """Return the rows in domains whose sum is above a limit; a row in no domain has 0.

        The sums are those of the last `follow`.
        """
        above = self._above
        if above is None:
            above = self._above = RowsAbove(self._domains)
        if above.limit != limit:
            above.check_all(self.sums, limit)
        elif above.touched:
            above.check_touched(self.sums, limit)
        return above

    def _catch_up(self, hits: list[tuple[int, int]]) -> None:
        slots, sums, above, last = self._slots, self.sums, self._above, self._last
        for row, amount in hits:
            # A row added after the domains were computed has no node.
            slot = slots.item(row) if row < len(slots) else last
            if slot != last:
                before = sums.item(slot)
                after = sums[slot] = before + amount
                if not before or not after:
                    self.nonzero_count += 1 if after else -1
                if above is not None:
                    above.touched.append(slot)
        if above is not None and len(above.touched) > HITS_ONE_BY_ONE_MAX:
            above.forget()

    def _rebuild(self) -> None:
        rows = self.tally.rows
        slots = self._slots[: len(rows)]
        # Exact: these integers are far below 2**53.
        sums = np.bincount(slots, weights=rows[: len(slots)], minlength=self._last + 1)
        sums[self._last] = 0
        self.sums = sums.astype(rows.dtype)
        self.nonzero_count = int(np.count_nonzero(self.sums))
        self._seen = self.tally.first_hit + len(self.tally.hits)
        if self._above is not None:
            self._above.forget()


class Counters:
    """The tallies of a cluster, and a cache of values derived from them."""

    def __init__(self, cluster: ClusterTables) -> None:
        self.cluster = cluster
        self.keeps = True
        """Whether anything is cached at all; tests compare both cases."""
        self.clear()

    def clear(self) -> None:
        """Forget everything; needed when ids are renumbered."""
        pods = self.cluster.pods
        self.class_postings = ClassPostings(pods.label_classes)
        self.term_postings = TermPostings(pods.term_sets)
        self._topology: Topology | None = None
        self._tallies: WeakValueDictionary[Hashable, Tally] = WeakValueDictionary()
        self._kept: dict[Hashable, tuple[Any, int]] = {}
        """Cached values with their size in bytes, the most recently used last."""
        self._kept_bytes = 0

    @property
    def topology(self) -> Topology:
        """Return the topology of the present nodes."""
        topology = self._topology if self.keeps else None
        if topology is None or topology.node_epoch != self.cluster.node_epoch:
            topology = self._topology = Topology(self.cluster)
        return topology

    def tally(self, key: Hashable, make: Callable[[], Tally]) -> Tally:
        """Return the tally of a key; it lives as long as a reference to it."""
        if not self.keeps:
            return make()
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = make()
        return tally

    def kept(self, key: Hashable) -> Any | None:
        """Return the cached value of a key; None if it is not cached."""
        entry = self._kept.pop(key, None) if self.keeps else None
        if entry is None:
            return None
        self._kept[key] = entry
        return entry[0]

    def keep(self, key: Hashable, value: Any, byte_count: int) -> None:
        """Cache a value under a key; the least recently used values are evicted."""
        if not self.keeps:
            return
        old = self._kept.pop(key, None)
        self._kept_bytes += byte_count - (0 if old is None else old[1])
        self._kept[key] = (value, byte_count)
        bytes_max = budget(BYTES_MAX, self.cluster.nodes.row_count)
        while self._kept_bytes > bytes_max and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(oldest)[1]
