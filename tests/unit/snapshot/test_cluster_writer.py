"""How the writer adds, changes and removes rows."""

import pytest

from kubesched.cache.writer import ClusterWriter
from kubesched.snapshot.interning import LookupTable
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.pod_info import PodInfo, PodShapes
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_node, a_pod, a_wire_pod

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def cluster() -> ClusterTables:
    return ClusterTables()


@pytest.fixture
def writer(cluster: ClusterTables) -> ClusterWriter:
    return ClusterWriter(cluster)


@pytest.fixture
def view(cluster: ClusterTables) -> ClusterView:
    return ClusterView(cluster)


def names(view: ClusterView) -> list[str]:
    return view.all_nodes().names


def count_all(view: ClusterView) -> Tally:
    return Tally(view.counters, LookupTable(view.label_classes, lambda _: True))


def domain_sums(view: ClusterView, key: str) -> list[int]:
    domains = view.counters.topology.domains(key)
    *sums, _no_domain = DomainTable(count_all(view), domains.ids, domains).follow().tolist()
    return sums


def cpu_requested(view: ClusterView, name: str) -> int:
    node = view.node(name)
    assert node is not None
    return node.requested["cpu"]


def test_visiting_order_alternates_between_zones_and_keeps_arrival_order_in_each(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, zone in [
        ("a1", "a"),
        ("a2", "a"),
        ("b1", "b"),
        ("a3", "a"),
        ("c1", "c"),
        ("b2", "b"),
    ]:
        writer.set_node(a_node(name, labels={ZONE: zone}))
    assert names(view) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_an_emptied_zone_comes_last_when_it_gets_nodes_again(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, zone in [("a1", "a"), ("b1", "b")]:
        writer.set_node(a_node(name, labels={ZONE: zone}))
    writer.remove_node("a1")
    writer.set_node(a_node("a1", labels={ZONE: "a"}))
    assert names(view) == ["b1", "a1"]


def test_an_updated_node_keeps_its_place_unless_its_zone_changes(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name in ("x", "y", "z"):
        writer.set_node(a_node(name, labels={ZONE: "a"}))
    writer.set_node(a_node("x", labels={ZONE: "a", "new": "label"}))
    assert names(view) == ["x", "y", "z"]
    writer.set_node(a_node("x", labels={ZONE: "b"}))
    assert names(view) == ["y", "x", "z"]


def test_a_pod_on_an_unknown_node_counts_after_the_node_arrives(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.add_pod(a_pod("p", requests={"cpu": "1"}), "late")
    assert view.node_count == 0
    assert view.row_of("late") == -1
    writer.set_node(a_node("late"))
    assert cpu_requested(view, "late") == 1000


def test_pods_of_a_deleted_node_count_when_it_is_added_again(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.set_node(a_node("n"))
    writer.add_pod(a_pod("p", requests={"cpu": "1"}), "n")
    writer.remove_node("n")
    assert names(view) == []
    writer.set_node(a_node("n"))
    assert cpu_requested(view, "n") == 1000


def test_a_reused_row_has_no_values_of_the_old_node(
    writer: ClusterWriter, view: ClusterView, cluster: ClusterTables
) -> None:
    rich = a_node(
        "old",
        labels={"disk": "ssd"},
        allocatable={"cpu": "9", "example.com/gpu": "4", "pods": "3"},
        unschedulable=True,
        taints=[{"key": "k", "effect": "NoSchedule"}],
        status={"declaredFeatures": ["F"], "images": [{"names": ["app:1"], "sizeBytes": 5}]},
    )
    writer.set_node(rich)
    view.label_ids("disk")
    ports = [{"name": "c", "ports": [{"hostPort": 80}]}]
    writer.add_pod(a_pod("p", containers=ports), "old")
    writer.remove_node("old")
    writer.remove_pod("uid-default-p")
    writer.set_node(a_node("new", allocatable={}))
    assert cluster.nodes.row_count == 1
    node = view.node("new")
    assert node is not None
    assert (node.allocatable["cpu"], node.allocatable["example.com/gpu"]) == (0, 0)
    assert (node.allowed_pods, node.pod_count, node.unschedulable) == (0, 0, False)
    assert node.nonzero_requested["cpu"] == 0
    assert node.host_ports == set()
    table = view.all_nodes()
    assert table.label("disk").tolist() == [-1]
    assert (table.taint_set.tolist(), table.feature_set.tolist()) == ([0], [0])
    assert view.image("app:1") is None


def test_a_row_stays_while_a_pod_is_nominated_to_it(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.set_node(a_node("n"))
    writer.nominate_pod(a_pod("p"), "n")
    writer.remove_node("n")
    writer.set_node(a_node("other"))
    writer.set_node(a_node("n"))
    nominated = view.nominated_on(view.row_of("n"))
    assert [view.bound_pod(index).name for index in nominated] == ["p"]
    assert list(view.nominated_on(view.row_of("other"))) == []


def test_removing_one_of_two_pods_that_share_a_port_frees_it(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.set_node(a_node("n"))
    ports = [{"name": "c", "ports": [{"hostPort": 80}]}]
    for name in ("p", "q"):
        writer.add_pod(a_pod(name, containers=ports), "n")
    writer.remove_pod("uid-default-p")
    node = view.node("n")
    assert node is not None
    assert node.host_ports == set()


def test_a_nominated_pod_adds_no_requests(writer: ClusterWriter, view: ClusterView) -> None:
    writer.set_node(a_node("n"))
    writer.nominate_pod(a_pod("p", requests={"cpu": "1"}, labels={"app": "web"}), "n")
    assert cpu_requested(view, "n") == 0
    assert not count_all(view).rows.any()


def test_the_size_of_an_image_is_the_largest_that_a_node_reports(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, size in (("n1", 10), ("n2", 30)):
        image = {"names": ["app:1"], "sizeBytes": size}
        writer.set_node(a_node(name, status={"images": [image]}))
    entry = view.image("app:1")
    assert entry is not None
    assert (len(entry.size_bytes_by_row), entry.size_bytes) == (2, 30)
    writer.set_node(a_node("n2"))
    assert (len(entry.size_bytes_by_row), entry.size_bytes) == (1, 10)


def test_a_tally_can_exclude_terminating_pods(writer: ClusterWriter, view: ClusterView) -> None:
    writer.set_node(a_node("n"))
    leaving = {"deletionTimestamp": "2024-05-01T00:00:00Z"}
    writer.add_pod(a_pod("p", labels={"app": "web"}), "n")
    writer.add_pod(a_pod("q", labels={"app": "web"}, metadata=leaving), "n")
    web = LookupTable(view.label_classes, lambda c: c.labels.get("app") == "web")
    assert Tally(view.counters, web).rows.sum() == 2
    assert Tally(view.counters, web, live_only=True).rows.sum() == 1


def test_domain_sums_exclude_rows_without_the_label(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, labels in (("n1", {"rack": "r1"}), ("n2", {"rack": "r2"}), ("n3", {})):
        writer.set_node(a_node(name, labels=labels))
        writer.add_pod(a_pod(f"p-{name}"), name)
    writer.add_pod(a_pod("q"), "n1")
    values = view.label_values("rack").values
    assert dict(zip(values, domain_sums(view, "rack"), strict=True)) == {"r1": 2, "r2": 1}


def test_tables_grow_with_many_nodes_and_pods(writer: ClusterWriter, view: ClusterView) -> None:
    view.label_ids("number")
    for number in range(50):
        writer.set_node(a_node(f"n{number}", labels={"number": str(number)}))
        writer.add_pod(a_pod(f"p{number}", requests={"cpu": f"{number}m"}), f"n{number}")
    table = view.all_nodes()
    assert table.requested["cpu"].tolist() == list(range(50))
    values = table.label_values("number").values
    assert [values[i] for i in table.label("number")] == [str(number) for number in range(50)]


def test_a_pod_on_an_unknown_node_counts_in_no_domain(
    writer: ClusterWriter, view: ClusterView
) -> None:
    view.label_ids("rack")
    for number in range(20):
        writer.set_node(a_node(f"n{number}", labels={"rack": "r1"}))
        writer.add_pod(a_pod(f"p{number}"), f"unknown-{number}")
    assert domain_sums(view, "rack") == [0]


def test_node_count_follows_added_changed_and_removed_nodes(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, zone in [("n1", "a"), ("n2", "a"), ("n1", "a"), ("n2", "b")]:
        writer.set_node(a_node(name, labels={ZONE: zone}))
    assert view.node_count == len(names(view)) == 2
    writer.remove_node("n1")
    writer.remove_node("n1")
    assert view.node_count == len(names(view)) == 1


def test_a_reused_pod_index_has_no_values_of_the_old_pod(
    cluster: ClusterTables, writer: ClusterWriter
) -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    first = a_pod(
        "first",
        labels={"app": "web"},
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"startTime": "2026-01-01T00:00:00Z"},
        priority=7,
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        },
    )
    columns = ("term_set", "priority", "start_s", "terminating")
    plain = writer.add_pod(a_pod("plain"), "n1")
    index = writer.add_pod(first, "n1")
    usual = [getattr(cluster.pods, name).item(plain) for name in columns]
    for value, name in zip(usual, columns, strict=True):
        assert getattr(cluster.pods, name).item(index) != value
    writer.remove_pod(first.uid)
    assert writer.add_pod(a_pod("next"), "n1") == index
    assert [getattr(cluster.pods, name).item(index) for name in columns] == usual


def test_equal_pods_have_equal_ids_before_and_after_a_compaction(
    cluster: ClusterTables, writer: ClusterWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubesched.cache.compaction.SPARE", 0)
    monkeypatch.setattr("kubesched.cache.compaction.CHECK_EVERY", 1)
    cluster.compact_at = 10**9
    shapes = PodShapes()

    def pod(name: str, app: str) -> PodInfo:
        return shapes.pod_info(a_wire_pod(name, uid=name, labels={"app": app}))

    for number in range(20):
        writer.add_pod(pod(f"gone-{number}", f"gone-{number}"), "n1")
    first = writer.add_pod(pod("one", "web"), "n1")
    before = cluster.pods.label_class.item(first)
    for number in range(20):
        writer.remove_pod(f"gone-{number}")
    cluster.compact_at = 0
    second = writer.add_pod(pod("two", "web"), "n1")
    ids = cluster.pods.label_class
    assert ids.item(first) == ids.item(second) != before
    assert cluster.pods.label_classes.values[ids.item(second)].labels == {"app": "web"}
    assert cluster.pods.shape.item(first) == cluster.pods.shape.item(second)
