"""Assertions about decisions, and their failure messages."""

from __future__ import annotations

import pytest

from kubesched import CycleState, NodeView, PodInfo, Status, unschedulable, wait
from kubesched.testing import (
    Cluster,
    a_node,
    a_pod,
    assert_fits,
    assert_placed,
    assert_prefers,
    assert_rejected,
    assert_waits,
    decided,
)


class OnlyBlue:
    """Rejects nodes that are not blue, and prefers names late in the alphabet."""

    name = "OnlyBlue"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None if node.labels.get("color") == "blue" else unschedulable("node(s) not blue")

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 100 if node.name == "z" else 40


class WaitsForOthers:
    """Makes every pod wait on permit."""

    name = "WaitsForOthers"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return wait("not yet"), 60.0


BLUE = {"color": "blue"}
only_blue = pytest.mark.cluster(plugins=[OnlyBlue])


@only_blue
def test_true_assertions_pass(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    cluster.schedule()
    assert_placed(cluster, "web")
    assert_placed(cluster, "default/web", on="z")
    assert_placed(cluster, "web", on=["a", "z"])
    assert_rejected(cluster, "web", "red", by="OnlyBlue", because="not blue")
    assert_fits(cluster, "web", "a", "z")
    assert_prefers(cluster, "web", "z", "a")
    assert_prefers(cluster, "web", "z", "a", by="OnlyBlue")


@only_blue
def test_a_pod_on_another_node_is_explained(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    cluster.schedule()
    with pytest.raises(AssertionError) as failed:
        assert_placed(cluster, "web", on="a")
    lines = str(failed.value).splitlines()
    assert lines[0] == "default/web is on z, not on a"
    assert "default/web goes to z, 2 of 3 nodes fit." in lines
    assert ["node", "total", "OnlyBlue"] in [line.split() for line in lines]
    assert lines.index("Fitting nodes with weighted scores, best first:") < lines.index(
        "  OnlyBlue: node(s) not blue: red"
    )


@only_blue
def test_a_pending_pod_is_explained_with_counterfactuals(cluster: Cluster) -> None:
    cluster.add(a_node("n1", labels=BLUE, capacity={"cpu": "1"}), a_node("red"))
    cluster.add(a_pod("big", requests={"cpu": "3"}))
    cluster.schedule()
    with pytest.raises(AssertionError) as failed:
        assert_placed(cluster, "big")
    message = str(failed.value)
    assert message.startswith("default/big has no node\ndefault/big is unschedulable, rejected by ")
    assert "Event: FailedScheduling: 0/2 nodes are available: 1 Insufficient cpu" in message
    assert "  NodeResourcesFit: Insufficient cpu: n1\n" in message
    assert "  OnlyBlue: node(s) not blue: red\n" in message
    assert "Changes that would make the pod fit:\n" in message
    assert "  lacks 2 cpu on n1 (for n1)\n" in message


@only_blue
def test_assert_waits_checks_the_reason(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_pod("web"))
    with pytest.raises(AssertionError, match="default/web was not tried yet"):
        assert_waits(cluster, "web")
    cluster.schedule()
    assert_waits(cluster, "web")
    assert_waits(cluster, "web", because="1 node(s) not blue")
    with pytest.raises(AssertionError, match="waits, but not because of 'green'") as failed:
        assert_waits(cluster, "web", because="green")
    assert "0/1 nodes are available: 1 node(s) not blue." in str(failed.value)
    cluster.add(a_node("a", labels=BLUE))
    cluster.schedule()
    with pytest.raises(AssertionError, match="default/web does not wait, it is on a"):
        assert_waits(cluster, "web")


@pytest.mark.cluster(plugins=[WaitsForOthers])
def test_waiting_on_permit_counts_as_waiting(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert_waits(cluster, "web", because="waits for permission from WaitsForOthers")


@only_blue
def test_assert_rejected_checks_the_plugin(cluster: Cluster) -> None:
    cluster.add(a_node("red", capacity={"cpu": "1"}), a_node("a", labels=BLUE))
    cluster.add(a_pod("web", requests={"cpu": "2"}))
    # Two plugins reject the node; only the first one is in the event.
    assert_rejected(cluster, "web", "red")
    assert_rejected(cluster, "web", "red", by="NodeResourcesFit", because="Insufficient cpu")
    assert_rejected(cluster, "web", "red", by="OnlyBlue")
    for wrong in ({"by": "NodeName"}, {"because": "green"}, {"by": "OnlyBlue", "because": "cpu"}):
        with pytest.raises(AssertionError) as failed:
            assert_rejected(cluster, "web", "red", **wrong)
        assert str(failed.value).startswith("red is not rejected for default/web b")
        assert "Node red is rejected:" in str(failed.value)
        assert "Unschedulable: node(s) not blue" in str(failed.value)
    with pytest.raises(AssertionError, match="a is not rejected for default/web"):
        assert_rejected(cluster, "web", "red", "a")


@only_blue
def test_failed_fits_and_preferences_are_explained(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    with pytest.raises(AssertionError) as failed:
        assert_fits(cluster, "web", "a", "red")
    assert str(failed.value).startswith("default/web does not fit on red\nNode red")
    with pytest.raises(AssertionError) as failed:
        assert_prefers(cluster, "web", "a", "z", by="OnlyBlue")
    first = "default/web does not prefer a to z by OnlyBlue: a has 40, z has 100"
    assert str(failed.value).splitlines()[0] == first
    with pytest.raises(AssertionError, match="red is not scored"):
        assert_prefers(cluster, "web", "z", "red")


def test_an_unknown_node_is_reported(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    with pytest.raises(AssertionError, match="node n7 not found; there are n1"):
        assert_rejected(cluster, "web", "n7")


def test_a_pod_rejected_by_pre_filter_is_rejected_on_every_node(cluster: Cluster) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}
    cluster.add(a_node("n1"), a_pod("web", volumes=[claim]))
    cluster.schedule()
    assert_rejected(cluster, "web", "n1", because='persistentvolumeclaim "gone" not found')
    with pytest.raises(AssertionError, match="Rejected on all nodes by VolumeRestrictions: pers"):
        assert_placed(cluster, "web")


@only_blue
def test_a_decision_can_be_requested(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    found = decided(cluster, "web")
    assert (found.node, found.fitting) == ("z", ["a", "z"])
    assert found.points("a", "OnlyBlue") == 40
    assert found.points("z") - found.points("a") == 60
    assert cluster.node_of("web") == "", "the pod was not scheduled"
    cluster.schedule()
    assert cluster.node_of("web") == "z"
    assert decided(cluster, "web").node == "z", "as if it had none"
