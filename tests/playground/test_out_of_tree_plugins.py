"""Out-of-tree plugins on a running cluster: typed arguments, by name, in a program."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kubesched
from kubesched import CycleState, NodeView, PodInfo, Status, unschedulable
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.playground.in_process import Playground
from kubesched.testing import a_pod


class OnlyNodeArgs(msgspec.Struct, frozen=True):
    node_name: str
    reasons_given: int = 1

    def validate(self) -> list[str]:
        return [] if self.reasons_given else ["reasonsGiven: must not be 0"]


class OnlyNode:
    """Lets pods onto one node only, which the configuration names."""

    name = "OnlyNode"

    def __init__(self, args: OnlyNodeArgs) -> None:
        self.args = args

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        if node.name == self.args.node_name:
            return None
        return unschedulable(*["not this one"] * self.args.reasons_given)


def config(name: str = "only-node", **args: Any) -> dict[str, Any]:
    return {
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": name}]}},
                "pluginConfig": [{"name": name, "args": args}],
            }
        ]
    }


@pytest.mark.playground(
    nodes=3, plugins={"only-node": OnlyNode}, config=config(nodeName="node-2", kind="OnlyNodeArgs")
)
def test_a_plugin_with_typed_arguments_decides(playground: Playground) -> None:
    playground.create(*(a_pod(f"web-{number}") for number in range(3)))
    assert {playground.until_bound(f"web-{number}") for number in range(3)} == {"node-2"}


@pytest.mark.playground(nodes=2, plugins=[("only-node", OnlyNode)], config=config(nodeName="none"))
def test_its_reason_is_reported(playground: Playground) -> None:
    playground.create(a_pod("web"))
    playground.until(lambda: playground.notes("web", "FailedScheduling"), "the pod is rejected")
    note = playground.notes("web", "FailedScheduling")[0]
    assert note.startswith("0/2 nodes are available: 2 not this one.")


# -- kubesched.Scheduler --------------------------------------------------------------------------


@pytest.mark.playground(nodes=3, scheduler=False)
def test_a_program_runs_the_scheduling_loop(playground: Playground) -> None:
    scheduler = kubesched.Scheduler(
        plugins={"only-node": OnlyNode},
        config={
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **config(nodeName="node-3"),
        },
        kubeconfig=str(playground.kubeconfig),
    )
    with LoopThread("program") as thread:
        thread.run(scheduler.start())
        try:
            playground.create(a_pod("web"))
            assert playground.until_bound("web") == "node-3"
        finally:
            thread.run(scheduler.stop())


@pytest.mark.playground(nodes=2, scheduler=False)
def test_a_program_runs_until_it_is_stopped(playground: Playground, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_bytes(
        msgspec.yaml.encode(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(playground.kubeconfig)},
                **config("OnlyNode", nodeName="node-1"),
            }
        )
    )
    scheduler = kubesched.Scheduler(plugins=[OnlyNode], config=file)
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        playground.create(a_pod("web"))
        assert playground.until_bound("web") == "node-1"
    finally:
        scheduler.end()
        thread.join(20)
    assert not thread.is_alive()
