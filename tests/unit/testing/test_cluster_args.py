"""Arguments of plugins in a `Cluster`, and its documents."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import msgspec
import pytest

from kubesched import unschedulable
from kubesched.testing import Cluster, ConfigError, a_node, a_pod, assert_waits


class ColorArgs(msgspec.Struct, frozen=True):
    """Arguments."""

    color: str = "blue"


class OnlyColor:
    """Rejects nodes of other colours."""

    name = "OnlyColor"

    def __init__(self, args: ColorArgs) -> None:
        self.color = args.color

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        if node.labels.get("color") == self.color:
            return None
        return unschedulable(f"node(s) not {self.color}")


@pytest.mark.cluster(plugins=[OnlyColor])
def test_without_arguments_the_defaults_apply(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert_waits(cluster, "web", because="1 node(s) not blue")


@pytest.mark.cluster(plugins=[OnlyColor], args={"OnlyColor": {"color": "red"}})
def test_arguments_are_passed_by_the_name_of_the_plugin(cluster: Cluster) -> None:
    cluster.add(a_node("n1", labels={"color": "blue"}), a_pod("web"))
    cluster.schedule()
    assert_waits(cluster, "web", because="1 node(s) not red")


def test_rejected_arguments_leave_no_open_loop() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ConfigError, match="did you mean 'color'"):
            Cluster(plugins=[OnlyColor], args={"OnlyColor": {"colour": "red"}})
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_documents_are_copies_of_the_objects(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    node, pod = cluster.documents()
    assert (node["kind"], pod["spec"]["nodeName"]) == ("Node", "n1")
    pod["spec"]["nodeName"] = "elsewhere"
    assert cluster.node_of("web") == "n1"
