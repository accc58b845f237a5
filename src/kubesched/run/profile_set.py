"""A profile set: the profiles of one configuration, with everything that is built from them.

Holds plugins with their handles and background tasks, the queue's part of each profile, the watched
resources and the extenders. Building one checks the whole configuration before it takes effect.
Never changes a running scheduler: `run.swap` does.
Upstream: pkg/scheduler/scheduler.go New
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.client.resources import Resource
from kubesched.extender.client.extenders import Extenders, PlaceholderRows
from kubesched.extender.client.http_extender import build as build_extenders
from kubesched.framework.handle import Handle
from kubesched.framework.runtime.enqueue import (
    enqueue_registrations,
    pre_enqueue_calls,
    queue_sort_key,
)
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.sandbox.sandboxed_plugin import SandboxedPlugin, sandboxed
from kubesched.kit.tasks import Tasks
from kubesched.plugins.in_tree import in_tree_registry
from kubesched.profile.build import Built, build
from kubesched.queue.interface import Less, ProfileQueueing, SortKey
from kubesched.queue.queue_rules import QueueOrder
from kubesched.run.settings import Environment, LiveSettings
from kubesched.run.watched_kinds import watched_resources
from kubesched.scheduler.live_handle import LiveHandle, LiveServices
from kubesched.snapshot.view import ClusterView


@dataclass(frozen=True, slots=True, eq=False)
class ProfileSet:
    """The built profiles of one configuration, replaced as a whole by a reload."""

    number: int
    """The generation: the number of profile sets before this one."""
    settings: LiveSettings
    built: Built
    services: LiveServices
    """The components of the scheduler that plugin handles offer."""
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
        """Return the background tasks of the plugins."""
        return self.services.tasks

    @property
    def reads_bound_pods(self) -> bool:
        """Return whether a plugin or an extender reads the JSON of bound pods."""
        return self.built.reads_bound_pods or self.shows_bound_pods

    @property
    def shows_bound_pods(self) -> bool:
        """Return whether an extender gets bound pods as they are in the API."""
        return any(extender.needs_whole_pods for extender in self.extenders)

    async def end(self) -> None:
        """Stop the plugins' tasks, and close the connections to extenders."""
        await self.tasks.stop()
        await self.extenders.close()


def unsandboxed(plugin: Any) -> Any:
    """Return the plugin object that a factory made, without its sandbox."""
    return plugin.inner if isinstance(plugin, SandboxedPlugin) else plugin


def build_profile_set(
    settings: LiveSettings,
    environment: Environment,
    view: ClusterView,
    tasks: Tasks,
    *,
    add_placeholders: PlaceholderRows,
    number: int = 0,
) -> ProfileSet:
    """Build the profile set of a configuration.

    Args:
        settings: The configuration, and the plugins that it may name.
        environment: Client, clock, log and metrics.
        view: The snapshot that plugins read.
        tasks: Owns the background tasks of plugins; the caller stops it, also if this fails.
        add_placeholders: Gives rows to nodes that extenders return.
        number: The generation.

    Raises:
        ConfigError, ValueError: The configuration or a plugin is invalid.
    """
    clock, log, metrics = environment.clock, environment.log, environment.metrics
    services = LiveServices(clock, log, tasks, metrics)

    def make_handle(name: str) -> Handle:
        # Every generation has its own random stream; the first uses the seed.
        handle = LiveHandle(name, services, settings.seed + number)
        handle.view = view
        return handle

    built = build(
        settings.config,
        out_of_tree=settings.out_of_tree,
        make_handle=make_handle,
        validates=False,  # Validated when the options were read.
        sandboxed=lambda name, plugin: sandboxed(environment.guard, settings.budgets, name, plugin),
    )
    for profile in built.profiles.values():
        profile.log = log
        profile.measured_by(metrics, clock.monotonic_s)
    services.extenders = extenders = _extenders(built, environment, add_placeholders)
    less, key = _order(next(iter(built.profiles.values())), environment)
    queueing = {
        name: ProfileQueueing(
            pre_enqueue_calls(profile),
            enqueue_registrations(profile, has_extenders=len(extenders) > 0),
        )
        for name, profile in built.profiles.items()
    }
    resources = watched_resources(built.profiles.values())
    return ProfileSet(number, settings, built, services, queueing, less, key, resources, extenders)


def _extenders(
    built: Built, environment: Environment, add_placeholders: PlaceholderRows
) -> Extenders:
    log = environment.log
    members = build_extenders(built.config.extenders, clock=environment.clock, log=log)
    for name in built.profiles if members else ():
        # Parity: runtime/framework.go computeBatchablePlugins, v1.36.
        message = "Disabling signatures for profile because it has extenders configured."
        log.info(message, profile=name)
    return Extenders(
        members, placeholder_rows=add_placeholders, log=log, metrics=environment.metrics
    )


def _order(first: Profile, environment: Environment) -> tuple[Less, Callable[[Any], Any] | None]:
    """Return the order of pods; all profiles have the same QueueSort plugin."""
    (name,) = first.plugin_names("queueSort")
    less, key = first.less, queue_sort_key(first)
    if name in in_tree_registry():
        return less, key
    return less, QueueOrder(name, less, key, environment.log).key
