"""A scheduler inside this process, on an event loop and thread of its own.

Owns its lifecycle and calls from other threads. `until` polls a condition until it holds, or fails
with its description.

    with live_scheduler(server, name="mine") as scheduler:
        ...
        scheduler.until_state("ns/pod", "bound")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.cluster.launch.loop_thread import WAIT_S, LoopThread
from kubesched.cluster.launch.server import SCHEDULER, ApiServer, TokenUser
from kubesched.config.encode import effective
from kubesched.config.load import load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.runtime.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.metrics.pod_resources import resource_metrics
from kubesched.metrics.process import SliMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.ops.server import OpsServer
from kubesched.ops.serving import ServingSettings
from kubesched.ops.sources import OpsSources, StatuszInfo
from kubesched.profile.plugin_loading import ExtraPlugins, registry_with
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings, all_pods

ResultT = TypeVar("ResultT")
_CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
_POLL_S: Final = 0.02


@dataclass(slots=True)
class RunningScheduler:
    """A running scheduler and its ops server."""

    live: LiveScheduler
    thread: LoopThread
    url: str
    """Address of its ops server."""

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function on the scheduler's loop; return its result."""
        return self.thread.call(function)

    def pod_report(self, key: str) -> dict[str, Any] | None:
        """Return the report of `namespace/name`; None if the pod is unknown."""
        report = self.call(lambda: self.live.explain(key))
        return None if report is None else dict(json.loads(report))

    def state(self, key: str) -> str:
        """Return the state of a pod; empty if it is unknown."""
        pod_report = self.pod_report(key)
        return "" if pod_report is None else str(pod_report["state"])

    def until(
        self, predicate: Callable[[], bool], description: str, timeout_s: float = WAIT_S
    ) -> None:
        """Wait for a condition; fail with its description on a timeout."""
        until(predicate, description, timeout_s)

    def until_state(self, key: str, state: str, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until a pod is in a state; return its report."""
        self.until(lambda: self.state(key) == state, f"{key} is {state}", timeout_s)
        pod_report = self.pod_report(key)
        assert pod_report is not None
        return pod_report


@contextmanager
def live_scheduler(  # What tests vary.
    server: ApiServer,
    *,
    name: str = "default-scheduler",
    plugins: ExtraPlugins = (),
    config: Mapping[str, Any] | None = None,
    schedules: bool = True,
    user: TokenUser = SCHEDULER,
) -> Iterator[RunningScheduler]:
    """Run a scheduler until the end of the block.

    Args:
        server: The API server.
        name: Name of its profile; pods with another schedulerName are ignored.
        plugins: Classes, factories, or a mapping by name; enabled at every point they extend,
            unless `config` has profiles.
        config: Additional fields of the configuration.
        schedules: Whether it schedules from the start; else it only watches.
        user: The user it authenticates as.
    """
    clock, log = SystemClock(), NullLog()
    with LoopThread("live-scheduler") as thread:
        process = _Process(clock, log)
        try:
            settings = _settings(name, plugins, config)
            thread.run(process.start(settings, server, user, schedules=schedules))
            assert process.live is not None
            assert process.ops_server is not None
            yield RunningScheduler(process.live, thread, process.ops_server.url)
        finally:
            thread.run(process.stop())


def _settings(name: str, plugins: ExtraPlugins, fields: Mapping[str, Any] | None) -> LiveSettings:
    registry = registry_with(plugins)
    return LiveSettings(_config(name, registry, fields), "playground", out_of_tree=registry)


def _config(
    name: str, registry: Registry, fields: Mapping[str, Any] | None
) -> KubeSchedulerConfiguration:
    enabled = [{"name": plugin} for plugin in registry]
    profile = {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}}}
    return load_config_object({**_CONFIG, "profiles": [profile], **(fields or {})})


@dataclass(slots=True)
class _Process:
    """What `kubesched run` has around its scheduler, as far as a thread needs it."""

    clock: SystemClock
    log: Log
    client: Client | None = None
    live: LiveScheduler | None = None
    ops_server: OpsServer | None = None

    async def start(
        self, settings: LiveSettings, server: ApiServer, user: TokenUser, *, schedules: bool
    ) -> None:
        access = load_access(kubeconfig=str(server.kubeconfigs[user.name]), environ={})
        self.client = Client(
            access, qps=-1, burst=0, user_agent="kubesched", clock=self.clock, log=self.log
        )
        metrics = SchedulerMetrics()
        live = LiveScheduler(settings, Environment(self.client, self.clock, self.log, metrics))
        self.live = live
        live.start_watching()
        await live.wait_until_synced()
        if schedules:
            live.start_scheduling()
        sources = OpsSources(
            log=self.log,
            clock=self.clock,
            metrics=metrics,
            slis=SliMetrics(),
            configz=lambda: effective(live.built.config),
            statusz=StatuszInfo(self.clock.now_s()),
            resource_metrics=lambda: resource_metrics(all_pods(live)),
            explain=live.explain,
            authentication_client=self.client,
            authorization_client=self.client,
        )
        self.ops_server = OpsServer(ServingSettings(bind_address="127.0.0.1", port=0), sources)
        await self.ops_server.start()

    async def stop(self) -> None:
        if self.ops_server is not None:
            await self.ops_server.stop()
        if self.live is not None:
            await self.live.stop()
        if self.client is not None:
            await self.client.close()


def until(predicate: Callable[[], object], description: str, timeout_s: float = 30.0) -> None:
    """Wait for a condition; AssertionError with its description on a timeout."""
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    pause = threading.Event()
    while not predicate():
        assert clock.monotonic_s() < deadline_s, f"timed out waiting for: {description}"
        pause.wait(_POLL_S)
