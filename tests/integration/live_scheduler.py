"""A live scheduler inside the test process, on a loop and thread of its own, against a server.

Owns its start and end, and the way of asking it anything from a test. Nothing is waited for by
chance: `until` looks at a condition until it holds, or fails with what it waited for.

    with live_scheduler(api_server, name="mine") as scheduler:
        ...
        scheduler.until(lambda: scheduler.state("ns/pod") == "bound", "the pod is bound")
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from kubesched.app.live import LiveScheduler, LiveSettings, Outside
from kubesched.client.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.config.load import load_config_object
from kubesched.framework.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.model.metrics import SchedulerMetrics
from kubesched.testing.server import SCHEDULER, ApiServer
from kubesched.web.ops_server import OpsServer
from kubesched.web.parts import OpsParts
from kubesched.web.settings import ServingSettings
from tests.integration.ops_world import the_parts

ResultT = TypeVar("ResultT")
WAIT_S = 30.0
_LOOK_S = 0.02


@dataclass(slots=True)
class RunningScheduler:
    """A scheduler that runs, and its pages."""

    live: LiveScheduler
    loop: asyncio.AbstractEventLoop
    url: str
    """Where its pages are."""

    def call(self, act: Callable[[], ResultT]) -> ResultT:
        """Do something between two steps of the scheduler; return what it comes to."""

        async def do() -> ResultT:
            return act()

        return self.run(do())

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run something on the scheduler's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

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
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + timeout_s
        looked = threading.Event()
        while not is_so():
            assert clock.monotonic_s() < deadline_s, f"it never came about: {what}"
            looked.wait(_LOOK_S)

    def until_state(self, key: str, state: str, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until `namespace/name` is somewhere; return its story."""
        self.until(lambda: self.state(key) == state, f"{key} is {state}", timeout_s)
        story = self.story(key)
        assert story is not None
        return story


@contextmanager
def live_scheduler(
    server: ApiServer,
    *,
    name: str = "default-scheduler",
    plugins: tuple[Any, ...] = (),
    config: Mapping[str, Any] | None = None,
    schedules: bool = True,
) -> Iterator[RunningScheduler]:
    """Run a scheduler until the end of the block.

    Args:
        server: whose pods it schedules.
        name: of its profile; pods that ask for another are left alone.
        plugins: classes with a name, enabled at every point they extend.
        config: more fields of the configuration.
        schedules: whether it places pods from the start; else it only watches.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="live-scheduler", daemon=True)
    thread.start()
    clock, log = SystemClock(), NullLog()
    made: list[Client] = []

    async def start() -> tuple[LiveScheduler, OpsServer]:
        access = load_access(kubeconfig=str(server.kubeconfigs[SCHEDULER.name]), environ={})
        client = Client(access, qps=-1, burst=0, user_agent="test", clock=clock, log=log)
        made.append(client)
        registry = Registry({plugin.name: plugin for plugin in plugins}) if plugins else None
        settings = LiveSettings(_config(name, plugins, config), "test", out_of_tree=registry)
        live = LiveScheduler(settings, Outside(client, clock, log, SchedulerMetrics()))
        live.start_watching()
        await live.wait_until_synced()
        if schedules:
            live.start_scheduling()
        parts = the_parts(log, {}) | {
            "explain": live.explain,
            "authentication_client": client,
            "authorization_client": client,
        }
        pages = OpsServer(ServingSettings(bind_address="127.0.0.1", port=0), OpsParts(**parts))
        await pages.start()
        return live, pages

    async def stop(live: LiveScheduler | None, pages: OpsServer | None) -> None:
        if pages is not None:
            await pages.stop()
        if live is not None:
            await live.stop()
        for client in made:
            await client.close()

    live: LiveScheduler | None = None
    pages: OpsServer | None = None
    try:
        live, pages = asyncio.run_coroutine_threadsafe(start(), loop).result(WAIT_S)
        yield RunningScheduler(live, loop, pages.url)
    finally:
        asyncio.run_coroutine_threadsafe(stop(live, pages), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def _config(name: str, plugins: tuple[Any, ...], fields: Mapping[str, Any] | None) -> Any:
    enabled = [{"name": plugin.name} for plugin in plugins]
    profile = {"schedulerName": name, "plugins": {"multiPoint": {"enabled": enabled}}}
    return load_config_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
            **(fields or {}),
        }
    )
