"""The builders of pods and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.testing import a_node, a_pod


def test_a_pod_requests_nothing_by_default() -> None:
    assert a_pod("web") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }


def test_a_pod_takes_any_field_of_its_spec() -> None:
    pod = a_pod(
        "web",
        namespace="shop",
        labels={"app": "web"},
        requests={"cpu": "1"},
        node="n1",
        scheduler="mine",
        nodeSelector={"disk": "ssd"},
    )
    assert pod["metadata"] == {"name": "web", "namespace": "shop", "labels": {"app": "web"}}
    assert pod["spec"] == {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}],
        "nodeName": "n1",
        "schedulerName": "mine",
        "nodeSelector": {"disk": "ssd"},
    }


def test_a_node_has_a_large_capacity_by_default() -> None:
    node = a_node("n1", capacity={"cpu": "1"}, labels={"disk": "ssd"})
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "n1", "disk": "ssd"}
    assert node["status"]["allocatable"] == {
        "cpu": "1",
        "memory": "16Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }
    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["spec"] == {}


def test_taints_are_written_as_kubectl_takes_them() -> None:
    node = a_node("n1", taints=["team=blue:NoSchedule", "gpu:NoExecute"], unschedulable=True)
    assert node["spec"] == {
        "taints": [
            {"key": "team", "value": "blue", "effect": "NoSchedule"},
            {"key": "gpu", "effect": "NoExecute"},
        ],
        "unschedulable": True,
    }


def test_an_invalid_taint_is_rejected() -> None:
    with pytest.raises(ValueError, match="is not a taint such as team=blue:NoSchedule"):
        a_node("n1", taints=["blue"])


@pytest.mark.parametrize(
    ("builder", "unknown", "advice"),
    [
        (a_pod, {"cpu": "1"}, 'a Pod has no spec.cpu: amounts go into requests={"cpu": "1"}'),
        (a_node, {"example.com/gpu": "1"}, 'amounts go into capacity={"cpu": "4"}'),
        (a_pod, {"nodeselector": {}}, "did you mean 'nodeSelector'?"),
        (a_node, {"taint": ["a:NoSchedule"]}, "did you mean 'taints'?"),
        (a_pod, {"qqq": 1}, "a_pod() has no argument 'qqq', and a Pod has no spec.qqq"),
    ],
)
def test_an_unknown_argument_is_rejected(
    builder: Any, unknown: dict[str, Any], advice: str
) -> None:
    with pytest.raises(TypeError) as error:
        builder("x", **unknown)
    assert str(error.value).endswith(advice)
