"""Copies of a cluster: read-only source, snapshot file, restored elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.playground.in_process import Playground, ServerKind
from kubesched.cluster.playground.in_process import playground as a_playground
from kubesched.testing import a_node, a_pod
from tests.playground.commands import Command
from tests.unit.cli.running import kubesched

APPS = "/apis/apps/v1/namespaces/shop"


def a_set(kind: str, name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


@pytest.fixture(scope="module", params=["own", pytest.param("real", marks=pytest.mark.programs)])
def source(request: pytest.FixtureRequest) -> Iterator[Playground]:
    """Return a cluster with objects of every kind that scheduling reads."""
    server: ServerKind = "embedded" if request.param == "own" else "real"
    with a_playground(nodes=2, server=server, controllers=request.param) as cluster:
        cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
            a_node(
                "cordoned",
                labels={"disk": "ssd"},
                taints=["team=blue:NoSchedule"],
                annotations={"kubesched.dev/heartbeat": "on"},
            ),
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast"},
                "provisioner": "kubernetes.io/host-path",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        account = "/api/v1/namespaces/shop/serviceaccounts/default"
        cluster.until(lambda: cluster.api.get(account).code == 200, "shop has its account")
        cluster.api.patch(
            "/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}}, MERGE_PATCH
        ).must(200)
        cluster.create(
            a_set("Deployment", "web", 3),
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "disk", "namespace": "shop"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            a_pod(
                "db",
                namespace="shop",
                priorityClassName="urgent",
                volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "disk"}}],
            ),
            a_pod("stuck", namespace="shop", nodeSelector={"disk": "ssd"}),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            },
        )
        cluster.create(
            a_set("StatefulSet", "queue", 2, serviceName="queue"),
        )
        for key in ("db", "queue-0", "queue-1"):
            cluster.until_running(f"shop/{key}")
        cluster.until(
            lambda: (
                cluster.api.get(f"{APPS}/deployments/web").json["status"].get("availableReplicas")
                == 3
            ),
            "web is available",
        )
        yield cluster


def pods_of(items: list[Any]) -> dict[str, str]:
    """Return the node of every pod of the shop, by name."""
    return {
        one["metadata"]["name"]: one["spec"].get("nodeName", "")
        for one in items
        if one["metadata"]["namespace"] == "shop"
    }


@pytest.mark.timeout(120)
def test_a_copy_equals_the_cluster_and_runs(source: Playground, tmp_path: Path) -> None:
    before = source.api.get("/api/v1/pods").must(200).json
    snapshot = tmp_path / "shop.json"
    flags = ("--from-cluster", f"--snapshot={snapshot}")
    environment = {"KUBECONFIG": str(source.kubeconfig)}
    with Command(tmp_path, flags, environment=environment) as command:
        command.until_ready()
        assert "copied       " in command.output
        assert "not copied" not in command.output
        with command.api() as api:
            command.until(
                lambda: all(
                    one["status"]["phase"] == "Running"
                    for one in api.get("/api/v1/namespaces/shop/pods").json["items"]
                    if one["spec"].get("nodeName")
                ),
                "the copied pods run",
            )
            command.until(
                lambda: "shop/stuck pending" in command.output, "the waiting pod is tried"
            )
            copied = api.get("/api/v1/pods").json["items"]
            claim = api.get("/api/v1/namespaces/shop/persistentvolumeclaims/disk").json
            volume = api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}").json
            node = api.get("/api/v1/nodes/cordoned").json
            owner = api.get(f"{APPS}/replicasets").json["items"][0]
            # The controllers of the copy work on the copied objects.
            api.patch(f"{APPS}/deployments/web", {"spec": {"replicas": 4}}, MERGE_PATCH).must(200)
            command.until(
                lambda: len(pods_of(api.get("/api/v1/pods").json["items"])) == 8,
                "one more pod is made",
            )
            moved = pods_of(api.get("/api/v1/pods").json["items"])
    assert pods_of(copied) == pods_of(before["items"])
    assert pods_of(copied).items() <= moved.items()
    assert claim["status"]["phase"] == "Bound"
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert node["spec"]["unschedulable"] is True
    assert {"key": "team", "value": "blue", "effect": "NoSchedule"} in node["spec"]["taints"]
    web = [one for one in copied if one["metadata"]["name"].startswith("web-")]
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in web} == {
        owner["metadata"]["uid"]
    }
    db = next(one for one in copied if one["metadata"]["name"] == "db")
    assert db["spec"]["priority"] == 1000
    after = source.api.get("/api/v1/pods").must(200).json
    assert after["items"] == before["items"], "the source was written to"
    check_restored_copy(tmp_path, snapshot, pods_of(copied))


def check_restored_copy(tmp_path: Path, snapshot: Path, expected: dict[str, str]) -> None:
    """Start from the file while the source is unreachable."""
    document = json.loads(snapshot.read_text())
    assert document["kind"] == "List"
    assert not any("managedFields" in one["metadata"] for one in document["items"])
    explained = kubesched("explain", "-f", str(snapshot), "shop/stuck")
    assert explained.status == 0, explained.err
    environment = {"KUBECONFIG": str(tmp_path / "nowhere")}
    with Command(tmp_path, (f"--snapshot={snapshot}",), environment=environment) as command:
        command.until_ready()
        with command.api() as api:
            assert pods_of(api.get("/api/v1/pods").must(200).json["items"]) == expected


def test_an_invalid_snapshot_is_rejected(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.json"
    faulty.write_text('{"kind": "Pod"}')
    with Command(tmp_path, (f"--snapshot={faulty}",)) as command:
        assert command.wait() == 1
        assert "is not a snapshot: it has no list of items" in command.output


def test_an_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(tmp_path / "missing"), "HOME": str(tmp_path)}
    with Command(tmp_path, ("--from-cluster",), environment=environment) as command:
        assert command.wait() == 1
        assert command.output.startswith("kubesched: ")
        assert "Traceback" not in command.output
