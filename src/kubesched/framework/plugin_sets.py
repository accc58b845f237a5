"""Which plugins run at which extension point, in which order and with which weight.

Owns the resolution of a profile's plugin sets, the expansion of multiPoint, and the checks within
and across profiles. Never knows a plugin class: what a plugin implements is handed in.
Upstream: pkg/scheduler/framework/runtime/framework.go NewFramework;
pkg/scheduler/profile/profile.go
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kubesched.config.errors import ConfigError
from kubesched.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugin,
    PluginArgs,
    PluginConfig,
    Plugins,
)
from kubesched.framework.interface import EXTENSION_POINTS, NODE_SCORE_MAX
from kubesched.objects.field_errors import go_quote

# Parity: framework.go getExtensionPoints, v1.36. The order decides which error comes first.
EXPANSION_ORDER = (
    "preFilter",
    "filter",
    "postFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
)
_INT64_MAX = (1 << 63) - 1


class PluginSets(NamedTuple):
    """The plugins of a profile, ready to run."""

    points: dict[str, tuple[str, ...]]
    score_weights: dict[str, int]
    placement_score_weights: dict[str, int]


class BuiltProfiles(NamedTuple):
    """What building the profiles gives: the sets by scheduler name, and the configuration left."""

    sets: dict[str, PluginSets]
    config: KubeSchedulerConfiguration


Implemented = Mapping[str, frozenset[str]]
Construct = Callable[[KubeSchedulerProfile, str, PluginArgs], frozenset[str] | None]


def build_profiles(config: KubeSchedulerConfiguration, construct: Construct) -> BuiltProfiles:
    """Build every profile in order, and compare the profiles with each other.

    Args:
        config: The configuration, validated and with its extenders built.
        construct: Makes one plugin of a profile from its arguments and returns the points that it
            implements, None if no plugin of that name is registered; raises ConfigError or
            ValueError with the plugin's own text when the arguments do not suit it.

    Raises:
        ConfigError: At stage "build", with upstream's text for the first failure.
    """
    built: dict[str, PluginSets] = {}
    profiles: list[KubeSchedulerProfile] = []
    first: tuple[str, PluginArgs] | None = None
    for profile in config.profiles:
        name = profile.scheduler_name
        try:
            sets, completed = _build_profile(profile, construct)
        except ConfigError as error:
            raise _failure(f"creating profile for scheduler name {name}: {error}") from None
        if not name:
            raise _failure("scheduler name is needed")
        if name in built:
            raise _failure(f"duplicate profile with scheduler name {go_quote(name)}")
        queue_sort = sets.points["queueSort"][0]
        current = (queue_sort, profile.args_of(queue_sort))
        first = first or current
        _check_queue_sort(name, current, first)
        built[name] = sets
        profiles.append(completed)
    return BuiltProfiles(built, msgspec.structs.replace(config, profiles=tuple(profiles)))


def _failure(text: str) -> ConfigError:
    return ConfigError("build", f"initializing profiles: {text}")


def _check_queue_sort(
    name: str, current: tuple[str, PluginArgs], first: tuple[str, PluginArgs]
) -> None:
    if current[0] != first[0]:
        raise _failure(
            f"different queue sort plugins for profile {go_quote(name)}: "
            f"{go_quote(current[0])}, first: {go_quote(first[0])}"
        )
    if current[1] != first[1]:
        raise _failure(f"different queue sort plugin args for profile {go_quote(name)}")


def _build_profile(
    profile: KubeSchedulerProfile, construct: Construct
) -> tuple[PluginSets, KubeSchedulerProfile]:
    seen: set[str] = set()
    for entry in profile.plugin_config:
        if entry.name in seen:
            raise ConfigError("build", f"repeated config for plugin {entry.name}")
        seen.add(entry.name)
    implemented: dict[str, frozenset[str]] = {}
    kept: list[PluginConfig] = []
    # Upstream instantiates in the order of a map; by name is one of the orders it may take.
    for name in sorted(needed_plugins(profile.plugins)):
        args = profile.args_of(name)
        try:
            points = construct(profile, name, args)
        except (ConfigError, ValueError) as error:
            text = f"initializing plugin {go_quote(name)}: {error}"
            raise ConfigError("build", text) from None
        if points is None:
            continue
        implemented[name] = points
        if args is not None:
            kept.append(PluginConfig(name, args))
    sets = resolve_plugin_sets(profile.scheduler_name, profile.plugins, implemented)
    return sets, msgspec.structs.replace(profile, plugin_config=tuple(kept))


def needed_plugins(plugins: Plugins) -> list[str]:
    """Return the names enabled anywhere, each once, in the order in which they are met."""
    points = (*EXPANSION_ORDER, "multiPoint")
    return list(dict.fromkeys(p.name for point in points for p in plugins.at(point).enabled))


def resolve_plugin_sets(
    scheduler_name: str, plugins: Plugins, implemented: Implemented
) -> PluginSets:
    """Return what runs where for one profile.

    Args:
        scheduler_name: The profile's name, for messages.
        plugins: The merged plugin sets.
        implemented: Every instantiated plugin with the points that it implements.

    Raises:
        ConfigError: At stage "build", with upstream's text and without the profile's prefix.
    """
    points = {point: _specific(point, plugins, implemented) for point in EXPANSION_ORDER}
    if plugins.multi_point.enabled:
        for point in EXPANSION_ORDER:
            points[point] = _expanded(point, plugins, implemented, points[point])
    _check_counts(scheduler_name, points)
    score = _weights("score", "score plugins", plugins, implemented)
    placement = _weights("placementScore", "placement score plugins", plugins, implemented)
    return PluginSets(
        points,
        {name: score[name] for name in points["score"]},
        {name: placement[name] for name in points["placementScore"]},
    )


def _type_name(point: str) -> str:
    return EXTENSION_POINTS[point].type_name


def _specific(point: str, plugins: Plugins, implemented: Implemented) -> tuple[str, ...]:
    """Return the plugins enabled at the point itself."""
    # Parity: framework.go updatePluginList, v1.36
    taken: list[str] = []
    for plugin in plugins.at(point).enabled:
        name = go_quote(plugin.name)
        if plugin.name not in implemented:
            raise ConfigError("build", f"{_type_name(point)} {name} does not exist")
        if point not in implemented[plugin.name]:
            raise ConfigError("build", f"plugin {name} does not extend {_type_name(point)} plugin")
        if plugin.name in taken:
            text = f"plugin {name} already registered as {go_quote(_type_name(point))}"
            raise ConfigError("build", text)
        taken.append(plugin.name)
    return tuple(taken)


def _expanded(
    point: str, plugins: Plugins, implemented: Implemented, specific: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the plugins of a point with those of multiPoint put in."""
    # Parity: framework.go expandMultiPointPlugins, v1.36
    disabled = {plugin.name for plugin in plugins.at(point).disabled}
    if "*" in disabled:
        return specific
    overrides: set[str] = set()
    taken: list[str] = []
    for plugin in plugins.multi_point.enabled:
        name = plugin.name
        if name not in implemented:
            raise ConfigError("build", f"{_type_name(point)} {go_quote(name)} does not exist")
        if point not in implemented[name] or name in disabled:
            continue
        if name in specific:
            overrides.add(name)
        elif name in taken:
            text = f"plugin {go_quote(name)} already registered as {go_quote(_type_name(point))}"
            raise ConfigError("build", text)
        else:
            taken.append(name)
    first = (name for name in specific if name in overrides)
    last = (name for name in specific if name not in overrides)
    return (*first, *taken, *last)


def _check_counts(scheduler_name: str, points: Mapping[str, tuple[str, ...]]) -> None:
    profile = f"for profile with scheduler name {go_quote(scheduler_name)}"
    count = len(points["queueSort"])
    if count != 1:
        text = f"only one queue sort plugin required {profile}, but got {count}"
        raise ConfigError("build", text)
    if not points["bind"]:
        raise ConfigError("build", f"at least one bind plugin is needed {profile}")
    if len(points["placementGenerate"]) > 1:
        raise ConfigError("build", f"at most one placement generate plugin is allowed {profile}")


def _weights(point: str, what: str, plugins: Plugins, implemented: Implemented) -> dict[str, int]:
    """Return the weight of every plugin that implements a scoring point."""
    # Parity: framework.go getValidScoreWeights, v1.36
    weights: dict[str, int] = {}
    total = 0
    candidates: Iterable[Plugin] = (*plugins.at(point).enabled, *plugins.multi_point.enabled)
    for plugin in candidates:
        if plugin.name not in implemented:
            # Upstream crashes on a name that only multiPoint has when every point disables "*".
            text = f"{_type_name(point)} {go_quote(plugin.name)} does not exist"
            raise ConfigError("build", text)
        if point not in implemented[plugin.name] or plugin.name in weights:
            continue
        weight = plugin.weight or 1
        weights[plugin.name] = weight
        # The room that is left is an int64 and wraps when a negative weight came before.
        if weight * NODE_SCORE_MAX > _wrapped(_INT64_MAX - total):
            raise ConfigError("build", f"{what}: total score of Score plugins could overflow")
        total += weight * NODE_SCORE_MAX
    return weights


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
