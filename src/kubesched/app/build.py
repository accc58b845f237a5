"""Building what the configuration names: plugins, profiles.

Owns the joining of registry, configuration and framework. Knows every concrete class through
`plugins.in_tree`.
Upstream: pkg/scheduler/scheduler.go New, pkg/scheduler/profile/profile.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.app.outside_plugins import found_plugin
from kubesched.config.errors import ConfigError
from kubesched.config.extenders import build_extenders
from kubesched.config.load import default_config, load_config_object
from kubesched.config.schema import GROUP, KIND, VERSION
from kubesched.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, RawArgs
from kubesched.config.validate import check_config
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.interface import points_of
from kubesched.framework.plugin_args import decoded_args
from kubesched.framework.plugin_sets import build_profiles
from kubesched.framework.profile import Profile
from kubesched.framework.registry import DuplicatePluginError, Registry, SignatureError
from kubesched.kit.memory import keep_heap
from kubesched.plugins.in_tree import IN_TREE_NAMES, in_tree_registry


@dataclass(frozen=True, slots=True)
class Built:
    """Profiles ready to decide, their handles, and the configuration as it is in effect."""

    profiles: dict[str, Profile]
    handles: dict[str, OfflineHandle]
    config: KubeSchedulerConfiguration
    outside: frozenset[str] = frozenset()
    """The plugins that are not in-tree."""

    @property
    def reads_bound_pods(self) -> bool:
        """Return whether a plugin declared that it reads whole bound pods."""
        return any(
            getattr(plugin, "reads_bound_pods", False)
            for profile in self.profiles.values()
            for plugin in profile.plugins.values()
        )


def build(
    config: KubeSchedulerConfiguration,
    *,
    out_of_tree: Registry | None = None,
    make_handle: Callable[[str], OfflineHandle] = OfflineHandle,
    validates: bool = True,
    fenced: Callable[[str, Any], Any] = lambda _profile, plugin: plugin,
) -> Built:
    """Validate a configuration and build its profiles; raise ConfigError with upstream's text.

    The configuration of a command line was validated as far as upstream does: not `validates`. What
    stands for a plugin that is not in-tree is asked of `fenced`, with the profile's name.
    """
    keep_heap()
    if validates:
        check_config(config)
    config = build_extenders(config)
    registry = _registry(out_of_tree)
    outside: set[str] = set()
    plugins: dict[str, dict[str, Any]] = {p.scheduler_name: {} for p in config.profiles}
    handles = {p.scheduler_name: make_handle(p.scheduler_name) for p in config.profiles}

    def construct(profile: KubeSchedulerProfile, name: str, args: object) -> frozenset[str] | None:
        if name not in registry and not _find(name, registry):
            return None
        try:
            if name not in IN_TREE_NAMES:
                outside.add(name)
                args = decoded_args(registry[name], args if isinstance(args, RawArgs) else None)
            plugin = registry.make(name, args, handles[profile.scheduler_name])
            if name in outside:
                plugin = fenced(profile.scheduler_name, plugin)
        except (ConfigError, ValueError):
            raise
        except Exception as problem:
            # Whatever a user's constructor raises is a fault of the configuration, not of ours.
            raise ValueError(f"{type(problem).__name__}: {problem}") from problem
        plugins[profile.scheduler_name][name] = plugin
        return points_of(plugin)

    built = build_profiles(config, construct)
    profiles: dict[str, Profile] = {}
    for profile in config.profiles:
        name = profile.scheduler_name
        profiles[name] = Profile(
            name,
            built.sets[name],
            plugins[name],
            percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        )
        handles[name].attach(profiles[name])
    return Built(profiles, handles, built.config, frozenset(outside))


def _registry(out_of_tree: Registry | None) -> Registry:
    if out_of_tree is None:
        return in_tree_registry()
    try:
        return in_tree_registry().merge(out_of_tree)
    except DuplicatePluginError as problem:
        raise ConfigError("build", f"{problem}, in-tree; give yours another name") from None


def _find(name: str, registry: Registry) -> bool:
    """Take a plugin of an installed package into the registry; return whether there is one."""
    found = found_plugin(name)
    if found is None:
        return False
    try:
        registry.register(name, found.factory, origin=found.origin)
    except SignatureError as problem:
        raise ValueError(f"{found.origin}: {problem}") from None
    return True


def config_enabling(registry: Registry | None) -> KubeSchedulerConfiguration:
    """Return the default configuration with some plugins enabled at multiPoint."""
    if registry is None:
        return default_config()
    enabled = [{"name": name} for name in registry]
    return load_config_object(
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
        }
    )


def never_enabled(built: Built, registry: Registry | None) -> list[str]:
    """Return the plugins of a registry that no profile enables."""
    used = {name for profile in built.profiles.values() for name in profile.plugins}
    if registry is None:
        return []
    return [name for name in registry if name not in used and not registry.is_offer(name)]


def check_build(
    config: KubeSchedulerConfiguration,
    out_of_tree: Registry | None = None,
    *,
    validates: bool = True,
) -> KubeSchedulerConfiguration:
    """Return the configuration as it is after building; raise ConfigError if it cannot be built."""
    return build(config, out_of_tree=out_of_tree, validates=validates).config
