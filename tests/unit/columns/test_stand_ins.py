"""Rows of nodes that stand in for others: read like all rows, and never in anybody's way."""

import numpy as np

from kubesched.cache.cache import STAND_INS_SPARE, Cache
from tests.unit.builders import a_node, a_pod

IMAGES = {"images": [{"names": ["app:1"], "sizeBytes": 5}]}


def a_cache() -> Cache:
    cache = Cache()
    cache.set_node_info(a_node("n1", labels={"zone": "a"}))
    cache.set_node_info(a_node("n2", labels={"zone": "b"}))
    cache.add_pod(a_pod("big", requests={"cpu": "3"}, nodeName="n1"))
    return cache


def test_they_have_what_the_node_has_but_neither_pods_nor_images() -> None:
    cache = a_cache()
    view = cache.snapshot()
    rows = cache.stand_in([a_node("n1", labels={"zone": "z"}, status=IMAGES)])
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


def test_the_cluster_has_no_more_nodes_than_before() -> None:
    cache = a_cache()
    view = cache.snapshot()
    cache.stand_in([a_node("n1", labels={"zone": "z"}), a_node("ghost")])
    assert view.node_count == 2
    assert view.all_nodes().names == ["n1", "n2"]
    assert sorted(view.whole().names) == ["n1", "n2"]
    assert view.row_of("ghost") == -1
    assert view.all_nodes().requested["cpu"].tolist() == [3000, 0]
    assert view.all_nodes()[0].labels == {"zone": "a"}
    # A pod that goes to the node goes to its own row.
    cache.add_pod(a_pod("more", requests={"cpu": "1"}, nodeName="n1"))
    assert view.all_nodes().requested["cpu"].tolist() == [4000, 0]


def test_the_same_name_twice_is_two_rows() -> None:
    cache = a_cache()
    first, second = a_node("n1", labels={"zone": "x"}), a_node("n1", labels={"zone": "y"})
    rows = cache.stand_in([first, second])
    assert len(set(rows.tolist())) == 2
    nodes = cache.snapshot().nodes_at(rows)
    assert [node.labels["zone"] for node in nodes] == ["x", "y"]
    assert nodes.is_named("n1").tolist() == [True, True]


def test_rows_are_used_again_for_the_same_name_and_change_with_the_node() -> None:
    cache = a_cache()
    view = cache.snapshot()
    rows = cache.stand_in([a_node("n1", labels={"zone": "x"})])
    epoch = view.node_epoch
    again = cache.stand_in([a_node("n1", labels={"zone": "x"})])
    assert np.array_equal(rows, again)
    assert view.node_epoch == epoch
    cache.stand_in([a_node("n1", labels={"zone": "y"})])
    assert view.node_epoch > epoch
    assert view.nodes_at(rows)[0].labels["zone"] == "y"


def test_dropped_rows_are_free_for_nodes_and_the_nodes_stay() -> None:
    cache = a_cache()
    view = cache.snapshot()
    cache.stand_in([a_node("n1"), a_node("ghost")])
    count = view.row_count
    cache.drop_stand_ins()
    cache.set_node_info(a_node("n3"))
    cache.set_node_info(a_node("n4"))
    assert view.row_count == count
    assert view.all_nodes().names == ["n1", "n2", "n3", "n4"]
    assert view.all_nodes().requested["cpu"].tolist() == [3000, 0, 0, 0]


def test_they_do_not_grow_without_end() -> None:
    cache = a_cache()
    for number in range(STAND_INS_SPARE + 10):
        cache.stand_in([a_node(f"ghost-{number}")])
    assert cache.snapshot().row_count <= STAND_INS_SPARE + 10


def test_what_holds_for_all_nodes_need_not_hold_for_them() -> None:
    cache = a_cache()
    view = cache.snapshot()
    assert view.counters.topology.domains("zone").is_everywhere
    assert view.all_nodes().all_offer(("cpu", "memory"))
    rows = cache.stand_in([a_node("n1", allocatable={})])
    assert not view.counters.topology.domains("zone").is_everywhere
    assert not view.nodes_at(rows).all_offer(("cpu", "memory"))
