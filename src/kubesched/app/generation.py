"""All that follows from profiles, made together so that it can be replaced together.

Owns the list of it: plugins with their handles and background tasks, what the queue is told, which
kinds are watched. Whatever can be wrong about a configuration is found out here, before anything
goes by it. Never changes a running scheduler: `app.swap` does.
Upstream: pkg/scheduler/scheduler.go New
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.app.build import Built, build
from kubesched.app.live_settings import LiveSettings, Outside
from kubesched.app.watched import watched_resources
from kubesched.client.resources import Resource
from kubesched.columns.view import ClusterView
from kubesched.engine.handle import OfflineHandle
from kubesched.extender.asking import Extenders
from kubesched.extender.candidates import StandIn
from kubesched.extender.http_extender import build as build_extenders
from kubesched.framework.enqueue import enqueue_registrations, pre_enqueue_calls, queue_sort_key
from kubesched.framework.fenced import FencedPlugin, fenced
from kubesched.framework.profile import Profile
from kubesched.kit.tasks import Tasks
from kubesched.plugins.in_tree import in_tree_registry
from kubesched.queue.interface import Less, ProfileQueueing, SortKey
from kubesched.scheduler.handle import Live, LiveHandle
from kubesched.scheduler.queue_order import QueueOrder


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """Profiles, built, and what belongs to them alone."""

    number: int
    """How many there were before."""
    settings: LiveSettings
    built: Built
    lent: Live
    """What the handles are given of the scheduler."""
    queueing: dict[str, ProfileQueueing]
    less: Less
    key: SortKey | None
    resources: list[Resource]
    extenders: Extenders

    @property
    def profiles(self) -> dict[str, Profile]:
        """Return the profiles by scheduler name."""
        return self.built.profiles

    @property
    def tasks(self) -> Tasks:
        """Return what plugins run beside scheduling."""
        return self.lent.tasks

    @property
    def reads_bound_pods(self) -> bool:
        """Return whether a plugin or an extender is shown whole bound pods."""
        return self.built.reads_bound_pods or self.shows_bound_pods

    @property
    def shows_bound_pods(self) -> bool:
        """Return whether an extender is shown bound pods, as they are in the API."""
        return any(one.needs_whole_pods for one in self.extenders)

    async def end(self) -> None:
        """End what plugins run, and close the connections to extenders."""
        await self.tasks.stop()
        await self.extenders.close()


def of_user(plugin: Any) -> Any:
    """Return the object that a user's factory made, without the fence around it."""
    return plugin.inner if isinstance(plugin, FencedPlugin) else plugin


def make_generation(
    settings: LiveSettings,
    outside: Outside,
    view: ClusterView,
    tasks: Tasks,
    *,
    stand_in: StandIn,
    number: int = 0,
) -> Generation:
    """Build what a configuration describes.

    Args:
        settings: The configuration and the plugins it may name.
        outside: The world.
        view: What plugins see of the cluster.
        tasks: Where plugins may run something; whoever made it ends it, also if this fails.
        stand_in: Has nodes that extenders return in rows of their own.
        number: How many generations there were before.

    Raises:
        ConfigError, ValueError: The configuration or a plugin is refused.
    """
    clock, log, metrics = outside.clock, outside.log, outside.metrics
    lent = Live(clock, log, tasks, metrics)

    def make_handle(name: str) -> OfflineHandle:
        # Another stream of chance for each generation, the first one's being the seed's own.
        handle = LiveHandle(name, lent, settings.seed + number)
        handle.view = view
        return handle

    built = build(
        settings.config,
        out_of_tree=settings.out_of_tree,
        make_handle=make_handle,
        validates=False,  # Whoever reads the options did.
        fenced=lambda name, plugin: fenced(outside.guard, settings.budgets, name, plugin),
    )
    for profile in built.profiles.values():
        profile.log = log
        profile.measured_by(metrics, clock.monotonic_s)
    lent.extenders = extenders = _extenders(built, outside, stand_in)
    less, key = _order(next(iter(built.profiles.values())), outside)
    queueing = {
        name: ProfileQueueing(
            pre_enqueue_calls(profile),
            enqueue_registrations(profile, has_extenders=len(extenders) > 0),
        )
        for name, profile in built.profiles.items()
    }
    resources = watched_resources(built.profiles.values())
    return Generation(number, settings, built, lent, queueing, less, key, resources, extenders)


def _extenders(built: Built, outside: Outside, stand_in: StandIn) -> Extenders:
    log = outside.log
    members = build_extenders(built.config.extenders, clock=outside.clock, log=log)
    for name in built.profiles if members else ():
        # Parity: runtime/framework.go computeBatchablePlugins, v1.36.
        message = "Disabling signatures for profile because it has extenders configured."
        log.info(message, profile=name)
    return Extenders(members, stand_in=stand_in, log=log, metrics=outside.metrics)


def _order(first: Profile, outside: Outside) -> tuple[Less, Callable[[Any], Any] | None]:
    """Return by what pods are ordered; all profiles have the same plugin for it."""
    (name,) = first.plugin_names("queueSort")
    less, key = first.less, queue_sort_key(first)
    if name in in_tree_registry():
        return less, key
    order = QueueOrder(name, less, key, outside.log)
    return order.less, order.key
