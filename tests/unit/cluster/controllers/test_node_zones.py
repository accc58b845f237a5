"""Zone states and eviction rates."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.controllers.node_lifecycle.zones import NodeZones, ZoneChange

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
    zones.update()
    return zones


def fill(zones: NodeZones, ready_count: int, lost_count: int, zone: str = "") -> None:
    for number in range(ready_count + lost_count):
        ready = "True" if number < ready_count else "Unknown"
        zones.observe(a_node(f"{zone}n{number}", ready, zone))


LOST = a_node("n9", "Unknown")


def test_one_eviction_per_ten_seconds() -> None:
    zones = zones_of(10, 2)
    assert zones.wait_s(LOST, 100.0) == 0.0
    assert zones.wait_s(LOST, 100.0) == 10.0
    assert zones.wait_s(LOST, 109.0) == 1.0
    assert zones.wait_s(LOST, 110.0) == 0.0


def test_faster_clusters_wait_less() -> None:
    zones = NodeZones(speed=10.0)
    fill(zones, 10, 2)
    zones.update()
    assert zones.wait_s(LOST, 100.0) == 0.0
    assert zones.wait_s(LOST, 100.0) == 1.0


def test_two_unready_nodes_are_no_partial_disruption() -> None:
    assert zones_of(1, 2).wait_s(LOST, 0.0) == 0.0


def test_partial_disruption_of_a_small_zone_stops_evictions() -> None:
    assert zones_of(3, 3).wait_s(LOST, 0.0) == 0.0, "half is not most"
    assert zones_of(2, 3).wait_s(LOST, 0.0) is None


def test_partial_disruption_of_a_large_zone_slows_evictions() -> None:
    zones = zones_of(20, 31)
    assert zones.wait_s(LOST, 0.0) == 0.0
    assert zones.wait_s(LOST, 0.0) == 100.0


def test_a_fully_disrupted_zone_evicts_while_another_is_healthy() -> None:
    zones = NodeZones()
    fill(zones, 0, 4, "a")
    fill(zones, 3, 0, "b")
    assert zones.update() is ZoneChange.CHANGED
    assert zones.wait_s(a_node("an0", "Unknown", "a"), 0.0) == 0.0


def test_full_disruption_of_all_zones_stops_evictions() -> None:
    zones = zones_of(2, 0)
    zones.observe(a_node("n0", "Unknown"))
    assert zones.update() is ZoneChange.UNCHANGED
    zones.observe(a_node("n1", "Unknown"))
    assert zones.update() is ZoneChange.FULL_DISRUPTION
    assert zones.update() is ZoneChange.UNCHANGED
    assert zones.wait_s(LOST, 0.0) is None
    zones.observe(a_node("n1"))
    assert zones.update() is ZoneChange.RECOVERED
    assert zones.wait_s(LOST, 0.0) == 0.0


def test_only_changes_are_reported() -> None:
    zones = zones_of(2, 0)
    assert not zones.observe(a_node("n0"))
    assert zones.observe(a_node("n0", "False"))
    assert zones.observe(a_node("n0", "False", "elsewhere")), "it moved"
    assert not zones.forget("unknown")
    assert zones.forget("n0")


def test_nodes_can_be_excluded_from_disruption() -> None:
    zones = zones_of(1, 0)
    excluded = {"node.kubernetes.io/exclude-disruption": ""}
    zones.observe(a_node("out", "True", **excluded))
    zones.observe(a_node("n0", "Unknown"))
    assert zones.update() is ZoneChange.FULL_DISRUPTION


def test_a_cluster_without_nodes_is_unchanged() -> None:
    assert NodeZones().update() is ZoneChange.UNCHANGED
