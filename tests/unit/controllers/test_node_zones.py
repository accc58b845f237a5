"""How many nodes may lose their pods, and how fast."""

from __future__ import annotations

from typing import Any

from kubesched.controllers.node_zones import NodeZones, Outcome

Document = dict[str, Any]


def a_node(name: str, ready: str = "True", zone: str = "", **labels: str) -> Document:
    known = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {
        "metadata": {"name": name, "labels": {**known, **labels}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def zones_of(ready_count: int, lost_count: int, zone: str = "") -> NodeZones:
    zones = NodeZones()
    fill(zones, ready_count, lost_count, zone)
    zones.look()
    return zones


def fill(zones: NodeZones, ready_count: int, lost_count: int, zone: str = "") -> None:
    for number in range(ready_count + lost_count):
        ready = "True" if number < ready_count else "Unknown"
        zones.see(a_node(f"{zone}n{number}", ready, zone))


LOST = a_node("n9", "Unknown")


def test_one_node_in_ten_seconds() -> None:
    zones = zones_of(10, 2)
    assert zones.wait_s(LOST, 100.0) == 0.0
    assert zones.wait_s(LOST, 100.0) == 10.0
    assert zones.wait_s(LOST, 109.0) == 1.0
    assert zones.wait_s(LOST, 110.0) == 0.0


def test_faster_clusters_wait_less() -> None:
    zones = NodeZones(speed=10.0)
    fill(zones, 10, 2)
    zones.look()
    assert zones.wait_s(LOST, 100.0) == 0.0
    assert zones.wait_s(LOST, 100.0) == 1.0


def test_two_lost_nodes_are_never_a_disruption_while_one_is_ready() -> None:
    assert zones_of(1, 2).wait_s(LOST, 0.0) == 0.0


def test_when_most_of_a_small_zone_is_lost_nobody_loses_pods() -> None:
    assert zones_of(3, 3).wait_s(LOST, 0.0) == 0.0, "half is not most"
    assert zones_of(2, 3).wait_s(LOST, 0.0) is None


def test_when_most_of_a_large_zone_is_lost_it_goes_slowly() -> None:
    zones = zones_of(20, 31)
    assert zones.wait_s(LOST, 0.0) == 0.0
    assert zones.wait_s(LOST, 0.0) == 100.0


def test_a_zone_that_is_lost_as_a_whole_goes_on_while_another_is_well() -> None:
    zones = NodeZones()
    fill(zones, 0, 4, "a")
    fill(zones, 3, 0, "b")
    assert zones.look() is Outcome.CHANGED
    assert zones.wait_s(a_node("an0", "Unknown", "a"), 0.0) == 0.0


def test_when_no_node_is_ready_it_is_us_who_are_cut_off() -> None:
    zones = zones_of(2, 0)
    zones.see(a_node("n0", "Unknown"))
    assert zones.look() is Outcome.SAME
    zones.see(a_node("n1", "Unknown"))
    assert zones.look() is Outcome.ALL_LOST
    assert zones.look() is Outcome.SAME
    assert zones.wait_s(LOST, 0.0) is None
    zones.see(a_node("n1"))
    assert zones.look() is Outcome.SOME_BACK
    assert zones.wait_s(LOST, 0.0) == 0.0


def test_only_what_changes_is_news() -> None:
    zones = zones_of(2, 0)
    assert not zones.see(a_node("n0"))
    assert zones.see(a_node("n0", "False"))
    assert zones.see(a_node("n0", "False", "elsewhere")), "it moved"
    assert not zones.forget("unknown")
    assert zones.forget("n0")


def test_nodes_may_be_left_out_of_the_count() -> None:
    zones = zones_of(1, 0)
    excluded = {"node.kubernetes.io/exclude-disruption": ""}
    zones.see(a_node("out", "True", **excluded))
    zones.see(a_node("n0", "Unknown"))
    assert zones.look() is Outcome.ALL_LOST


def test_a_cluster_without_nodes_is_quiet() -> None:
    assert NodeZones().look() is Outcome.SAME
