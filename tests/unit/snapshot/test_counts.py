"""Tallies count pods per row and domain, and follow the change log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cache.writer import ClusterWriter
from kubesched.snapshot import change_log
from kubesched.snapshot import pod_counts as counts
from kubesched.snapshot.affinity_terms import TermSet
from kubesched.snapshot.interning import LookupTable
from kubesched.snapshot.pod_columns import LabelClass
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.topology import FEW_DOMAINS_MAX
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_node, a_pod

ZONE = "zone"
NODES = ("n0", "n1", "n2", "n3")
UNKNOWN = "never-seen"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ANTI: dict[str, Any] = {
    "podAntiAffinity": {
        REQUIRED: [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}]
    }
}


@dataclass
class Placed:
    """A pod of the model."""

    app: str
    node: str
    terminating: bool
    has_terms: bool


@dataclass
class Model:
    """A cluster, and the same state as plain dicts."""

    cluster: ClusterTables = field(default_factory=ClusterTables)
    zones: dict[str, str | None] = field(default_factory=dict)
    pods: dict[str, Placed] = field(default_factory=dict)
    made: int = 0

    @property
    def view(self) -> ClusterView:
        return ClusterView(self.cluster)

    def set_node(self, name: str, zone: str | None) -> None:
        ClusterWriter(self.cluster).set_node(a_node(name, labels={ZONE: zone} if zone else {}))
        self.zones[name] = zone

    def remove_node(self, name: str) -> None:
        ClusterWriter(self.cluster).remove_node(name)
        self.zones.pop(name, None)

    def add_pod(self, placed: Placed) -> None:
        self.made += 1
        name = f"p{self.made}"
        metadata = {"deletionTimestamp": "2024-05-01T00:00:00Z"} if placed.terminating else {}
        affinity: dict[str, Any] = {"affinity": ANTI} if placed.has_terms else {}
        pod = a_pod(name, labels={"app": placed.app}, metadata=metadata, **affinity)
        ClusterWriter(self.cluster).add_pod(pod, placed.node)
        self.pods[pod.uid] = placed

    def remove_pod(self, number: int) -> None:
        if self.pods:
            uid = sorted(self.pods)[number % len(self.pods)]
            ClusterWriter(self.cluster).remove_pod(uid)
            del self.pods[uid]

    def expected(self, counts_for: Callable[[Placed], int]) -> dict[str, int]:
        by_node = Counter[str]()
        for pod in self.pods.values():
            by_node[pod.node] += counts_for(pod)
        return {name: by_node[name] for name in self.zones}

    def expected_by_zone(self, counts_for: Callable[[Placed], int]) -> dict[str, int]:
        by_zone = Counter[str]()
        for name, number in self.expected(counts_for).items():
            zone = self.zones[name]
            if zone is not None:
                by_zone[zone] += number
        return {zone: number for zone, number in by_zone.items() if number}


def is_a(label_class: LabelClass) -> int:
    return label_class.labels.get("app") == "a"


def anti_weight(term_set: TermSet) -> int:
    return 7 * len(term_set.required_anti_affinity)


def tally_of_a(model: Model, *, live_only: bool = False) -> Tally:
    table = LookupTable(model.cluster.pods.label_classes, is_a)
    return Tally(model.cluster.counters, table, live_only=live_only)


def tally_of_terms(model: Model) -> Tally:
    table = LookupTable(model.cluster.pods.term_sets, anti_weight)
    return Tally(model.cluster.counters, table, by_terms=True)


def by_node(model: Model, tally: Tally) -> dict[str, int]:
    tally.follow()
    return {name: int(tally.rows[model.view.row_of(name)]) for name in model.zones}


def by_zone(model: Model, tally: Tally, table: DomainTable) -> dict[str, int]:
    sums, values = table.follow(), model.view.label_values(ZONE).values
    assert sums[-1] == 0, "rows in no domain have zero"
    assert table.nonzero_count == np.count_nonzero(sums)
    return {values[place]: number for place, number in enumerate(sums.tolist()) if number}


def names_above(model: Model, table: DomainTable, limit: int) -> set[str]:
    rows = table.above(limit).column()
    assert rows is None or rows.any()
    return {name for name in model.zones if rows is not None and rows[model.view.row_of(name)]}


def nodes_above(model: Model, counts_for: Callable[[Placed], int], limit: int) -> set[str]:
    sums = model.expected_by_zone(counts_for)
    return {name for name, zone in model.zones.items() if sums.get(zone or "", 0) > limit}


def zone_table(model: Model, tally: Tally) -> DomainTable:
    domains = model.cluster.counters.topology.domains(ZONE)
    return DomainTable(tally, domains.ids, domains)


CHANGES = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from([None, "a", "b", "c"])),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(
        st.just("pod"),
        st.builds(
            Placed,
            st.sampled_from(["a", "b"]),
            st.sampled_from((*NODES, UNKNOWN)),
            st.booleans(),
            st.booleans(),
        ),
    ),
    st.tuples(st.just("no pod"), st.integers(0, 50)),
    st.tuples(st.just("look")),
    st.tuples(st.just("look")),
)


def apply(model: Model, change: tuple[Any, ...]) -> None:
    match change:
        case ("node", name, zone):
            model.set_node(name, zone)
        case ("no node", name):
            model.remove_node(name)
        case ("pod", placed):
            model.add_pod(placed)
        case ("no pod", number):
            model.remove_pod(number)


LIMITS = {
    "as they are": {},
    "tiny": {
        "CHANGES_ONE_BY_ONE_MAX": 1,
        "HITS_MAX": 2,
        "HITS_ONE_BY_ONE_MAX": 1,
    },
    "all changes as columns": {"CHANGES_ONE_BY_ONE_MAX": 0, "HITS_ONE_BY_ONE_MAX": 2},
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("log_length", [change_log.LENGTH_MAX, 3])
@given(changes=st.lists(CHANGES, max_size=40))
def test_tallies_equal_a_plain_count_after_any_changes(
    limits: str, log_length: int, changes: list[tuple[Any, ...]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_log, "LENGTH_MAX", log_length)
        if limits == "tiny":
            patch.setattr(change_log, "COLUMNS_MAX", 4)
        for name, value in LIMITS[limits].items():
            patch.setattr(counts, name, value)
        model = Model()
        model.set_node("n0", "a")
        tallies: list[tuple[Tally, Callable[[Placed], int]]] = [
            (tally_of_a(model), lambda pod: pod.app == "a"),
            (tally_of_a(model, live_only=True), lambda p: p.app == "a" and not p.terminating),
            (tally_of_terms(model), lambda pod: 7 * pod.has_terms),
        ]
        tables: dict[int, DomainTable] = {}
        topology = None
        for change in [*changes, ("look",)]:
            apply(model, change)
            if change != ("look",):
                continue
            if topology is not model.cluster.counters.topology:
                topology, tables = model.cluster.counters.topology, {}
            for place, (tally, counts_for) in enumerate(tallies):
                assert by_node(model, tally) == model.expected(counts_for)
                table = tables.setdefault(place, zone_table(model, tally))
                assert by_zone(model, tally, table) == model.expected_by_zone(counts_for)
                # A constant limit, and one that changes.
                for limit in (0, place, len(model.zones) % 3):
                    expected = nodes_above(model, counts_for, limit)
                    assert names_above(model, table, limit) == expected


def test_rows_that_do_not_count_add_to_no_domain() -> None:
    model = Model()
    for name in NODES[:2]:
        model.set_node(name, "a")
        model.add_pod(Placed("a", name, terminating=False, has_terms=False))
    tally = tally_of_a(model)
    row = model.view.row_of("n1")
    slots = np.full(2, 1, dtype=np.intp)
    slots[row] = 0
    table = DomainTable(tally, slots, model.cluster.counters.topology.domains(ZONE))
    assert table.follow().tolist() == [1, 0]
    model.add_pod(Placed("a", "n0", terminating=False, has_terms=False))
    model.add_pod(Placed("a", "n1", terminating=False, has_terms=False))
    assert table.follow().tolist() == [2, 0]


def test_a_returned_row_set_does_not_change_later() -> None:
    model = Model()
    for name, zone in zip(NODES[:3], "aab", strict=True):
        model.set_node(name, zone)
    table = zone_table(model, tally_of_a(model))
    assert table.above(0).column() is None
    model.add_pod(Placed("a", "n2", terminating=False, has_terms=False))
    table.follow()
    before = table.above(0).column()
    assert before is not None
    model.add_pod(Placed("a", "n0", terminating=False, has_terms=False))
    table.follow()
    after = table.above(0).column()
    assert before.tolist() == [False, False, True]
    assert after is not None
    assert after.tolist() == [True, True, True]
    assert table.above(0).column() is after, "nothing has changed"
    assert table.above(1).column() is None


def test_a_lookup_table_computes_candidates_first_and_all_new_values_later() -> None:
    model = Model()
    for app in ("a", "b"):
        model.add_pod(Placed(app, "n0", terminating=False, has_terms=False))
    computed: list[str] = []

    def compute(label_class: LabelClass) -> int:
        computed.append(label_class.labels["app"])
        return 1

    table = LookupTable(model.cluster.pods.label_classes, compute, candidates=[1])
    assert table.up_to_date().tolist() == [0, 1]
    model.add_pod(Placed("c", "n0", terminating=False, has_terms=False))
    assert table.up_to_date().tolist() == [0, 1, 1]
    assert computed == ["b", "c"]


@given(steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=30))
def test_columns_of_the_log_equal_its_changes(steps: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_log, "COLUMNS_MAX", 6)
        log = change_log.ChangeLog()
        made: list[change_log.Change] = []
        for count, back in steps:
            for _ in range(count):
                made.append(change_log.Change(len(made), 1, 2, 1, -1))
                log.append(made[-1])
            stamp = max(log.stamp - back, 0)
            columns = log.columns_since(stamp)
            if log.stamp - stamp > 6:
                assert columns is None
            else:
                # They may reach less far back than the log.
                assert columns is None or columns.T.tolist() == [list(c) for c in made[stamp:]]
            latest = log.columns_since(log.stamp)
            assert latest is not None
            assert latest.shape[1] == 0


def test_a_tally_lives_as_long_as_a_reference_to_it() -> None:
    model = Model()
    counters = model.cluster.counters
    made: list[str] = []

    def make() -> Tally:
        made.append("tally")
        return tally_of_a(model)

    held = counters.tally("a", make)
    assert counters.tally("a", make) is held
    assert len(made) == 1
    del held
    counters.tally("a", make)
    assert len(made) == 2


def test_the_least_recently_used_value_is_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "BYTES_MAX", 10)
    counters = ClusterTables().counters
    counters.keep("old", 1, 4)
    counters.keep("used", 2, 4)
    assert counters.kept("old") == 1
    counters.keep("new", 3, 4)
    assert [counters.kept(key) for key in ("old", "used", "new")] == [1, None, 3]
    counters.keep("huge", 4, 40)
    assert [counters.kept(key) for key in ("old", "new", "huge")] == [None, None, 4]


def test_counters_keep_nothing_when_caching_is_off() -> None:
    counters = ClusterTables().counters
    counters.keep("key", 1, 4)
    counters.keeps = False
    assert counters.kept("key") is None
    counters.keep("key", 2, 4)
    assert counters.topology is not counters.topology
    counters.keeps = True
    assert counters.kept("key") == 1


def test_topology_is_recomputed_when_a_node_changes() -> None:
    model = Model()
    model.set_node("n0", "a")
    before = model.cluster.counters.topology
    assert before.fact("key", lambda: [1]) is before.fact("key", lambda: [2])
    assert before.domains(ZONE).is_everywhere
    model.add_pod(Placed("a", "n0", terminating=False, has_terms=False))
    assert model.cluster.counters.topology is before
    model.set_node("n1", None)
    after = model.cluster.counters.topology
    assert after is not before
    assert not after.domains(ZONE).is_everywhere
    assert after.column(model.view.all_nodes(), ZONE).tolist() == [0, 1]


@pytest.mark.parametrize("count", [3, 20, 100])
def test_a_domain_table_follows_a_rebuilt_tally(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "LENGTH_MAX", 1)
    model = Model()
    model.set_node("n0", "a")
    tally = tally_of_a(model)
    table = zone_table(model, tally)
    for _ in range(count):
        model.add_pod(Placed("a", "n0", terminating=False, has_terms=False))
    assert table.follow().tolist() == [count, 0]


@pytest.mark.parametrize("count", [1, 4, 5, 6, 7, 40, 200])
def test_a_domain_table_far_behind_catches_up_with_its_tally(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "HITS_MAX", 3)
    model = Model()
    model.set_node("n0", "a")
    tally = tally_of_a(model)
    table = zone_table(model, tally)
    for _ in range(count):
        model.add_pod(Placed("a", "n0", terminating=False, has_terms=False))
        tally.follow()
        assert len(tally.hits) <= 6
    assert table.follow().tolist() == [count, 0]
    model.remove_pod(0)
    assert table.follow().tolist() == [count - 1, 0]


def test_a_tally_covers_nodes_that_are_added_later() -> None:
    model = Model()
    tally = tally_of_a(model)
    for number in range(100):
        model.set_node(f"late{number}", "a")
    tally.follow()
    rows = model.view.all_nodes().rows
    assert tally.rows.take(rows).tolist() == [0] * 100


def test_rows_above_follow_their_counts() -> None:
    model = Model()
    names = [f"n{number}" for number in range(FEW_DOMAINS_MAX + 2)]
    for number, name in enumerate(names):
        model.set_node(name, f"z{max(number, 1)}")
    table = zone_table(model, tally_of_a(model))
    above = table.above(0)
    assert above.column() is None
    seen = above.version
    for name in ("n5", "n0"):
        model.add_pod(Placed("a", name, terminating=False, has_terms=False))
        table.follow()
        assert table.above(0) is above
        seen += 1
        assert above.version == seen
    expected = {model.view.row_of(name) for name in ("n0", "n1", "n5")}
    column = above.column()
    assert column is not None
    assert set(column.nonzero()[0].tolist()) == expected
    model.add_pod(Placed("b", "n7", terminating=False, has_terms=False))
    table.follow()
    assert table.above(0).version == seen
    assert above.column() is column, "nothing has changed"


def test_equal_row_sets_of_few_domains_share_one_array() -> None:
    model = Model()
    for name, zone in zip(NODES[:2], "ab", strict=True):
        model.set_node(name, zone)
    table = zone_table(model, tally_of_a(model))
    columns = []
    for add in (True, False, True):
        if add:
            model.add_pod(Placed("a", "n1", terminating=False, has_terms=False))
        else:
            model.remove_pod(0)
        table.follow()
        columns.append(table.above(0).column())
    assert columns[0] is columns[2] is not columns[1]
