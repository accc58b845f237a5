"""Building an extender: the plugins of a configuration that are the user's own, and their handle.

Owns which extension points an extender serves, and what plugins may ask of it. In-tree plugins are
left out, but for the binder: the scheduler that calls has them itself. Never opens a socket.
Upstream: pkg/scheduler/scheduler.go New, as far as it makes profiles
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.app.build import Built, build, never_enabled
from kubesched.app.watched import registered_resource
from kubesched.client.resources import NAMESPACES, NODES, PODS, Resource
from kubesched.columns.view import ClusterView
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.fence import Budgets, Guard
from kubesched.framework.fenced import fenced
from kubesched.framework.handle import Logger
from kubesched.framework.interface import points_of
from kubesched.framework.plugin_sets import PluginSets
from kubesched.framework.profile import Profile
from kubesched.framework.registry import Registry
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks

DECIDING: Final = ("preFilter", "filter", "preScore", "score")
"""The points that filter, prioritize and preempt are answered by."""
BINDING: Final = ("reserve", "preBind", "bind", "postBind")
"""Those that bind is."""


@dataclass(slots=True)
class Lent:
    """What an extender lends to its plugins; filled in as the parts are made."""

    clock: Clock
    log: Log
    tasks: Tasks
    client: Any = None
    informer: Callable[[str], Any] | None = None


class ExtenderHandle(OfflineHandle):
    """A plugin's handle in an extender: there is a cluster, but no queue and no events."""

    def __init__(self, profile_name: str, lent: Lent) -> None:
        super().__init__(profile_name)
        self._lent = lent

    def __repr__(self) -> str:
        return f"<ExtenderHandle of {self.profile_name}>"

    @property
    def clock(self) -> Clock:
        """Return the extender's clock."""
        return self._lent.clock

    @property
    def log(self) -> Logger:
        """Return the extender's logger."""
        return self._lent.log

    @property
    def client(self) -> Any:
        """Return the API client."""
        return super().client if self._lent.client is None else self._lent.client

    def informer(self, resource: str) -> Any:
        """Return what is known of the objects of a kind."""
        informer = self._lent.informer
        return super().informer(resource) if informer is None else informer(resource)

    def start_task(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run something beside the calls until the extender ends."""

        async def running() -> None:
            await run()

        self._lent.tasks.start(running(), name=name)


@dataclass(frozen=True, slots=True)
class BuiltExtender:
    """The profiles of an extender, and what follows from them."""

    built: Built
    profiles: Mapping[str, Profile]
    """With the user's own plugins only, by scheduler name."""
    lent: Lent

    @property
    def filters(self) -> bool:
        """Return whether some plugin refuses nodes."""
        return any(
            profile.has_filter_plugins or profile.plugin_names("preFilter")
            for profile in self.profiles.values()
        )

    @property
    def scores(self) -> bool:
        """Return whether some plugin scores nodes."""
        return any(profile.has_score_plugins for profile in self.profiles.values())

    @property
    def resources(self) -> list[Resource]:
        """Return the kinds that are read: what every plugin may look at, and what some ask for."""
        found = dict.fromkeys((PODS, NODES, NAMESPACES))
        for profile in self.profiles.values():
            registrations = profile.event_registrations()
            for name in sorted(self.built.outside & registrations.keys()):
                for one in registrations[name] or ():
                    resource = registered_resource(one.event.resource)
                    if resource is not None:
                        found[resource] = None
        return list(found)

    @property
    def may_do_without_pods(self) -> bool:
        """Return whether every plugin that decides can say what it reads."""
        return all(
            hasattr(profile.plugins[name], "reads")
            for profile in self.profiles.values()
            for point in DECIDING
            for name in profile.plugin_names(point)
        )

    def problem(self, registry: Registry | None, *, binds: bool) -> str:
        """Return why there is nothing to serve, or not what was asked for; empty if there is."""
        for name in never_enabled(self.built, registry):
            return (
                f"no profile enables the plugin {name} given with --plugin; "
                "add it under plugins.multiPoint.enabled"
            )
        if not self.built.outside:
            return "there is nothing to serve: give --plugin, or a --config with plugins of yours"
        if not (self.filters or self.scores or binds):
            plugins = ", ".join(sorted(self.built.outside))
            return f"{plugins}: an extender filters, scores, and binds with --bind; nothing of it"
        return ""

    def unserved(self, *, binds: bool) -> dict[str, list[str]]:
        """Return the points of plugins that nobody will ask, by plugin."""
        served = {*DECIDING, *(BINDING if binds else ())}
        found: dict[str, list[str]] = {}
        for profile in self.built.profiles.values():
            for name in sorted(self.built.outside & profile.plugins.keys()):
                points = points_of(profile.plugins[name])
                if left := sorted(points - served):
                    found[name] = left
        return found


def build_extender(  # noqa: PLR0913  # Everything that is handed in.
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
        config: Which plugins, with which arguments and weights.
        out_of_tree: The user's plugins.
        view: What plugins see of the cluster.
        clock: What time it is to plugins.
        log: Where lines go.
        tasks: Where plugins may run something; whoever made it ends it.
        guard: Watches over plugins; nobody does if None.
        budgets: How long their calls may take.

    Raises:
        ConfigError, ValueError: The configuration or a plugin is refused.
    """
    lent = Lent(clock, log, tasks)

    def fence(profile: str, plugin: Any) -> Any:
        return plugin if guard is None else fenced(guard, budgets or Budgets(), profile, plugin)

    def make_handle(name: str) -> OfflineHandle:
        handle = ExtenderHandle(name, lent)
        handle.view = view
        return handle

    built = build(
        config,
        out_of_tree=out_of_tree,
        make_handle=make_handle,
        fenced=fence,
    )
    profiles = {name: _served(built, profile) for name, profile in built.profiles.items()}
    for name, profile in profiles.items():
        profile.log = log
        built.handles[name].attach(profile)
    return BuiltExtender(built, profiles, lent)


def _served(built: Built, profile: Profile) -> Profile:
    """Return a profile without in-tree plugins."""
    points = {
        point: tuple(name for name in profile.plugin_names(point) if name in built.outside)
        for point in (*DECIDING, *BINDING)
    }
    # Whoever would bind without them: plugins of outside are asked first, in their order.
    binders = (name for name in profile.plugin_names("bind") if name not in built.outside)
    points["bind"] += tuple(binders)
    weights = {name: profile.score_weights[name] for name in points["score"]}
    used = dict.fromkeys(name for names in points.values() for name in names)
    plugins = {name: profile.plugins[name] for name in used}
    return Profile(profile.name, PluginSets(points, weights, {}), plugins)
