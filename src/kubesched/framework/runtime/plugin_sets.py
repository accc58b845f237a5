"""Plugin sets of a profile: the plugins of each extension point, in run order and with weights.

Owns the expansion of multiPoint, and the checks of one profile. Knows no plugin class: the caller
names the points that each plugin implements.
Upstream: pkg/scheduler/framework/runtime/framework.go NewFramework
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kubesched.config.errors import ConfigError
from kubesched.config.types import Plugin, Plugins
from kubesched.framework.interface import EXTENSION_POINTS, NODE_SCORE_MAX
from kubesched.golang.strconv import go_quote

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
    """The enabled plugins of a profile."""

    points: dict[str, tuple[str, ...]]
    """Plugin names by extension point, in run order."""
    score_weights: dict[str, int]
    placement_score_weights: dict[str, int]


Implemented = Mapping[str, frozenset[str]]
"""The extension points that each plugin implements."""


def needed_plugins(plugins: Plugins) -> list[str]:
    """Return the names of all enabled plugins, without repetitions."""
    points = (*EXPANSION_ORDER, "multiPoint")
    return list(dict.fromkeys(p.name for point in points for p in plugins.at(point).enabled))


def resolve_plugin_sets(
    scheduler_name: str, plugins: Plugins, implemented: Implemented
) -> PluginSets:
    """Return the plugins of each extension point; raise ConfigError with upstream's text."""
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


def _specific(point: str, plugins: Plugins, implemented: Implemented) -> tuple[str, ...]:
    """Return the plugins enabled at the point itself."""
    # Parity: framework.go updatePluginList, v1.36
    type_name = EXTENSION_POINTS[point].type_name
    names: list[str] = []
    for plugin in plugins.at(point).enabled:
        name = plugin.name
        if point not in _points_of(name, point, implemented):
            raise _error(f"plugin {go_quote(name)} does not extend {type_name} plugin")
        _append(names, name, point)
    return tuple(names)


def _expanded(
    point: str, plugins: Plugins, implemented: Implemented, specific: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the plugins of a point, including those of multiPoint."""
    # Parity: framework.go expandMultiPointPlugins, v1.36
    disabled = {plugin.name for plugin in plugins.at(point).disabled}
    if "*" in disabled:
        return specific
    overrides: set[str] = set()
    expanded: list[str] = []
    for plugin in plugins.multi_point.enabled:
        name = plugin.name
        if point not in _points_of(name, point, implemented) or name in disabled:
            continue
        if name in specific:
            overrides.add(name)
        else:
            _append(expanded, name, point)
    first = (name for name in specific if name in overrides)
    last = (name for name in specific if name not in overrides)
    return (*first, *expanded, *last)


def _points_of(name: str, point: str, implemented: Implemented) -> frozenset[str]:
    if name not in implemented:
        raise _error(f"{EXTENSION_POINTS[point].type_name} {go_quote(name)} does not exist")
    return implemented[name]


def _append(names: list[str], name: str, point: str) -> None:
    if name in names:
        type_name = go_quote(EXTENSION_POINTS[point].type_name)
        raise _error(f"plugin {go_quote(name)} already registered as {type_name}")
    names.append(name)


def _check_counts(scheduler_name: str, points: Mapping[str, tuple[str, ...]]) -> None:
    profile = f"for profile with scheduler name {go_quote(scheduler_name)}"
    count = len(points["queueSort"])
    if count != 1:
        raise _error(f"only one queue sort plugin required {profile}, but got {count}")
    if not points["bind"]:
        raise _error(f"at least one bind plugin is needed {profile}")
    if len(points["placementGenerate"]) > 1:
        raise _error(f"at most one placement generate plugin is allowed {profile}")


def _weights(
    point: str, subject: str, plugins: Plugins, implemented: Implemented
) -> dict[str, int]:
    """Return the weight of every plugin that implements a scoring point."""
    # Parity: framework.go getValidScoreWeights, v1.36. Upstream crashes on an unknown name at
    # multiPoint if every point disables "*".
    weights: dict[str, int] = {}
    total = 0
    enabled: Iterable[Plugin] = (*plugins.at(point).enabled, *plugins.multi_point.enabled)
    for plugin in enabled:
        name = plugin.name
        if point not in _points_of(name, point, implemented) or name in weights:
            continue
        weights[name] = plugin.weight or 1
        # The difference is an int64, and wraps around if a negative weight came before.
        if weights[name] * NODE_SCORE_MAX > _wrapped(_INT64_MAX - total):
            raise _error(f"{subject}: total score of Score plugins could overflow")
        total += weights[name] * NODE_SCORE_MAX
    return weights


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _error(text: str) -> ConfigError:
    return ConfigError("build", text)
