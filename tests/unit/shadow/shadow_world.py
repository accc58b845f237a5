"""A shadow scheduler, and a cluster whose changes a test sends.

Owns the seams: a virtual clock, and a transport that records requests.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.client.auth.credentials import ClusterAccess
from kubesched.client.http.transport import Outgoing, Response
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.resources import NODES, PODS
from kubesched.client.watch.changes import Change
from kubesched.config.load import default_config, load_config_object
from kubesched.kit.log import make_log
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.run.live_scheduler import Environment, LiveSettings
from kubesched.shadow.run import ShadowReport, ShadowScheduler
from kubesched.shadow.scheduler import HOLD_S
from kubesched.shadow.verdict import ComparedDecision
from tests.unit.builders import Wire, a_wire_node, a_wire_pod


class Clock:
    """A virtual clock that advances slightly with every reading, so that times differ."""

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
    """Records requests, and fails."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, request: Outgoing) -> Response:
        self.sent.append(f"{request.method} {request.target}")
        raise AssertionError("nothing is to be sent")

    async def close(self) -> None:
        return None


class World:
    """A cluster, and the comparison with the scheduler that places its pods."""

    def __init__(
        self,
        nodes: Mapping[str, str],
        *,
        config: Wire | None = None,
        file: io.StringIO | None = None,
    ) -> None:
        """Add nodes by name and cpu."""
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
        self.verdicts: list[ComparedDecision] = []
        settings = LiveSettings(
            config=default_config() if config is None else load_config_object(config), hostname="h"
        )
        self.scheduler = ShadowScheduler(
            settings, Environment(client, self.clock, log, self.metrics), self.report
        )
        self.shadow = self.scheduler.loop.shadow
        report = self.shadow.report

        def record(verdict: ComparedDecision) -> None:
            self.verdicts.append(verdict)
            report(verdict)

        self.shadow.report = record
        self._versions = 0
        self._shown: dict[str, str] = {}
        """The uid of each pod by key."""
        for name, cpu in nodes.items():
            self._put(Change(NODES, "ADDED", name, f"uid-{name}", a_node(name, cpu)))
        self.step(compares=False)

    def _put(self, change: Change) -> None:
        self.shadow.put(change)

    def show(self, name: str, kind: str = "", **parts: Any) -> None:
        """Send the current state of a pod."""
        self._versions += 1
        metadata = {"resourceVersion": str(self._versions), **parts.pop("metadata", {})}
        pod = a_wire_pod(name, metadata=metadata, **parts)
        key, uid = f"default/{name}", pod.metadata.uid
        kind = kind or ("MODIFIED" if key in self._shown else "ADDED")
        self._shown[key] = uid
        self._put(Change(PODS, kind, key, uid, pod))

    def wait(self, name: str, cpu: str = "1", **parts: Any) -> None:
        """Send a pending pod."""
        self.show(name, requests={"cpu": cpu}, **parts)

    def bind(self, name: str, node: str, cpu: str = "1", **parts: Any) -> None:
        """Send the binding of a pod by the other scheduler."""
        self.show(name, requests={"cpu": cpu}, nodeName=node, **parts)

    def reject(self, name: str, message: str, cpu: str = "1", **parts: Any) -> None:
        """Send the rejection of a pod by the other scheduler."""
        self.show(name, requests={"cpu": cpu}, status=rejected(message), **parts)

    def step(self, *, compares: bool = True) -> None:
        """Process all changes that do not have to wait."""
        while self.shadow.step(compares=compares):
            pass

    def later(self) -> None:
        """Process all changes after the hold time."""
        self.clock.at_s += HOLD_S
        self.step()

    @property
    def results(self) -> list[tuple[str, str]]:
        """Return name and result of every comparison."""
        return [(verdict.pod.removeprefix("default/"), verdict.result) for verdict in self.verdicts]

    @property
    def lines(self) -> list[str]:
        """Return the log lines."""
        return self.logged.getvalue().splitlines()


def rejected(message: str, reason: str = "Unschedulable") -> Wire:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [condition]}


def a_node(name: str, cpu: str) -> Any:
    return a_wire_node(name, allocatable={"cpu": cpu, "memory": "64Gi", "pods": "110"})


def json_lines(file: io.StringIO) -> Sequence[Wire]:
    return [json.loads(line) for line in file.getvalue().splitlines()]
