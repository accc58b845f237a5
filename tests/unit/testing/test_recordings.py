"""Recorded clusters: what is in them, and how tests get at them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubesched.testing import (
    RECORDED,
    Cluster,
    a_node,
    a_pod,
    assert_placed,
    assert_waits,
    recorded,
    recorded_path,
    waiting_pods,
)


def test_those_that_are_named_are_there() -> None:
    found = sorted(path.stem for path in recorded_path("web-shop").parent.glob("*.json"))
    assert found == sorted(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_pods_run_where_kubernetes_put_them_and_some_wait(name: str) -> None:
    objects = recorded(name)
    nodes = {one["metadata"]["name"] for one in objects if one["kind"] == "Node"}
    homes = [one["spec"].get("nodeName") for one in objects if one["kind"] == "Pod"]
    assert len(nodes) >= 8
    assert nodes.issuperset(home for home in homes if home)
    assert 4 <= len(waiting_pods(objects)) < len(homes)


def test_each_call_returns_objects_of_its_own() -> None:
    recorded("web-shop")[0]["metadata"]["name"] = "changed"
    assert recorded("web-shop")[0]["metadata"]["name"] != "changed"


def test_a_scheduler_places_what_can_be_placed(recorded_cluster: Cluster) -> None:
    waiting = waiting_pods(recorded_cluster.documents())
    recorded_cluster.schedule()
    placed = [pod for pod in waiting if recorded_cluster.node_of(pod)]
    assert placed
    assert len(placed) < len(waiting)


@pytest.mark.cluster(recorded="gpu-pool")
def test_the_fixture_brings_one_by_name(cluster: Cluster) -> None:
    cluster.schedule()
    assert_placed(cluster, "ml/notebook", on=["gpu-1", "gpu-2", "gpu-3", "gpu-4"])
    assert_waits(cluster, "ml/forgot-toleration", because="4 node(s) had untolerated taint(s)")
    # It may take the place of a trainer, which has a priority below zero.
    assert_placed(cluster, "ml/finetune", on=["gpu-1", "gpu-2", "gpu-3"])


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    items = [a_node("n1"), a_pod("web"), deployment]
    (tmp_path / "mine.json").write_text(json.dumps({"kind": "List", "items": items}))
    objects = recorded(tmp_path / "mine.json")
    assert [one["kind"] for one in objects] == ["Node", "Pod"]
    assert waiting_pods(objects) == ["default/web"]


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is neither a recorded cluster"):
        recorded("nowhere")
    for text in ("{", "[]", '{"items": 1}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match="holds no recorded cluster"):
            recorded(tmp_path / "bad.json")
