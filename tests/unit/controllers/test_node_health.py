"""How long a node may be silent, and what it looks like then."""

from __future__ import annotations

from typing import Any

from kubesched.controllers.node_health import NodeHealth, silent_conditions

Document = dict[str, Any]
GRACE_S = 50.0
STARTUP_GRACE_S = 60.0


def a_node(ready: str | None = "True", heartbeat: str = "2026-01-01T00:00:00Z") -> Document:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]
    return {
        "metadata": {"name": "n1", "creationTimestamp": "1970-01-01T00:00:10Z"},
        "status": {"conditions": conditions if ready else []},
    }


def health() -> NodeHealth:
    return NodeHealth(grace_s=GRACE_S, startup_grace_s=STARTUP_GRACE_S)


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
