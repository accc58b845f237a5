"""Placeholder rows: read like other rows, but not part of the cluster."""

import numpy as np

from kubesched.cache.cache import PLACEHOLDERS_SPARE, Cache
from tests.unit.builders import a_node, a_pod

IMAGES = {"images": [{"names": ["app:1"], "sizeBytes": 5}]}


def a_cache() -> Cache:
    cache = Cache()
    cache.set_node_info(a_node("n1", labels={"zone": "a"}))
    cache.set_node_info(a_node("n2", labels={"zone": "b"}))
    cache.add_pod(a_pod("big", requests={"cpu": "3"}, nodeName="n1"))
    return cache


def test_a_placeholder_has_the_fields_of_its_node_without_pods_and_images() -> None:
    cache = a_cache()
    view = cache.snapshot()
    rows = cache.add_placeholders([a_node("n1", labels={"zone": "z"}, status=IMAGES)])
    nodes = view.nodes_at(rows)
    assert nodes.names == ["n1"]
    assert nodes.requested["cpu"].tolist() == [0]
    assert nodes.pod_count.tolist() == [0]
    assert nodes.allocatable["cpu"].tolist() == [4000]
    assert nodes[0].pods == []
    assert nodes[0].labels == {"zone": "z"}
    assert view.label_values("zone").values[nodes.label("zone")[0]] == "z"
    assert view.image("app:1") is None
    assert nodes.is_named("n1").tolist() == [True]
    assert nodes.is_named("n2").tolist() == [False]


def test_placeholders_are_not_nodes_of_the_cluster() -> None:
    cache = a_cache()
    view = cache.snapshot()
    cache.add_placeholders([a_node("n1", labels={"zone": "z"}), a_node("ghost")])
    assert view.node_count == 2
    assert view.all_nodes().names == ["n1", "n2"]
    assert sorted(view.whole().names) == ["n1", "n2"]
    assert view.row_of("ghost") == -1
    assert view.all_nodes().requested["cpu"].tolist() == [3000, 0]
    assert view.all_nodes()[0].labels == {"zone": "a"}
    # A pod of the node counts on the node's own row.
    cache.add_pod(a_pod("more", requests={"cpu": "1"}, nodeName="n1"))
    assert view.all_nodes().requested["cpu"].tolist() == [4000, 0]


def test_two_placeholders_of_one_name_have_two_rows() -> None:
    cache = a_cache()
    first, second = a_node("n1", labels={"zone": "x"}), a_node("n1", labels={"zone": "y"})
    rows = cache.add_placeholders([first, second])
    assert len(set(rows.tolist())) == 2
    nodes = cache.snapshot().nodes_at(rows)
    assert [node.labels["zone"] for node in nodes] == ["x", "y"]
    assert nodes.is_named("n1").tolist() == [True, True]


def test_a_placeholder_of_the_same_name_reuses_its_row() -> None:
    cache = a_cache()
    view = cache.snapshot()
    rows = cache.add_placeholders([a_node("n1", labels={"zone": "x"})])
    epoch = view.node_epoch
    again = cache.add_placeholders([a_node("n1", labels={"zone": "x"})])
    assert np.array_equal(rows, again)
    assert view.node_epoch == epoch
    cache.add_placeholders([a_node("n1", labels={"zone": "y"})])
    assert view.node_epoch > epoch
    assert view.nodes_at(rows)[0].labels["zone"] == "y"


def test_nodes_reuse_the_rows_of_dropped_placeholders() -> None:
    cache = a_cache()
    view = cache.snapshot()
    cache.add_placeholders([a_node("n1"), a_node("ghost")])
    count = view.row_count
    cache.drop_placeholders()
    cache.set_node_info(a_node("n3"))
    cache.set_node_info(a_node("n4"))
    assert view.row_count == count
    assert view.all_nodes().names == ["n1", "n2", "n3", "n4"]
    assert view.all_nodes().requested["cpu"].tolist() == [3000, 0, 0, 0]


def test_old_placeholders_are_dropped() -> None:
    cache = a_cache()
    for number in range(PLACEHOLDERS_SPARE + 10):
        cache.add_placeholders([a_node(f"ghost-{number}")])
    assert cache.snapshot().row_count <= PLACEHOLDERS_SPARE + 10


def test_facts_about_all_nodes_include_placeholders() -> None:
    cache = a_cache()
    view = cache.snapshot()
    assert view.counters.topology.domains("zone").is_everywhere
    assert view.all_nodes().all_offer(("cpu", "memory"))
    rows = cache.add_placeholders([a_node("n1", allocatable={})])
    assert not view.counters.topology.domains("zone").is_everywhere
    assert not view.nodes_at(rows).all_offer(("cpu", "memory"))
