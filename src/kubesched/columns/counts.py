"""How many pods count where: per row and per topology domain, kept current by the change log.

Owns tallies (a sum per row over the pods there) and their sums per domain. A tally is built once
and then follows the changes; it equals at any time what building it anew would give. Never judges a
node, and never writes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.change_log import Change, ChangeLog
from kubesched.columns.domains import Domains, Places, RowsAbove, Sums, Topology
from kubesched.columns.interning import Interner, grown
from kubesched.columns.postings import ClassPostings, TermPostings
from kubesched.kit.memory import budget

if TYPE_CHECKING:
    from kubesched.columns.cluster import Cluster

ValueT = TypeVar("ValueT", bound=Hashable)
KeptT = TypeVar("KeptT")

# Up to so many changes are followed one by one, more as columns; too many, and a tally is rebuilt.
CHANGES_ONE_BY_ONE_MAX: Final = 16
CHANGES_MAX: Final = 8192
HITS_MAX: Final = 256
HITS_ONE_BY_ONE_MAX: Final = 64
COMPARED_MAX: Final = 4
BYTES_MAX: Final = 64 * 1024 * 1024

_ROW, _LABEL_CLASS, _TERM_SET, _DELTA, _LIVE_DELTA = range(5)
_FIELDS: Final = 5


class Values(Protocol):
    """A number for every label class, or for every term set, by id."""

    def up_to_date(self) -> Sums: ...


class Answers:
    """One question's answers over all values of an interner, each value asked once."""

    __slots__ = ("_answer", "_answers", "_interner", "_known")

    def __init__(
        self,
        interner: Interner[ValueT],
        answer: Callable[[ValueT], int],
        candidates: Iterable[int] | None = None,
    ) -> None:
        """Ask the values there are; with candidates given, the answer for all others is 0."""
        self._interner: Interner[Any] = interner
        self._answer: Callable[[Any], int] = answer
        self._known = len(interner)
        self._answers: Sums = np.zeros(max(self._known, 16), dtype=np.int32)
        for place in range(self._known) if candidates is None else candidates:
            self._answers[place] = answer(interner.values[place])

    def up_to_date(self) -> Sums:
        """Return the answers for all values there are now, and zeros for some to come."""
        count = len(self._interner.values)
        if self._known < count:
            self._answers = grown(self._answers, count)
            for place in range(self._known, count):
                self._answers[place] = self._answer(self._interner.values[place])
            self._known = count
        return self._answers[:count]


class RecentChanges:
    """The latest changes as columns, so that many tallies can follow many changes quickly."""

    __slots__ = ("_columns", "_end", "_log", "_start")

    def __init__(self, log: ChangeLog) -> None:
        self._log = log
        self._columns: NDArray[np.int64] = np.zeros((_FIELDS, 64), dtype=np.int64)
        self._start = self._end = 0

    def since(self, stamp: int) -> NDArray[np.int64] | None:
        """Return the changes from a stamp on, a column each; None if it is too long ago."""
        now = self._log.stamp
        if now - stamp > CHANGES_MAX:
            return None
        if self._end < now:
            self._take_over(now)
        if stamp < self._start:
            return None
        return self._columns[:, stamp - self._start : now - self._start]

    def _take_over(self, now: int) -> None:
        begin = max(self._end, now - CHANGES_MAX)
        changes = self._log.since(begin)
        if changes is None:
            self._start = self._end = now
            return
        filled = self._end - self._start
        if begin != self._end:
            self._start = begin  # With a gap, what came before is of no use.
        elif filled > 4 * CHANGES_MAX:
            self._columns[:, :CHANGES_MAX] = self._columns[:, filled - CHANGES_MAX : filled]
            self._start = begin - CHANGES_MAX
        self._columns = grown(self._columns, now - self._start)
        block = np.fromiter(chain.from_iterable(changes), np.int64, _FIELDS * len(changes))
        place = begin - self._start
        self._columns[:, place : now - self._start] = block.reshape(-1, _FIELDS).T
        self._end = now


class Tally:
    """Per row, the sum over its pods of what a table says of each pod's class."""

    __slots__ = (
        "__weakref__",
        "_by_terms",
        "_cluster",
        "_delta",
        "_id",
        "_live_only",
        "_log",
        "_recent",
        "_seen",
        "_table",
        "first_hit",
        "hits",
        "rows",
        "values",
    )

    def __init__(
        self, counters: Counters, values: Values, *, by_terms: bool = False, live_only: bool = False
    ) -> None:
        """Count once over all pods.

        Args:
            counters: of the cluster.
            values: what one pod adds, by label class.
            by_terms: have `values` by term set instead.
            live_only: leave out pods that are being deleted.
        """
        self._cluster = counters.cluster
        self._log = counters.cluster.log
        self._recent = counters.recent
        self.values = values
        self._by_terms = by_terms
        self._live_only = live_only
        self._id = _TERM_SET if by_terms else _LABEL_CLASS
        self._delta = _LIVE_DELTA if live_only else _DELTA
        self.hits: list[tuple[int, int]] = []
        """The latest changes of `rows`: row and amount."""
        self.first_hit = 0
        """The number of the first of them, counted from the beginning."""
        self.rows: Sums = np.zeros(0, dtype=np.int32)
        self._table: Sums = self.rows
        self._seen = 0
        self._rebuild()

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes."""
        return self.rows.nbytes

    def follow(self) -> None:
        """Take over all changes since last time."""
        log = self._log
        now = log.stamp
        behind = now - self._seen
        if behind == 0:
            return
        row_count = self._cluster.nodes.row_count
        if len(self.rows) < row_count:
            self.rows = grown(self.rows, row_count)
        if behind > CHANGES_ONE_BY_ONE_MAX:
            self._follow_columns()
        else:
            changes = log.latest if behind == 1 else log.since(self._seen)
            if changes is None:
                self._rebuild()
                return
            self._follow_few(changes)
        self._seen = now
        if len(self.hits) > 2 * HITS_MAX:
            del self.hits[:HITS_MAX]
            self.first_hit += HITS_MAX

    def _follow_few(self, changes: Sequence[Change]) -> None:
        which, how_many, table = self._id, self._delta, self._table
        rows, hits = self.rows, self.hits
        for change in changes:
            delta = change[how_many]
            if delta:
                place = change[which]
                if place >= len(table):
                    table = self._table = self.values.up_to_date()
                value = table.item(place)
                if value:
                    row, amount = change[_ROW], value * delta
                    rows[row] = rows.item(row) + amount
                    hits.append((row, amount))

    def _follow_columns(self) -> None:
        changes = self._recent.since(self._seen)
        if changes is None:
            self._rebuild()
            return
        self._table = table = self.values.up_to_date()
        if not len(table):
            return
        # A change of a node itself has no class; its delta is 0, whatever the last class says.
        amounts = table.take(changes[self._id]) * changes[self._delta]
        places = np.flatnonzero(amounts)
        if len(places) > HITS_ONE_BY_ONE_MAX:
            np.add.at(self.rows, changes[_ROW, places], amounts[places].astype(self.rows.dtype))
            self._forget_hits()
            return
        for place in places.tolist():
            row, amount = changes.item(_ROW, place), amounts.item(place)
            self.rows[row] = self.rows.item(row) + amount
            self.hits.append((row, amount))

    def _rebuild(self) -> None:
        cluster, pods, count = self._cluster, self._cluster.pods, self._cluster.pods.count
        self._table = table = self.values.up_to_date()
        self.rows = np.zeros(max(cluster.nodes.row_count, 16), dtype=table.dtype)
        counted = table.nonzero()[0].tolist()
        if counted:
            ids = (pods.term_set if self._by_terms else pods.label_class)[:count]
            # A few comparisons are several times as fast as a look-up for every pod.
            if len(counted) <= COMPARED_MAX:
                matching = ids == counted[0]
                for place in counted[1:]:
                    matching |= ids == place
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
        # One number is left out, so that whoever saw all hits so far notices too.
        self.first_hit += len(self.hits) + 1
        self.hits.clear()


class DomainTable:
    """A tally's sums per domain of a topology key, over the rows that count."""

    __slots__ = ("_above", "_domains", "_last", "_seen", "_slots", "nonzero_count", "sums", "tally")

    def __init__(self, tally: Tally, slots: Places, domains: Domains) -> None:
        """Sum up once.

        Args:
            tally: the sums per row.
            slots: each row's domain; the count of domains for a row that does not count.
            domains: of the topology key.
        """
        self.tally = tally
        self._slots = slots
        self._domains = domains
        self._last = domains.count
        self._seen = -1
        self._above: RowsAbove | None = None
        """There once rows above a limit were asked for."""
        self.sums: Sums = np.zeros(0, dtype=np.int32)
        self.nonzero_count = 0
        """How many domains have a sum other than zero."""
        self._rebuild()

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes, the tally included."""
        return self.sums.nbytes + self.tally.nbytes + len(self._slots)

    def follow(self) -> Sums:
        """Return the sums as they are now, and one zero more, for rows in no domain."""
        tally = self.tally
        tally.follow()
        hits, first = tally.hits, tally.first_hit
        done = first + len(hits)
        seen = self._seen
        if seen != done:
            if seen < first or done - seen > HITS_ONE_BY_ONE_MAX:
                self._rebuild()
            else:
                self._take_over(hits[seen - first :])
                self._seen = done
        return self.sums

    def above(self, limit: int) -> RowsAbove:
        """Return the rows in a domain whose sum is above a limit; a row in no domain has zero.

        The sums are those of the last `follow`.
        """
        above = self._above
        if above is None:
            above = self._above = RowsAbove(self._domains)
        if above.limit != limit:
            above.look_at_all(self.sums, limit)
        elif above.touched:
            above.look_at_touched(self.sums, limit)
        return above

    def _take_over(self, hits: list[tuple[int, int]]) -> None:
        slots, sums, above, last = self._slots, self.sums, self._above, self._last
        for row, amount in hits:
            # A row that came after the nodes were looked at has no node.
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
        # Exact: no sum of whole numbers here comes near 2 to the 53rd.
        sums = np.bincount(slots, weights=rows[: len(slots)], minlength=self._last + 1)
        sums[self._last] = 0
        self.sums = sums.astype(rows.dtype)
        self.nonzero_count = int(np.count_nonzero(self.sums))
        self._seen = self.tally.first_hit + len(self.tally.hits)
        if self._above is not None:
            self._above.forget()


class Counters:
    """A cluster's tallies, and what else is kept for as long as it is true."""

    recent: RecentChanges
    class_postings: ClassPostings
    term_postings: TermPostings
    _topology: Topology | None
    _tallies: WeakValueDictionary[Hashable, Tally]
    _kept: dict[Hashable, tuple[Any, int]]
    _kept_bytes: int

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.keeps = True
        """Whether anything is kept at all; tests compare both ways."""
        self.clear()

    def clear(self) -> None:
        """Forget everything; needed when ids have got another meaning."""
        pods = self.cluster.pods
        self.recent = RecentChanges(self.cluster.log)
        self.class_postings = ClassPostings(pods.label_classes)
        self.term_postings = TermPostings(pods.term_sets)
        self._topology = None
        self._tallies = WeakValueDictionary()
        self._kept = {}
        self._kept_bytes = 0

    def __repr__(self) -> str:
        return f"<Counters: {len(self._kept)} kept, {len(self._tallies)} tallies>"

    @property
    def topology(self) -> Topology:
        """Return what follows from the nodes as they are."""
        found = self._topology
        if not self.keeps:
            return Topology(self.cluster)
        if found is None or found.node_epoch != self.cluster.node_epoch:
            found = self._topology = Topology(self.cluster)
        return found

    def tally(self, key: Hashable, make: Callable[[], Tally]) -> Tally:
        """Return the tally of that key; it lives as long as somebody holds it."""
        if not self.keeps:
            return make()
        found = self._tallies.get(key)
        if found is None:
            found = self._tallies[key] = make()
        return found

    def kept(self, key: Hashable) -> Any | None:
        """Return what was kept under a key, if it still is."""
        found = self._kept.pop(key, None) if self.keeps else None
        if found is None:
            return None
        self._kept[key] = found  # Most recently used stands last.
        return found[0]

    def keep(self, key: Hashable, value: Any, byte_count: int) -> None:
        """Keep a value under a key; what was used least recently goes when there is too much."""
        if not self.keeps:
            return
        old = self._kept.pop(key, None)
        self._kept_bytes += byte_count - (0 if old is None else old[1])
        self._kept[key] = (value, byte_count)
        bytes_max = budget(BYTES_MAX, self.cluster.nodes.row_count)
        while self._kept_bytes > bytes_max and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(oldest)[1]
