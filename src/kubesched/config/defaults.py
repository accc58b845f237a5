"""Defaults of the v1 configuration: from a decoded document to the effective values.

Owns the conversion to the internal types, whose fields have the default values; the default plugins
with their order and weights; and the merge of a profile's plugin sets over them. Never validates:
a value out of range passes through.
Upstream: pkg/scheduler/apis/config/v1/defaults.go, default_plugins.go, conversion.go
"""

from collections.abc import Container, Mapping
from typing import Any, cast

import msgspec

from kubesched.api.affinity import NodeAffinity, TopologySpreadConstraint
from kubesched.config.feature_gates import DEFAULT_GATES, FeatureGates
from kubesched.config.schema import (
    ARGS,
    CONFIGURATION,
    PLUGIN,
    POINTS,
    PROFILE,
    TYPE_META,
    Slice,
    Struct,
    Type,
    attribute_of,
)
from kubesched.config.types import (
    InTreeArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugin,
    PluginArgs,
    PluginConfig,
    Plugins,
    PluginSet,
    RawArgs,
)
from kubesched.golang.json import to_builtins

Values = Mapping[str, Any]

DEFAULT_SCHEDULER_NAME = "default-scheduler"

# Parity: default_plugins.go getDefaultPlugins with the gates of v1.36: NodeDeclaredFeatures and
# DynamicResourceAllocation on, GangScheduling and TopologyAwareWorkloadScheduling off.
DEFAULT_PLUGINS = Plugins(
    multi_point=PluginSet(
        enabled=(
            Plugin("SchedulingGates"),
            Plugin("PrioritySort"),
            Plugin("NodeUnschedulable"),
            Plugin("NodeName"),
            Plugin("TaintToleration", 3),
            Plugin("NodeAffinity", 2),
            Plugin("NodePorts"),
            Plugin("NodeResourcesFit", 1),
            Plugin("VolumeRestrictions"),
            Plugin("NodeVolumeLimits"),
            Plugin("VolumeBinding"),
            Plugin("VolumeZone"),
            Plugin("PodTopologySpread", 2),
            Plugin("InterPodAffinity", 2),
            Plugin("DynamicResources", 2),
            Plugin("DefaultPreemption"),
            Plugin("NodeResourcesBalancedAllocation", 1),
            Plugin("ImageLocality", 1),
            Plugin("DefaultBinder"),
            Plugin("NodeDeclaredFeatures"),
        )
    )
)


_PLUGIN_GATES = {
    "DynamicResources": "DynamicResourceAllocation",
    "NodeDeclaredFeatures": "NodeDeclaredFeatures",
}


def effective_configuration(
    values: Values, gates: FeatureGates = DEFAULT_GATES
) -> KubeSchedulerConfiguration:
    """Return the configuration of a decoded document, with defaults."""
    # Parity: v1/defaults.go SetDefaults_KubeSchedulerConfiguration, v1.36
    profiles: list[Values] = values.get("profiles") or [{}]
    single = len(profiles) == 1
    fields = _fields(values, CONFIGURATION, omitted=("profiles",))
    fields.setdefault("enable_contention_profiling", fields.get("enable_profiling", True))
    fields["profiles"] = tuple(_profile(profile, gates, single=single) for profile in profiles)
    return KubeSchedulerConfiguration(**fields)


def _fields(values: Values, kind: Struct, *, omitted: Container[str] = ()) -> dict[str, Any]:
    """Return the fields of an internal type that a document sets, without some omitted ones.

    A pointer is unset when it is nil, another field when it is Go's zero.
    """
    return {
        attribute_of(name, field.type): _internal(value, field.type)
        for name, field in kind.fields.items()
        if name not in TYPE_META
        and name not in omitted
        and (value := values.get(name)) is not None
        and (value or field.pointer)
    }


def _internal(value: Any, kind: Type) -> Any:
    if isinstance(kind, Slice):
        return tuple(_internal(item, kind.elem) for item in value)
    if isinstance(kind, Struct) and kind.internal is not None:
        return kind.internal(**_fields(value, kind))
    return value


def _profile(values: Values, gates: FeatureGates, *, single: bool) -> KubeSchedulerProfile:
    fields = _fields(values, PROFILE, omitted=("plugins", "pluginConfig"))
    # Several profiles need names of their own, so only a single one gets the default.
    fields.setdefault("scheduler_name", DEFAULT_SCHEDULER_NAME if single else "")
    plugins = merge_plugins(_default_plugins(gates), values.get("plugins"))
    configured = tuple(
        PluginConfig(entry.get("name", ""), _args(entry, gates))
        for entry in values.get("pluginConfig") or ()
    )
    missing = _missing_args(plugins, {entry.name for entry in configured}, gates)
    return KubeSchedulerProfile(**fields, plugins=plugins, plugin_config=configured + missing)


def _default_plugins(gates: FeatureGates) -> Plugins:
    enabled = tuple(
        plugin
        for plugin in DEFAULT_PLUGINS.multi_point.enabled
        if plugin.name not in _PLUGIN_GATES or gates.is_enabled(_PLUGIN_GATES[plugin.name])
    )
    return Plugins(multi_point=PluginSet(enabled))


def _args(entry: Values, gates: FeatureGates) -> PluginArgs:
    if "typed" in entry:
        return default_args(entry["name"], entry["typed"], gates)
    raw = entry.get("args")
    return None if raw is None else RawArgs(to_builtins(raw))


def _missing_args(
    plugins: Plugins, configured: set[str], gates: FeatureGates
) -> tuple[PluginConfig, ...]:
    """Return default arguments, in name order, for enabled plugins without any."""
    enabled = {plugin.name for point in POINTS for plugin in plugins.at(point).enabled}
    return tuple(
        PluginConfig(name, default_args(name, {}, gates))
        for name in sorted(enabled - configured)
        if f"{name}Args" in ARGS
    )


def merge_plugins(defaults: Plugins, own: Values | None) -> Plugins:
    """Return the default plugin sets, overridden by a profile's."""
    # Parity: v1/default_plugins.go mergePlugins, v1.36
    if own is None:
        return defaults
    return Plugins(
        **{
            attribute: _merge_set(getattr(defaults, attribute), own.get(point, {}))
            for attribute, point in zip(Plugins.__struct_fields__, POINTS, strict=True)
        }
    )


def _merge_set(defaults: PluginSet, own: Values) -> PluginSet:
    enabled = [_internal(plugin, PLUGIN) for plugin in own.get("enabled") or ()]
    disabled = [Plugin(plugin.get("name", "")) for plugin in own.get("disabled") or ()]
    disabled += [Plugin(plugin.name) for plugin in defaults.disabled]
    disabled_names = {plugin.name for plugin in disabled}
    last_index = {plugin.name: index for index, plugin in enumerate(enabled)}
    merged: list[Plugin] = []
    replaced: set[int] = set()
    if "*" not in disabled_names:
        for plugin in defaults.enabled:
            if plugin.name in disabled_names:
                continue
            index = last_index.get(plugin.name)
            if index is None:
                merged.append(plugin)
            else:
                # A default that the profile repeats keeps its place and takes the new weight.
                merged.append(enabled[index])
                replaced.add(index)
    merged += [plugin for index, plugin in enumerate(enabled) if index not in replaced]
    return PluginSet(tuple(merged), tuple(disabled))


def default_args(plugin: str, values: Values, gates: FeatureGates = DEFAULT_GATES) -> InTreeArgs:
    """Return the arguments of an in-tree plugin, with defaults."""
    kind = ARGS[f"{plugin}Args"]
    fields = _fields(values, kind)
    if plugin == "DynamicResources":
        if not has_filter_timeout(gates):
            fields.setdefault("filter_timeout_ns", None)
        if not has_binding_timeout(gates):
            fields.setdefault("binding_timeout_ns", None)
    elif plugin == "NodeAffinity" and (affinity := values.get("addedAffinity")) is not None:
        fields["added_affinity"] = msgspec.convert(_without_nulls(affinity), NodeAffinity)
    elif plugin == "PodTopologySpread":
        constraints = _without_nulls(values.get("defaultConstraints") or [])
        fields["default_constraints"] = msgspec.convert(
            constraints, tuple[TopologySpreadConstraint, ...]
        )
    elif plugin == "VolumeBinding" and values.get("shape") == []:
        fields["shape"] = ()  # Not the same as none to validation.
    return cast("type[InTreeArgs]", kind.internal)(**fields)


def has_filter_timeout(gates: FeatureGates) -> bool:
    """Return whether DynamicResources has the argument filterTimeout."""
    return gates.is_enabled("DRASchedulerFilterTimeout")


def has_binding_timeout(gates: FeatureGates) -> bool:
    """Return whether DynamicResources has the argument bindingTimeout."""
    names = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
    return all(map(gates.is_enabled, names))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
