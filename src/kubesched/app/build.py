"""Building what the configuration names: plugins, profiles.

Owns the joining of registry, configuration and framework. Knows every concrete class through
`plugins.in_tree`.
Upstream: pkg/scheduler/scheduler.go New, pkg/scheduler/profile/profile.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.config.errors import ConfigError
from kubesched.config.extenders import build_extenders
from kubesched.config.load import default_config, load_config_object
from kubesched.config.schema import GROUP, KIND, VERSION
from kubesched.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from kubesched.config.validate import check_config
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.interface import points_of
from kubesched.framework.plugin_sets import build_profiles
from kubesched.framework.profile import Profile
from kubesched.framework.registry import Registry
from kubesched.kit.memory import keep_heap
from kubesched.plugins.in_tree import in_tree_registry


@dataclass(frozen=True, slots=True)
class Built:
    """Profiles ready to decide, their handles, and the configuration as it is in effect."""

    profiles: dict[str, Profile]
    handles: dict[str, OfflineHandle]
    config: KubeSchedulerConfiguration

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
) -> Built:
    """Validate a configuration and build its profiles; raise ConfigError with upstream's text.

    The configuration of a command line was validated as far as upstream does: not `validates`.
    """
    keep_heap()
    if validates:
        check_config(config)
    config = build_extenders(config)
    registry = in_tree_registry()
    if out_of_tree is not None:
        registry = registry.merge(out_of_tree)
    plugins: dict[str, dict[str, Any]] = {p.scheduler_name: {} for p in config.profiles}
    handles = {p.scheduler_name: make_handle(p.scheduler_name) for p in config.profiles}

    def construct(profile: KubeSchedulerProfile, name: str, args: object) -> frozenset[str] | None:
        if name not in registry:
            return None
        try:
            plugin = registry.make(name, args, handles[profile.scheduler_name])
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
    return Built(profiles, handles, built.config)


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
    return [name for name in registry or () if name not in used]


def check_build(
    config: KubeSchedulerConfiguration,
    out_of_tree: Registry | None = None,
    *,
    validates: bool = True,
) -> KubeSchedulerConfiguration:
    """Return the configuration as it is after building; raise ConfigError if it cannot be built."""
    return build(config, out_of_tree=out_of_tree, validates=validates).config
