"""A node whose kubelet stops and resumes its heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.playground.in_process import Playground, playground
from tests.cluster.running_pods import a_pod, conditions_of

Document = dict[str, Any]
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture(scope="module")
def fast(request: pytest.FixtureRequest) -> Iterator[Playground]:
    """Run a cluster that detects missing heartbeats early."""
    option = request.config.getoption
    if option("--controllers") == "real":
        pytest.skip("KWOK renews leases every 10 s, so silence takes long to notice")
    with playground(nodes=2, speed=20.0, node_grace_s=3.0, server=option("--server")) as cluster:
        yield cluster


def test_silent_nodes_become_unknown_and_recover(fast: Playground) -> None:
    name = fast.nodes[0]
    path = f"/api/v1/nodes/{name}"

    def node() -> Document:
        return fast.api.get(path).must(200).json

    def taints() -> set[tuple[str, str]]:
        return {(taint["key"], taint["effect"]) for taint in node()["spec"].get("taints", [])}

    def is_ready(key: str) -> str:
        return str(conditions_of(fast.pod(key))["Ready"]["status"])

    def switch(value: str | None) -> None:
        patch = {"metadata": {"annotations": {"kubesched.dev/heartbeat": value}}}
        fast.api.patch(path, patch, MERGE_PATCH).must(200)

    fast.create(a_pod("stays", nodeName=name))
    fast.until_running("default/stays")
    switch("off")
    fast.until(lambda: conditions_of(node())["Ready"]["status"] == "Unknown", "it is Unknown")
    fast.until(
        lambda: {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")} <= taints(),
        "the node is tainted",
    )
    fast.until(lambda: is_ready("default/stays") == "False", "its pods do not count as ready")
    other = a_pod("elsewhere")
    fast.create(other)
    assert fast.until_bound("default/elsewhere") == fast.nodes[1]

    switch(None)
    fast.until(lambda: conditions_of(node())["Ready"]["status"] == "True", "it speaks again")
    fast.until(lambda: not taints(), "the taints go")
    fast.until(lambda: is_ready("default/stays") == "True", "its pods count again")
