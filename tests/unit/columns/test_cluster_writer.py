"""How rows come, change and go."""

import pytest

from kubesched.columns.cluster import Cluster
from kubesched.columns.view import ClusterView
from kubesched.columns.writer import ClusterWriter
from kubesched.model.pod_info import PodInfo, PodShapes
from tests.unit.builders import a_node, a_pod, a_wire_pod

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def writer(cluster: Cluster) -> ClusterWriter:
    return ClusterWriter(cluster)


@pytest.fixture
def view(cluster: Cluster) -> ClusterView:
    return ClusterView(cluster)


def names(view: ClusterView) -> list[str]:
    return view.all_nodes().names


def cpu_taken(view: ClusterView, name: str) -> int:
    node = view.node(name)
    assert node is not None
    return node.requested["cpu"]


def test_zones_take_turns_and_nodes_of_a_zone_keep_their_order(
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


def test_a_zone_that_empties_goes_to_the_end_when_it_comes_back(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, zone in [("a1", "a"), ("b1", "b")]:
        writer.set_node(a_node(name, labels={ZONE: zone}))
    writer.remove_node("a1")
    writer.set_node(a_node("a1", labels={ZONE: "a"}))
    assert names(view) == ["b1", "a1"]


def test_an_update_keeps_the_place_unless_the_zone_changes(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name in ("x", "y", "z"):
        writer.set_node(a_node(name, labels={ZONE: "a"}))
    writer.set_node(a_node("x", labels={ZONE: "a", "new": "label"}))
    assert names(view) == ["x", "y", "z"]
    writer.set_node(a_node("x", labels={ZONE: "b"}))
    assert names(view) == ["y", "x", "z"]


def test_a_pod_on_an_unknown_node_counts_once_the_node_comes(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.add_pod(a_pod("p", requests={"cpu": "1"}), "late")
    assert view.node_count == 0
    assert view.row_of("late") == -1
    writer.set_node(a_node("late"))
    assert cpu_taken(view, "late") == 1000


def test_a_deleted_nodes_pods_count_again_when_it_comes_back(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.set_node(a_node("n"))
    writer.add_pod(a_pod("p", requests={"cpu": "1"}), "n")
    writer.remove_node("n")
    assert names(view) == []
    writer.set_node(a_node("n"))
    assert cpu_taken(view, "n") == 1000


def test_a_row_is_used_again_and_nothing_of_the_old_node_is_left(
    writer: ClusterWriter, view: ClusterView, cluster: Cluster
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


def test_a_row_stays_while_a_pod_is_promised_it(writer: ClusterWriter, view: ClusterView) -> None:
    writer.set_node(a_node("n"))
    writer.nominate_pod(a_pod("p"), "n")
    writer.remove_node("n")
    writer.set_node(a_node("other"))
    writer.set_node(a_node("n"))
    promised = view.nominated_on(view.row_of("n"))
    assert [view.bound_pod(index).name for index in promised] == ["p"]
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


def test_a_nominated_pod_weighs_nothing(writer: ClusterWriter, view: ClusterView) -> None:
    writer.set_node(a_node("n"))
    writer.nominate_pod(a_pod("p", requests={"cpu": "1"}, labels={"app": "web"}), "n")
    assert cpu_taken(view, "n") == 0
    everything = view.label_classes.lut("all", lambda _: True)
    assert view.matching_rows(everything).tolist() == []


def test_an_image_has_the_largest_size_any_node_reports(
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


def test_terminating_pods_can_be_left_out_of_a_count(
    writer: ClusterWriter, view: ClusterView
) -> None:
    writer.set_node(a_node("n"))
    leaving = {"deletionTimestamp": "2024-05-01T00:00:00Z"}
    writer.add_pod(a_pod("p", labels={"app": "web"}), "n")
    writer.add_pod(a_pod("q", labels={"app": "web"}, metadata=leaving), "n")
    web = view.label_classes.lut("web", lambda c: c.labels.get("app") == "web")
    assert len(view.matching_rows(web)) == 2
    assert len(view.matching_rows(web, live_only=True)) == 1


def test_domain_sums_leave_out_rows_without_the_label(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, labels in (("n1", {"rack": "r1"}), ("n2", {"rack": "r2"}), ("n3", {})):
        writer.set_node(a_node(name, labels=labels))
        writer.add_pod(a_pod(f"p-{name}"), name)
    writer.add_pod(a_pod("q"), "n1")
    everything = view.label_classes.lut("all", lambda _: True)
    sums = view.domain_sums("rack", view.matching_rows(everything))
    values = view.label_values("rack").values
    assert dict(zip(values, sums.tolist(), strict=True)) == {"r1": 2, "r2": 1}


def test_many_nodes_and_pods_outgrow_the_first_capacity(
    writer: ClusterWriter, view: ClusterView
) -> None:
    view.label_ids("number")
    for number in range(50):
        writer.set_node(a_node(f"n{number}", labels={"number": str(number)}))
        writer.add_pod(a_pod(f"p{number}", requests={"cpu": f"{number}m"}), f"n{number}")
    table = view.all_nodes()
    assert table.requested["cpu"].tolist() == list(range(50))
    values = table.label_values("number").values
    assert [values[i] for i in table.label("number")] == [str(number) for number in range(50)]


def test_a_pod_on_an_unknown_node_counts_in_no_domain_however_many_rows_there_are(
    writer: ClusterWriter, view: ClusterView
) -> None:
    view.label_ids("rack")
    for number in range(20):
        writer.set_node(a_node(f"n{number}", labels={"rack": "r1"}))
        writer.add_pod(a_pod(f"p{number}"), f"unknown-{number}")
    everything = view.label_classes.lut("all", lambda _: True)
    assert view.domain_sums("rack", view.matching_rows(everything)).tolist() == [0]


def test_nodes_are_counted_as_they_come_move_and_go(
    writer: ClusterWriter, view: ClusterView
) -> None:
    for name, zone in [("n1", "a"), ("n2", "a"), ("n1", "a"), ("n2", "b")]:
        writer.set_node(a_node(name, labels={ZONE: zone}))
    assert view.node_count == len(names(view)) == 2
    writer.remove_node("n1")
    writer.remove_node("n1")
    assert view.node_count == len(names(view)) == 1


def test_a_pod_in_the_place_of_another_has_nothing_of_it(
    cluster: Cluster, writer: ClusterWriter
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
    taken = writer.add_pod(first, "n1")
    usual = [getattr(cluster.pods, name).item(plain) for name in columns]
    for value, name in zip(usual, columns, strict=True):
        assert getattr(cluster.pods, name).item(taken) != value
    writer.remove_pod(first.uid)
    assert writer.add_pod(a_pod("next"), "n1") == taken
    assert [getattr(cluster.pods, name).item(taken) for name in columns] == usual


def test_pods_alike_have_the_same_ids_also_when_these_were_dealt_anew(
    cluster: Cluster, writer: ClusterWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubesched.columns.compaction.SPARE", 0)
    monkeypatch.setattr("kubesched.columns.compaction.LOOK_EVERY", 1)
    cluster.compact_at = 10**9
    shapes = PodShapes()

    def pod(name: str, app: str) -> PodInfo:
        return shapes.pod_info(a_wire_pod(name, uid=name, labels={"app": app}))

    for number in range(20):
        writer.add_pod(pod(f"gone-{number}", f"gone-{number}"), "n1")
    one = writer.add_pod(pod("one", "web"), "n1")
    before = cluster.pods.label_class.item(one)
    for number in range(20):
        writer.remove_pod(f"gone-{number}")
    cluster.compact_at = 0
    two = writer.add_pod(pod("two", "web"), "n1")
    ids = cluster.pods.label_class
    assert ids.item(one) == ids.item(two) != before
    assert cluster.pods.label_classes.values[ids.item(two)].labels == {"app": "web"}
    assert cluster.pods.shape.item(one) == cluster.pods.shape.item(two)
