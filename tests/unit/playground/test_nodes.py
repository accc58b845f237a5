"""The nodes that a playground begins with, and those of a template."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.playground.nodes import TemplateError, node_documents, template_of


def test_nodes_are_numbered_and_spread_over_zones() -> None:
    nodes = node_documents(4)
    assert [one["metadata"]["name"] for one in nodes] == ["node-1", "node-2", "node-3", "node-4"]
    zones = [one["metadata"]["labels"]["topology.kubernetes.io/zone"] for one in nodes]
    assert zones == ["zone-a", "zone-b", "zone-c", "zone-a"]


def test_a_template_says_what_nodes_look_like() -> None:
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


def test_a_name_without_a_number_gets_one() -> None:
    names = [one["metadata"]["name"] for one in node_documents(2, {"metadata": {"name": "big"}})]
    assert names == ["big-1", "big-2"]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (None, "it holds no Node"),
        ([], "it holds no Node"),
        ({"kind": "Pod"}, "it holds a Pod, not a Node"),
    ],
)
def test_what_is_no_node_is_no_template(document: Any, why: str) -> None:
    with pytest.raises(TemplateError, match=why):
        template_of(document)
