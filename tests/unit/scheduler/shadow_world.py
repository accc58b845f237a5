"""A scheduler that looks on, and a cluster that a test shows it change by change.

Owns the seam: a clock that moves when it is told to, and a network that notes what would be sent.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.app.live import LiveSettings, Outside
from kubesched.app.shadow import ShadowReport, ShadowScheduler
from kubesched.client.auth import ClusterAccess
from kubesched.client.change import Change
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.resources import NODES, PODS
from kubesched.client.transport import Answer, Outgoing
from kubesched.config.load import default_config, load_config_object
from kubesched.kit.log import make_log
from kubesched.model.metrics import SchedulerMetrics
from kubesched.scheduler.shadow import HOLD_S
from kubesched.scheduler.shadow_verdict import Verdict
from tests.unit.builders import Wire, a_wire_node, a_wire_pod


class Clock:
    """Moves a little with every look, so that nothing happens at one time, and when it is told."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def now_s(self) -> float:
        return self.monotonic_s()

    def monotonic_s(self) -> float:
        self.at_s += 1e-6
        return self.at_s

    async def sleep(self, delay_s: float) -> None:
        self.at_s += delay_s


class NoNetwork:
    """Notes what is sent, and has no answer."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, request: Outgoing) -> Answer:
        self.sent.append(f"{request.method} {request.target}")
        raise AssertionError("nothing is to be sent")

    async def close(self) -> None:
        return None


class World:
    """A cluster, and what is found out about the scheduler that places its pods."""

    def __init__(
        self,
        nodes: Mapping[str, str],
        *,
        config: Wire | None = None,
        file: io.StringIO | None = None,
    ) -> None:
        """Show nodes of such names with so much cpu."""
        self.clock = Clock()
        self.network = NoNetwork()
        self.metrics = SchedulerMetrics()
        self.logged = io.StringIO()
        self.printed = io.StringIO()
        log = make_log(self.logged, clock=self.clock)
        client = ReadOnlyClient(
            ClusterAccess("https://nowhere"),
            user_agent="test",
            clock=self.clock,
            log=log,
            transport=self.network,
        )
        self.report = ShadowReport(
            self.metrics.measures, clock=self.clock, log=log, out=self.printed, file=file
        )
        self.verdicts: list[Verdict] = []
        settings = LiveSettings(
            config=default_config() if config is None else load_config_object(config), hostname="h"
        )
        self.scheduler = ShadowScheduler(
            settings, Outside(client, self.clock, log, self.metrics), self.report
        )
        self.shadow = self.scheduler.loop.shadow
        told = self.shadow.told

        def tell(verdict: Verdict) -> None:
            self.verdicts.append(verdict)
            told(verdict)

        self.shadow.told = tell
        self._versions = 0
        self._shown: dict[str, str] = {}
        """By key, the uid of each pod that was shown."""
        for name, cpu in nodes.items():
            self._put(Change(NODES, "ADDED", name, f"uid-{name}", a_node(name, cpu)))
        self.step(compares=False)

    def _put(self, change: Change) -> None:
        self.shadow.put(change)

    def show(self, name: str, kind: str = "", **parts: Any) -> None:
        """Show a pod as it is now."""
        self._versions += 1
        metadata = {"resourceVersion": str(self._versions), **parts.pop("metadata", {})}
        pod = a_wire_pod(name, metadata=metadata, **parts)
        key, uid = f"default/{name}", pod.metadata.uid
        kind = kind or ("MODIFIED" if key in self._shown else "ADDED")
        self._shown[key] = uid
        self._put(Change(PODS, kind, key, uid, pod))

    def wait(self, name: str, cpu: str = "1", **parts: Any) -> None:
        """Show a pod that waits."""
        self.show(name, requests={"cpu": cpu}, **parts)

    def bind(self, name: str, node: str, cpu: str = "1", **parts: Any) -> None:
        """Show that the other scheduler has bound a pod."""
        self.show(name, requests={"cpu": cpu}, nodeName=node, **parts)

    def refuse(self, name: str, message: str, cpu: str = "1", **parts: Any) -> None:
        """Show that the other scheduler has refused a pod."""
        self.show(name, requests={"cpu": cpu}, status=refused(message), **parts)

    def step(self, *, compares: bool = True) -> None:
        """Do all that can be done now."""
        while self.shadow.step(compares=compares):
            pass

    def later(self) -> None:
        """Do all that can be done when nothing is waited for any more."""
        self.clock.at_s += HOLD_S
        self.step()

    @property
    def results(self) -> list[tuple[str, str]]:
        """Return name and result of every comparison."""
        return [(one.pod.removeprefix("default/"), one.result) for one in self.verdicts]

    @property
    def lines(self) -> list[str]:
        """Return what was logged."""
        return self.logged.getvalue().splitlines()


def refused(message: str, reason: str = "Unschedulable") -> Wire:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [condition]}


def a_node(name: str, cpu: str) -> Any:
    return a_wire_node(name, allocatable={"cpu": cpu, "memory": "64Gi", "pods": "110"})


def json_lines(file: io.StringIO) -> Sequence[Wire]:
    return [json.loads(line) for line in file.getvalue().splitlines()]
