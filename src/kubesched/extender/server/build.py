"""Builds the profiles of an extender from the out-of-tree plugins of a configuration.

Owns the extension points that an extender serves, and the handle of its plugins. In-tree plugins
other than the binder are left out: the calling scheduler runs them. Never opens a socket.
Upstream: pkg/scheduler/scheduler.go New, as far as it makes profiles
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.resources import NAMESPACES, NODES, PODS, Resource
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.handle import Handle, Logger
from kubesched.framework.interface import points_of
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.sandbox.budget import Budgets, Guard
from kubesched.framework.sandbox.sandboxed_plugin import sandboxed
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.profile.build import Built, build, never_enabled
from kubesched.run.watched_kinds import registered_resource
from kubesched.snapshot.view import ClusterView

DECIDING: Final = ("preFilter", "filter", "preScore", "score")
"""The extension points of filter, prioritize and preempt."""
BINDING: Final = ("reserve", "preBind", "bind", "postBind")
"""The extension points of bind."""


@dataclass(slots=True)
class PluginServices:
    """The components that plugin handles offer; set as they are created."""

    clock: Clock
    log: Log
    tasks: Tasks
    client: Any = None
    informer: Callable[[str], Any] | None = None


class ExtenderHandle(Handle):
    """The handle of a plugin, without queue and events."""

    def __init__(self, profile_name: str, services: PluginServices) -> None:
        super().__init__(profile_name)
        self._services = services

    def __repr__(self) -> str:
        return f"<ExtenderHandle of {self.profile_name}>"

    @property
    def clock(self) -> Clock:
        """Return the extender's clock."""
        return self._services.clock

    @property
    def log(self) -> Logger:
        """Return the extender's logger."""
        return self._services.log

    @property
    def client(self) -> Any:
        """Return the API client."""
        return super().client if self._services.client is None else self._services.client

    def informer(self, resource: str) -> Any:
        """Return the objects of a kind."""
        informer = self._services.informer
        return super().informer(resource) if informer is None else informer(resource)

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a background task until the extender stops."""

        async def running() -> None:
            await run()

        self._services.tasks.start(running(), name=name)


@dataclass(frozen=True, slots=True)
class BuiltExtender:
    """The profiles of an extender, and the kinds that they read."""

    built: Built
    profiles: Mapping[str, Profile]
    """With out-of-tree plugins only, by scheduler name."""
    services: PluginServices

    @property
    def filters(self) -> bool:
        """Return whether a plugin filters nodes."""
        return any(
            profile.has_filter_plugins or profile.plugin_names("preFilter")
            for profile in self.profiles.values()
        )

    @property
    def scores(self) -> bool:
        """Return whether a plugin scores nodes."""
        return any(profile.has_score_plugins for profile in self.profiles.values())

    @property
    def resources(self) -> list[Resource]:
        """Return the kinds to watch: the usual three, and those that plugins register for."""
        resources = dict.fromkeys((PODS, NODES, NAMESPACES))
        for profile in self.profiles.values():
            registrations = profile.event_registrations()
            for name in sorted(self.built.out_of_tree & registrations.keys()):
                for registration in registrations[name] or ():
                    resource = registered_resource(registration.event.resource)
                    if resource is not None:
                        resources[resource] = None
        return list(resources)

    @property
    def may_do_without_pods(self) -> bool:
        """Return whether every filter and score plugin declares what it reads."""
        return all(
            hasattr(profile.plugins[name], "reads")
            for profile in self.profiles.values()
            for point in DECIDING
            for name in profile.plugin_names(point)
        )

    def problem(self, registry: Registry | None, *, binds: bool) -> str:
        """Return why the configuration cannot be served; empty if it can."""
        for name in never_enabled(self.built, registry):
            return (
                f"no profile enables the plugin {name} given with --plugin; "
                "add it under plugins.multiPoint.enabled"
            )
        if not self.built.out_of_tree:
            return "nothing to serve: give --plugin, or a --config that enables out-of-tree plugins"
        if not (self.filters or self.scores or binds):
            plugins = ", ".join(sorted(self.built.out_of_tree))
            return f"{plugins}: no filter or score plugin, and bind is off: nothing to serve"
        return ""

    def unserved(self, *, binds: bool) -> dict[str, list[str]]:
        """Return the extension points that the extender does not run, by plugin."""
        served = {*DECIDING, *(BINDING if binds else ())}
        return {
            name: unserved
            for profile in self.built.profiles.values()
            for name in sorted(self.built.out_of_tree & profile.plugins.keys())
            if (unserved := sorted(points_of(profile.plugins[name]) - served))
        }


def build_extender(  # noqa: PLR0913  # Every dependency is an argument.
    config: KubeSchedulerConfiguration,
    *,
    out_of_tree: Registry | None,
    view: ClusterView,
    clock: Clock,
    log: Log,
    tasks: Tasks,
    guard: Guard | None = None,
    budgets: Budgets | None = None,
) -> BuiltExtender:
    """Build the plugins that a configuration enables.

    Args:
        config: The enabled plugins with their arguments and weights.
        out_of_tree: The out-of-tree plugins.
        view: The cluster as plugins see it.
        clock: The clock of plugins.
        log: The log of plugins.
        tasks: Runs background tasks of plugins; the caller stops it.
        guard: Supervises plugins; none if None.
        budgets: Time limits of plugin calls.

    Raises:
        ConfigError, ValueError: The configuration or a plugin is invalid.
    """
    services = PluginServices(clock, log, tasks)

    def sandbox(profile: str, plugin: Any) -> Any:
        return plugin if guard is None else sandboxed(guard, budgets or Budgets(), profile, plugin)

    def make_handle(name: str) -> Handle:
        handle = ExtenderHandle(name, services)
        handle.view = view
        return handle

    built = build(config, out_of_tree=out_of_tree, make_handle=make_handle, sandboxed=sandbox)
    profiles = {name: _served(built, profile) for name, profile in built.profiles.items()}
    for name, profile in profiles.items():
        profile.log = log
        built.handles[name].attach(profile)
    return BuiltExtender(built, profiles, services)


def _served(built: Built, profile: Profile) -> Profile:
    """Return a profile with out-of-tree plugins, and the in-tree binder."""
    points = {
        point: tuple(name for name in profile.plugin_names(point) if name in built.out_of_tree)
        for point in (*DECIDING, *BINDING)
    }
    # In-tree binders run after out-of-tree ones.
    binders = (name for name in profile.plugin_names("bind") if name not in built.out_of_tree)
    points["bind"] += tuple(binders)
    return profile.with_points(points)
