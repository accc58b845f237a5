"""A plugin for tests of the extender, controlled by labels of nodes."""

from __future__ import annotations

import threading

from kubesched import (
    CycleState,
    Handle,
    NodeView,
    PodInfo,
    Reads,
    Status,
    unresolvable,
    unschedulable,
)


class Labelled:
    """Rejects, scores and binds by labels; an app has at most one pod per node."""

    name = "Labelled"

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        if "takes" in pod.annotations:
            threading.Event().wait(float(pod.annotations["takes"]))
        if "raise" in node.labels:
            raise RuntimeError("no such luck")
        if "keep-out" in node.labels:
            return unresolvable("keep out")
        app = pod.labels.get("app")
        if app and any(other.labels.get("app") == app for other in node.pods):
            return unschedulable("the app is here already")
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return int(node.labels.get("score", "0"))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        # The test waits for this log line, then creates the ConfigMap.
        name = pod.annotations.get("wait-for", "")
        while name:
            self.handle.log.info("Waiting", pod=pod.key)
            try:
                await self.handle.client.get_object("configmaps", pod.namespace, name)
                return
            except Exception as problem:
                if "not found" not in str(problem):
                    raise
            await self.handle.clock.sleep(0.02)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None


class DeclaresReads(Labelled):
    """Also declares that it reads pods only for pods with an app."""

    name = "DeclaresReads"

    def reads(self, pod: PodInfo) -> Reads:
        return Reads(nodes=True, usage="app" in pod.labels)
