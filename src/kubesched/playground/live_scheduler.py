"""A live scheduler inside this process, on a loop and thread of its own.

Owns its start and end, and the way of asking it anything from another thread. Nothing is waited
for by chance: `until` looks at a condition until it holds, or fails with what it waited for.

    with live_scheduler(server, name="mine") as scheduler:
        ...
        scheduler.until_state("ns/pod", "bound")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kubesched.app.live import LiveScheduler, LiveSettings, Outside, all_pods
from kubesched.app.outside_plugins import GivenPlugins, registry_given
from kubesched.client.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.config.encode import effective
from kubesched.config.load import load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_resource_metrics import resource_metrics
from kubesched.model.process_metrics import SliMetrics
from kubesched.playground.waiting import until
from kubesched.testing.loop_thread import WAIT_S, LoopThread
from kubesched.testing.server import SCHEDULER, ApiServer, TokenUser
from kubesched.web.ops_server import OpsServer
from kubesched.web.parts import OpsParts, StatuszInfo
from kubesched.web.settings import ServingSettings

ResultT = TypeVar("ResultT")
_CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


@dataclass(slots=True)
class RunningScheduler:
    """A scheduler that runs, and its pages."""

    live: LiveScheduler
    thread: LoopThread
    url: str
    """Where its pages are."""

    def call(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something between two steps of the scheduler; return what it comes to."""
        return self.thread.call(act)

    def story(self, key: str) -> dict[str, Any] | None:
        """Return what it says of `namespace/name`; None if it does not know the pod."""
        told = self.call(lambda: self.live.explain(key))
        return None if told is None else dict(json.loads(told))

    def state(self, key: str) -> str:
        """Return where `namespace/name` is; empty if it is not known."""
        story = self.story(key)
        return "" if story is None else str(story["state"])

    def until(self, is_so: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Wait for something; fail with what it was if it does not come."""
        until(is_so, what, timeout_s)

    def until_state(self, key: str, state: str, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until `namespace/name` is somewhere; return its story."""
        self.until(lambda: self.state(key) == state, f"{key} is {state}", timeout_s)
        story = self.story(key)
        assert story is not None
        return story


@contextmanager
def live_scheduler(  # What tests vary.
    server: ApiServer,
    *,
    name: str = "default-scheduler",
    plugins: GivenPlugins = (),
    config: Mapping[str, Any] | None = None,
    schedules: bool = True,
    user: TokenUser = SCHEDULER,
) -> Iterator[RunningScheduler]:
    """Run a scheduler until the end of the block.

    Args:
        server: Whose pods it schedules.
        name: Of its profile; pods that ask for another are left alone.
        plugins: Classes, factories, or a mapping by name; enabled at every point they extend,
            unless `config` has profiles.
        config: More fields of the configuration.
        schedules: Whether it places pods from the start; else it only watches.
        user: Who it is.
    """
    clock, log = SystemClock(), NullLog()
    with LoopThread("live-scheduler") as thread:
        process = _Process(clock, log)
        try:
            settings = _settings(name, plugins, config)
            thread.run(process.start(settings, server, user, schedules=schedules))
            assert process.live is not None
            assert process.pages is not None
            yield RunningScheduler(process.live, thread, process.pages.url)
        finally:
            thread.run(process.stop())


def _settings(name: str, plugins: GivenPlugins, fields: Mapping[str, Any] | None) -> LiveSettings:
    registry = registry_given(plugins)
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
    pages: OpsServer | None = None

    async def start(
        self, settings: LiveSettings, server: ApiServer, user: TokenUser, *, schedules: bool
    ) -> None:
        access = load_access(kubeconfig=str(server.kubeconfigs[user.name]), environ={})
        self.client = Client(
            access, qps=-1, burst=0, user_agent="kubesched", clock=self.clock, log=self.log
        )
        metrics = SchedulerMetrics()
        live = LiveScheduler(settings, Outside(self.client, self.clock, self.log, metrics))
        self.live = live
        live.start_watching()
        await live.wait_until_synced()
        if schedules:
            live.start_scheduling()
        parts = OpsParts(
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
        self.pages = OpsServer(ServingSettings(bind_address="127.0.0.1", port=0), parts)
        await self.pages.start()

    async def stop(self) -> None:
        if self.pages is not None:
            await self.pages.stop()
        if self.live is not None:
            await self.live.stop()
        if self.client is not None:
            await self.client.close()
