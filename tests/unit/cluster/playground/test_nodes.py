"""Initial nodes of a playground and node templates."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.playground.initial_objects import TemplateError, node_documents, template_of


def test_nodes_are_numbered_and_spread_over_zones() -> None:
    nodes = node_documents(4)
    assert [node["metadata"]["name"] for node in nodes] == ["node-1", "node-2", "node-3", "node-4"]
    zones = [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes]
    assert zones == ["zone-a", "zone-b", "zone-c", "zone-a"]


def test_nodes_are_created_from_a_template() -> None:
    template = template_of(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu-%d-x", "uid": "u", "labels": {"gpu": "yes"}},
            "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "x"},
            "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready"}]},
        }
    )
    (node,) = node_documents(1, template)
    assert node["metadata"]["name"] == "gpu-1-x"
    assert node["metadata"]["labels"]["gpu"] == "yes"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-1-x"
    assert "uid" not in node["metadata"]
    assert node["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["status"]["capacity"]["cpu"] == "4"
    assert "conditions" not in node["status"]


def test_the_number_is_appended_to_a_plain_name() -> None:
    names = [
        document["metadata"]["name"]
        for document in node_documents(2, {"metadata": {"name": "big"}})
    ]
    assert names == ["big-1", "big-2"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "it contains no Node"),
        ([], "it contains no Node"),
        ({"kind": "Pod"}, "it contains a Pod, not a Node"),
    ],
)
def test_an_invalid_template_is_rejected(document: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        template_of(document)
