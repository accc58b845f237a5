"""Recorded clusters: their contents and their loading."""

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


def test_every_listed_recording_exists() -> None:
    found = sorted(path.stem for path in recorded_path("web-shop").parent.glob("*.json"))
    assert found == sorted(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_have_bound_and_pending_pods(name: str) -> None:
    objects = recorded(name)
    nodes = {document["metadata"]["name"] for document in objects if document["kind"] == "Node"}
    node_names = [
        document["spec"].get("nodeName") for document in objects if document["kind"] == "Pod"
    ]
    assert len(nodes) >= 8
    assert nodes.issuperset(node_name for node_name in node_names if node_name)
    assert 4 <= len(waiting_pods(objects)) < len(node_names)


def test_each_call_returns_new_objects() -> None:
    recorded("web-shop")[0]["metadata"]["name"] = "changed"
    assert recorded("web-shop")[0]["metadata"]["name"] != "changed"


def test_pending_pods_of_a_recording_are_scheduled(recorded_cluster: Cluster) -> None:
    waiting = waiting_pods(recorded_cluster.documents())
    recorded_cluster.schedule()
    placed = [pod for pod in waiting if recorded_cluster.node_of(pod)]
    assert placed
    assert len(placed) < len(waiting)


@pytest.mark.cluster(recorded="gpu-pool")
def test_the_fixture_loads_a_recording_by_name(cluster: Cluster) -> None:
    cluster.schedule()
    assert_placed(cluster, "ml/notebook", on=["gpu-1", "gpu-2", "gpu-3", "gpu-4"])
    assert_waits(cluster, "ml/forgot-toleration", because="4 node(s) had untolerated taint(s)")
    # It may preempt a trainer, which has a negative priority.
    assert_placed(cluster, "ml/finetune", on=["gpu-1", "gpu-2", "gpu-3"])


def test_a_users_file_is_read(tmp_path: Path) -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    items = [a_node("n1"), a_pod("web"), deployment]
    (tmp_path / "mine.json").write_text(json.dumps({"kind": "List", "items": items}))
    objects = recorded(tmp_path / "mine.json")
    assert [document["kind"] for document in objects] == ["Node", "Pod"]
    assert waiting_pods(objects) == ["default/web"]


def test_an_invalid_recording_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is neither a recorded cluster"):
        recorded("nowhere")
    for text in ("{", "[]", '{"items": 1}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match="holds no recorded cluster"):
            recorded(tmp_path / "bad.json")
