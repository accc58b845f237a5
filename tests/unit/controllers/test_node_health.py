"""How long a node may be silent, and what it looks like then."""

from __future__ import annotations

from typing import Any

from kubesched.controllers.node_health import NodeHealth, silent_conditions

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


def test_a_node_is_heard_of_when_it_is_first_seen() -> None:
    heard = health()
    heard.see_node(a_node(), now_s=100.0, wall_s=9000.0)
    assert heard.left_s(a_node(), 100.0) == GRACE_S
    assert heard.left_s(a_node(), 151.0) == -1.0


def test_a_node_that_never_said_a_word_is_as_old_as_it_is() -> None:
    heard = health()
    heard.see_node(a_node(None), now_s=100.0, wall_s=40.0)
    assert heard.left_s(a_node(None), 100.0) == STARTUP_GRACE_S - 30.0


def test_a_new_heartbeat_counts_and_the_same_one_does_not() -> None:
    heard = health()
    heard.see_node(a_node(), 100.0, 0.0)
    heard.see_node(a_node(), 120.0, 0.0)
    assert heard.left_s(a_node(), 120.0) == 30.0
    heard.see_node(a_node(heartbeat="2026-01-01T00:00:10Z"), 120.0, 0.0)
    assert heard.left_s(a_node(), 120.0) == GRACE_S


def test_a_renewed_lease_counts_and_an_old_one_does_not() -> None:
    heard = health()
    heard.see_node(a_node(), 100.0, 0.0)
    heard.see_lease("n1", "2026-01-01T00:00:01.000000Z", 110.0)
    assert heard.left_s(a_node(), 110.0) == GRACE_S
    heard.see_lease("n1", "2026-01-01T00:00:01.000000Z", 120.0)
    heard.see_lease("n1", "2026-01-01T00:00:00.500000Z", 120.0)
    assert heard.left_s(a_node(), 120.0) == 40.0
    heard.see_lease("n1", "2026-01-01T00:00:01.000001Z", 120.0)
    assert heard.left_s(a_node(), 120.0) == GRACE_S


def test_a_node_of_the_same_name_begins_anew() -> None:
    heard = health()
    heard.see_node(a_node(), 100.0, 0.0)
    heard.forget("n1")
    heard.see_node(a_node(), 500.0, 0.0)
    assert heard.left_s(a_node(), 500.0) == GRACE_S


def test_after_we_were_cut_off_everybody_has_time_again() -> None:
    heard = health()
    heard.see_node(a_node(), 100.0, 0.0)
    heard.see_all(400.0)
    assert heard.left_s(a_node(), 400.0) == GRACE_S


def test_time_in_which_we_did_not_listen_does_not_count() -> None:
    heard = health()
    heard.listen(100.0)
    heard.see_node(a_node(), 100.0, 0.0)
    heard.listen(105.0)
    heard.listen(170.0)
    assert heard.left_s(a_node(), 170.0) == GRACE_S - 70.0 + 60.0
    heard.listen(175.0)
    assert heard.left_s(a_node(), 175.0) == GRACE_S - 75.0 + 60.0


def a_busy_cluster(node_count: int, turn_s: float) -> NodeHealth:
    """Return what was heard by 1,000 s where each node had its turn at an even distance."""
    heard = health()
    for number in range(node_count):
        at_s = 1000.0 - turn_s * number / node_count
        heard.see_node(a_node(name=f"n{number}"), at_s, 0.0)
    return heard


def test_nodes_of_a_busy_large_cluster_wait_for_their_turn() -> None:
    heard, last = a_busy_cluster(1000, turn_s=150.0), a_node(name="n999")
    assert heard.left_s(last, 1000.0) > 0
    calm = a_busy_cluster(1000, turn_s=40.0)
    calm.see_node(a_node(name="dead"), 949.0, 0.0)
    assert calm.left_s(a_node(name="dead"), 1000.0) < 0


def test_nodes_of_a_small_cluster_have_no_turn_to_wait_for() -> None:
    assert a_busy_cluster(50, turn_s=150.0).left_s(a_node(name="n49"), 1000.0) < 0


def test_nobody_waits_for_ever() -> None:
    heard = a_busy_cluster(1000, turn_s=300.0)
    assert heard.left_s(a_node(name="n999"), 1000.0) < 0


def test_where_nobody_is_heard_of_everybody_is_lost() -> None:
    heard = a_busy_cluster(1000, turn_s=10.0)
    assert heard.left_s(a_node(name="n0"), 1000.0 + GRACE_S - 1) > 0
    assert heard.left_s(a_node(name="n0"), 1000.0 + GRACE_S + 1) < 0


def test_a_silent_node_knows_nothing_of_itself() -> None:
    node = a_node()
    network = {"type": "NetworkUnavailable", "status": "False"}
    pressure = {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "t"}
    node["status"]["conditions"] += [network, pressure]
    found = silent_conditions(node, "now")
    assert found is not None
    by_type = {one["type"]: one for one in found}
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


def test_a_node_known_to_be_silent_is_written_once() -> None:
    assert silent_conditions(a_node("Unknown"), "now") is None
