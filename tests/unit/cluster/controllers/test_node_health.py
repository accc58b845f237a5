"""Grace periods and conditions of silent nodes."""

from __future__ import annotations

from typing import Any

from kubesched.cluster.controllers.node_lifecycle.health import NodeHealth, unknown_conditions

Document = dict[str, Any]
GRACE_S = 50.0
STARTUP_GRACE_S = 60.0


def a_node(
    ready: str | None = "True", heartbeat: str = "2026-01-01T00:00:00Z", name: str = "n1"
) -> Document:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]
    return {
        "metadata": {"name": name, "creationTimestamp": "1970-01-01T00:00:10Z"},
        "status": {"conditions": conditions if ready else []},
    }


def health() -> NodeHealth:
    return NodeHealth(grace_s=GRACE_S, startup_grace_s=STARTUP_GRACE_S, period_s=5.0)


def test_the_first_observation_counts_as_a_heartbeat() -> None:
    notified = health()
    notified.observe_node(a_node(), now_s=100.0, wall_s=9000.0)
    assert notified.remaining_s(a_node(), 100.0) == GRACE_S
    assert notified.remaining_s(a_node(), 151.0) == -1.0


def test_a_node_without_heartbeat_counts_from_its_creation() -> None:
    notified = health()
    notified.observe_node(a_node(None), now_s=100.0, wall_s=40.0)
    assert notified.remaining_s(a_node(None), 100.0) == STARTUP_GRACE_S - 30.0


def test_a_new_heartbeat_counts_and_the_same_one_does_not() -> None:
    notified = health()
    notified.observe_node(a_node(), 100.0, 0.0)
    notified.observe_node(a_node(), 120.0, 0.0)
    assert notified.remaining_s(a_node(), 120.0) == 30.0
    notified.observe_node(a_node(heartbeat="2026-01-01T00:00:10Z"), 120.0, 0.0)
    assert notified.remaining_s(a_node(), 120.0) == GRACE_S


def test_a_renewed_lease_counts_and_an_old_one_does_not() -> None:
    notified = health()
    notified.observe_node(a_node(), 100.0, 0.0)
    notified.observe_lease("n1", "2026-01-01T00:00:01.000000Z", 110.0)
    assert notified.remaining_s(a_node(), 110.0) == GRACE_S
    notified.observe_lease("n1", "2026-01-01T00:00:01.000000Z", 120.0)
    notified.observe_lease("n1", "2026-01-01T00:00:00.500000Z", 120.0)
    assert notified.remaining_s(a_node(), 120.0) == 40.0
    notified.observe_lease("n1", "2026-01-01T00:00:01.000001Z", 120.0)
    assert notified.remaining_s(a_node(), 120.0) == GRACE_S


def test_a_recreated_node_starts_over() -> None:
    notified = health()
    notified.observe_node(a_node(), 100.0, 0.0)
    notified.forget("n1")
    notified.observe_node(a_node(), 500.0, 0.0)
    assert notified.remaining_s(a_node(), 500.0) == GRACE_S


def test_reset_restarts_all_grace_periods() -> None:
    notified = health()
    notified.observe_node(a_node(), 100.0, 0.0)
    notified.reset_all(400.0)
    assert notified.remaining_s(a_node(), 400.0) == GRACE_S


def test_stalls_of_this_process_do_not_count() -> None:
    notified = health()
    notified.tick(100.0)
    notified.observe_node(a_node(), 100.0, 0.0)
    notified.tick(105.0)
    notified.tick(170.0)
    assert notified.remaining_s(a_node(), 170.0) == GRACE_S - 70.0 + 60.0
    notified.tick(175.0)
    assert notified.remaining_s(a_node(), 175.0) == GRACE_S - 75.0 + 60.0


def a_busy_cluster(node_count: int, turn_s: float) -> NodeHealth:
    """Return the health at 1,000 s of nodes whose heartbeats were evenly distributed."""
    notified = health()
    for number in range(node_count):
        at_s = 1000.0 - turn_s * number / node_count
        notified.observe_node(a_node(name=f"n{number}"), at_s, 0.0)
    return notified


def test_the_grace_period_adapts_in_a_busy_large_cluster() -> None:
    notified, last = a_busy_cluster(1000, turn_s=150.0), a_node(name="n999")
    assert notified.remaining_s(last, 1000.0) > 0
    calm = a_busy_cluster(1000, turn_s=40.0)
    calm.observe_node(a_node(name="dead"), 949.0, 0.0)
    assert calm.remaining_s(a_node(name="dead"), 1000.0) < 0


def test_the_grace_period_is_fixed_in_a_small_cluster() -> None:
    assert a_busy_cluster(50, turn_s=150.0).remaining_s(a_node(name="n49"), 1000.0) < 0


def test_the_adapted_grace_period_is_limited() -> None:
    notified = a_busy_cluster(1000, turn_s=300.0)
    assert notified.remaining_s(a_node(name="n999"), 1000.0) < 0


def test_all_nodes_are_unhealthy_without_any_heartbeat() -> None:
    notified = a_busy_cluster(1000, turn_s=10.0)
    assert notified.remaining_s(a_node(name="n0"), 1000.0 + GRACE_S - 1) > 0
    assert notified.remaining_s(a_node(name="n0"), 1000.0 + GRACE_S + 1) < 0


def test_conditions_of_a_silent_node_become_unknown() -> None:
    node = a_node()
    network = {"type": "NetworkUnavailable", "status": "False"}
    pressure = {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "t"}
    node["status"]["conditions"] += [network, pressure]
    found = unknown_conditions(node, "now")
    assert found is not None
    by_type = {condition["type"]: condition for condition in found}
    assert by_type["Ready"] == {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "now",
    }
    assert by_type["NetworkUnavailable"] == network
    assert by_type["MemoryPressure"]["status"] == "Unknown"
    assert by_type["DiskPressure"] == {
        "type": "DiskPressure",
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": "1970-01-01T00:00:10Z",
        "lastTransitionTime": "now",
    }
    assert node["status"]["conditions"][0]["status"] == "True", "an informer's node is not ours"


def test_unknown_conditions_are_written_once() -> None:
    assert unknown_conditions(a_node("Unknown"), "now") is None
