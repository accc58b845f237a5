"""Assertions pass on what is so, and tell why when it is not."""

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
    assert_refused,
    assert_waits,
    decided,
)


class OnlyBlue:
    """Lets pods on blue nodes only, and prefers those whose name comes late."""

    name = "OnlyBlue"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None if node.labels.get("color") == "blue" else unschedulable("node(s) not blue")

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 100 if node.name == "z" else 40


class WaitsForOthers:
    """Has every pod wait for permission."""

    name = "WaitsForOthers"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return wait("not yet"), 60.0


BLUE = {"color": "blue"}
only_blue = pytest.mark.cluster(plugins=[OnlyBlue])


@only_blue
def test_what_is_so_passes(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    cluster.schedule()
    assert_placed(cluster, "web")
    assert_placed(cluster, "default/web", on="z")
    assert_placed(cluster, "web", on=["a", "z"])
    assert_refused(cluster, "web", "red", by="OnlyBlue", because="not blue")
    assert_fits(cluster, "web", "a", "z")
    assert_prefers(cluster, "web", "z", "a")
    assert_prefers(cluster, "web", "z", "a", by="OnlyBlue")


@only_blue
def test_a_pod_on_another_node_is_explained(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    cluster.schedule()
    with pytest.raises(AssertionError) as failed:
        assert_placed(cluster, "web", on="a")
    told = str(failed.value).splitlines()
    assert told[0] == "default/web is on z, not on a"
    assert "default/web goes to z, 2 of 3 nodes fit." in told
    assert ["node", "total", "OnlyBlue"] in [line.split() for line in told]
    assert told.index("Fitting nodes with weighted scores, best first:") < told.index(
        "  OnlyBlue: node(s) not blue: red"
    )


@only_blue
def test_a_pod_that_waits_is_explained_with_what_would_help(cluster: Cluster) -> None:
    cluster.add(a_node("n1", labels=BLUE, capacity={"cpu": "1"}), a_node("red"))
    cluster.add(a_pod("big", requests={"cpu": "3"}))
    cluster.schedule()
    with pytest.raises(AssertionError) as failed:
        assert_placed(cluster, "big")
    told = str(failed.value)
    assert told.startswith("default/big has no node\ndefault/big is unschedulable, refused by ")
    assert "Event: FailedScheduling: 0/2 nodes are available: 1 Insufficient cpu" in told
    assert "  NodeResourcesFit: Insufficient cpu: n1\n" in told
    assert "  OnlyBlue: node(s) not blue: red\n" in told
    assert "What would help:\n" in told
    assert "  lacks 2 cpu on n1 (opens n1)\n" in told


@only_blue
def test_waiting_is_for_a_reason(cluster: Cluster) -> None:
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
def test_waiting_for_permission_is_waiting(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert_waits(cluster, "web", because="waits for the permission of WaitsForOthers")


@only_blue
def test_a_refusal_is_by_the_one_that_is_named(cluster: Cluster) -> None:
    cluster.add(a_node("red", capacity={"cpu": "1"}), a_node("a", labels=BLUE))
    cluster.add(a_pod("web", requests={"cpu": "2"}))
    # Two refuse the node; the one that comes first hides the other from the event.
    assert_refused(cluster, "web", "red")
    assert_refused(cluster, "web", "red", by="NodeResourcesFit", because="Insufficient cpu")
    assert_refused(cluster, "web", "red", by="OnlyBlue")
    for wrong in ({"by": "NodeName"}, {"because": "green"}, {"by": "OnlyBlue", "because": "cpu"}):
        with pytest.raises(AssertionError) as failed:
            assert_refused(cluster, "web", "red", **wrong)
        assert str(failed.value).startswith("red is not refused to default/web b")
        assert "What plugins say of red, which is refused:" in str(failed.value)
        assert "Unschedulable: node(s) not blue" in str(failed.value)
    with pytest.raises(AssertionError, match="a is not refused to default/web"):
        assert_refused(cluster, "web", "red", "a")


@only_blue
def test_what_does_not_fit_or_is_not_preferred_is_explained(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    with pytest.raises(AssertionError) as failed:
        assert_fits(cluster, "web", "a", "red")
    assert str(failed.value).startswith("default/web does not fit on red\nWhat plugins say of red")
    with pytest.raises(AssertionError) as failed:
        assert_prefers(cluster, "web", "a", "z", by="OnlyBlue")
    first = "default/web does not prefer a to z by OnlyBlue: a has 40, z has 100"
    assert str(failed.value).splitlines()[0] == first
    with pytest.raises(AssertionError, match="red is not scored"):
        assert_prefers(cluster, "web", "z", "red")


def test_a_node_that_is_not_there_is_said(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    with pytest.raises(AssertionError, match="there is no node n7; there are n1"):
        assert_refused(cluster, "web", "n7")


def test_a_pod_refused_as_a_whole_is_refused_by_every_node(cluster: Cluster) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}
    cluster.add(a_node("n1"), a_pod("web", volumes=[claim]))
    cluster.schedule()
    assert_refused(cluster, "web", "n1", because='persistentvolumeclaim "gone" not found')
    with pytest.raises(AssertionError, match="Refused as a whole by VolumeRestrictions: pers"):
        assert_placed(cluster, "web")


@only_blue
def test_a_decision_can_be_asked_about(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_node("a", labels=BLUE), a_node("z", labels=BLUE), a_pod("web"))
    found = decided(cluster, "web")
    assert (found.node, found.fitting) == ("z", ["a", "z"])
    assert found.points("a", "OnlyBlue") == 40
    assert found.points("z") - found.points("a") == 60
    assert cluster.node_of("web") == "", "it was only asked"
    cluster.schedule()
    assert cluster.node_of("web") == "z"
    assert decided(cluster, "web").node == "z", "as if it had none"
