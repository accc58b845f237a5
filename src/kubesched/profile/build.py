"""Build profiles and their plugins from a configuration.

Owns the construction of plugins, the comparison of profiles, and one-line errors about both. Tells
in-tree plugins from out-of-tree ones.
Upstream: pkg/scheduler/scheduler.go New, pkg/scheduler/profile/profile.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.config.errors import ConfigError
from kubesched.config.extenders import build_extenders
from kubesched.config.load import default_config, load_config, load_config_object
from kubesched.config.schema import GROUP, KIND, VERSION
from kubesched.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    RawArgs,
)
from kubesched.config.validate import check_config
from kubesched.framework.handle import Handle
from kubesched.framework.interface import points_of
from kubesched.framework.runtime.plugin_args import decode_args
from kubesched.framework.runtime.plugin_sets import needed_plugins, resolve_plugin_sets
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.registry import DuplicatePluginError, Registry, SignatureError
from kubesched.golang.strconv import go_quote
from kubesched.kit.memory import keep_heap
from kubesched.plugins.in_tree import IN_TREE, in_tree_registry
from kubesched.profile.plugin_loading import find_installed

Sandboxing = Callable[[str, Any], Any]
"""`(profile_name, plugin)`; returns the plugin in a sandbox."""


@dataclass(frozen=True, slots=True)
class Built:
    """Profiles, their handles, and the effective configuration."""

    profiles: dict[str, Profile]
    handles: dict[str, Handle]
    config: KubeSchedulerConfiguration

    @property
    def out_of_tree(self) -> frozenset[str]:
        """Return the names of the out-of-tree plugins."""
        enabled = (name for profile in self.profiles.values() for name in profile.plugins)
        return frozenset(enabled) - IN_TREE.keys()

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
    make_handle: Callable[[str], Handle] = Handle,
    validates: bool = True,
    sandboxed: Sandboxing = lambda _profile, plugin: plugin,
) -> Built:
    """Validate a configuration and build its profiles; raise ConfigError with upstream's text.

    Set `validates` to False for a configuration that was validated with the command line.
    """
    # Parity: pkg/scheduler/profile/profile.go NewMap, v1.36
    keep_heap()
    if validates:
        check_config(config)
    config = build_extenders(config)
    registry = _registry(out_of_tree)
    profiles: dict[str, Profile] = {}
    handles: dict[str, Handle] = {}
    effective: list[KubeSchedulerProfile] = []
    for profile_config in config.profiles:
        name = profile_config.scheduler_name
        handle = make_handle(name)
        try:
            profile, effective_config = _build_profile(profile_config, registry, handle, sandboxed)
        except ConfigError as error:
            raise _failure(f"creating profile for scheduler name {name}: {error}") from None
        if not name:
            raise _failure("scheduler name is needed")
        if name in profiles:
            raise _failure(f"duplicate profile with scheduler name {go_quote(name)}")
        profiles[name], handles[name] = profile, handle
        effective.append(effective_config)
        _check_queue_sort(list(profiles.values()), effective)
    return Built(profiles, handles, msgspec.structs.replace(config, profiles=tuple(effective)))


def _build_profile(
    config: KubeSchedulerProfile, registry: Registry, handle: Handle, sandboxed: Sandboxing
) -> tuple[Profile, KubeSchedulerProfile]:
    """Return a profile, and its configuration with the arguments of enabled plugins only."""
    # Parity: pkg/scheduler/framework/runtime/framework.go NewFramework, v1.36
    seen: set[str] = set()
    for entry in config.plugin_config:
        if entry.name in seen:
            raise ConfigError("build", f"repeated config for plugin {entry.name}")
        seen.add(entry.name)
    plugins: dict[str, Any] = {}
    # Upstream creates them in the order of a map; the order of names is one of its orders.
    for name in sorted(needed_plugins(config.plugins)):
        try:
            if name in registry or _register_installed(name, registry):
                plugins[name] = _make_plugin(name, config.args_of(name), registry, handle)
                if name not in IN_TREE:
                    plugins[name] = sandboxed(config.scheduler_name, plugins[name])
        except Exception as problem:
            is_text = isinstance(problem, ConfigError | ValueError)
            text = f"{problem}" if is_text else f"{type(problem).__name__}: {problem}"
            prefix = f"initializing plugin {go_quote(name)}"
            raise ConfigError("build", f"{prefix}: {text}") from problem
    implemented = {name: points_of(plugin) for name, plugin in plugins.items()}
    profile = Profile(
        config.scheduler_name,
        resolve_plugin_sets(config.scheduler_name, config.plugins, implemented),
        plugins,
        in_tree=IN_TREE.keys(),
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
    )
    handle.attach(profile)
    args = [PluginConfig(name, config.args_of(name)) for name in plugins]
    used = tuple(entry for entry in args if entry.args is not None)
    return profile, msgspec.structs.replace(config, plugin_config=used)


def _make_plugin(name: str, args: object, registry: Registry, handle: Handle) -> Any:
    if name not in IN_TREE or IN_TREE[name].args is not None:
        args = decode_args(registry[name], args if isinstance(args, RawArgs) else None)
    return registry.make(name, args, handle)


def _check_queue_sort(profiles: Sequence[Profile], configs: Sequence[KubeSchedulerProfile]) -> None:
    """Compare the queue sort plugin of the last profile with that of the first."""
    (first,), (last,) = (profiles[i].plugin_names("queueSort") for i in (0, -1))
    name = go_quote(profiles[-1].name)
    if last != first:
        raise _failure(
            f"different queue sort plugins for profile {name}: "
            f"{go_quote(last)}, first: {go_quote(first)}"
        )
    if configs[-1].args_of(last) != configs[0].args_of(first):
        raise _failure(f"different queue sort plugin args for profile {name}")


def _failure(text: str) -> ConfigError:
    return ConfigError("build", f"initializing profiles: {text}")


def _registry(out_of_tree: Registry | None) -> Registry:
    try:
        return in_tree_registry().merge(out_of_tree or Registry())
    except DuplicatePluginError as problem:
        raise ConfigError("build", f"{problem}, in-tree; choose another name") from None


def _register_installed(name: str, registry: Registry) -> bool:
    """Register a plugin of an installed package; return whether there is one."""
    plugin = find_installed(name)
    if plugin is None:
        return False
    try:
        registry.register(name, plugin.factory, origin=plugin.origin)
    except SignatureError as problem:
        raise ValueError(f"{plugin.origin}: {problem}") from None
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
    if registry is None:
        return []
    used = {name for profile in built.profiles.values() for name in profile.plugins}
    return [name for name in registry if name not in used and not registry.is_offer(name)]


class ConfiguredError(ValueError):
    """The configuration or a plugin in it is invalid."""


def configured(
    config: bytes | Mapping[str, Any] | None = None,
    *,
    registry: Registry | None = None,
    seed: int = 0,
    uses_all: bool = True,
) -> Built:
    """Build the profiles of a configuration, or of the default configuration.

    Args:
        config: The configuration, as text or decoded. Without one, plugins of the registry are
            enabled at multiPoint of the default profile.
        registry: Out-of-tree plugins.
        seed: The random seed.
        uses_all: Whether each of these plugins has to be enabled.

    Raises:
        ConfiguredError: The configuration is invalid; the message is one line.
    """
    try:
        built = build(
            _loaded(config, registry),
            out_of_tree=registry,
            make_handle=lambda name: Handle(name, seed),
        )
        if uses_all:
            check_use([built], registry)
        return built
    except (ConfigError, ValueError) as problem:
        raise ConfiguredError(" ".join(str(problem).split())) from None


def _loaded(
    config: bytes | Mapping[str, Any] | None, registry: Registry | None
) -> KubeSchedulerConfiguration:
    if config is None:
        return config_enabling(registry)
    return load_config(config) if isinstance(config, bytes) else load_config_object(config)


def check_use(configurations: Sequence[Built], registry: Registry | None) -> None:
    """Raise ConfiguredError if a plugin is enabled in none of the configurations."""
    first, *others = (never_enabled(built, registry) for built in configurations)
    for name in first:
        if all(name in names for names in others):
            raise ConfiguredError(
                f"no profile enables the plugin {name}; add it under plugins.multiPoint.enabled"
            )
