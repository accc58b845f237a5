"""Defaults of the v1 types, and the step from what a document set to the effective values.

Owns every default value and the merge of plugin sets over the built-in ones. Never validates:
a value out of range passes through.
Upstream: pkg/scheduler/apis/config/v1/defaults.go, default_plugins.go, conversion.go
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubesched.config.gojson import to_builtins
from kubesched.config.schema import API_VERSION, POINTS
from kubesched.config.types import (
    ClientConnectionConfiguration,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    InterPodAffinityArgs,
    InTreeArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Plugin,
    PluginArgs,
    PluginConfig,
    Plugins,
    PluginSet,
    PodTopologySpreadArgs,
    RawArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    plugins_by_point,
)
from kubesched.objects.affinity import NodeAffinity, TopologySpreadConstraint

Values = Mapping[str, Any]
_T = TypeVar("_T")

DEFAULT_SCHEDULER_NAME = "default-scheduler"
_SECOND_NS = 1_000_000_000

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


class DefaultingGates(NamedTuple):
    """The feature gates that defaults depend on, as they are in v1.36."""

    dynamic_resource_allocation: bool = True
    node_declared_features: bool = True
    dra_filter_timeout: bool = True
    dra_binding_timeout: bool = True


_NEWEST = DefaultingGates()


def effective_configuration(
    values: Values, gates: DefaultingGates = _NEWEST
) -> KubeSchedulerConfiguration:
    """Return the configuration that a decoded document means, defaults filled in."""
    # Parity: v1/defaults.go SetDefaults_KubeSchedulerConfiguration, v1.36
    profiles: list[Values] = values.get("profiles") or [{}]
    single = len(profiles) == 1
    profiling = _or(values.get("enableProfiling"), True)
    return KubeSchedulerConfiguration(
        api_version=API_VERSION,
        parallelism=_or(values.get("parallelism"), 16),
        leader_election=_leader_election(values.get("leaderElection", {})),
        client_connection=_client_connection(values.get("clientConnection", {})),
        enable_profiling=profiling,
        enable_contention_profiling=_or(values.get("enableContentionProfiling"), profiling),
        percentage_of_nodes_to_score=_or(values.get("percentageOfNodesToScore"), 0),
        pod_initial_backoff_seconds=_or(values.get("podInitialBackoffSeconds"), 1),
        pod_max_backoff_seconds=_or(values.get("podMaxBackoffSeconds"), 10),
        profiles=tuple(_profile(profile, gates, single=single) for profile in profiles),
        extenders=tuple(_extender(extender) for extender in values.get("extenders") or ()),
        delay_cache_until_active=values.get("delayCacheUntilActive", False),
    )


def _or(value: _T | None, default: _T) -> _T:
    """Return a pointer's value, or the default when it is nil: zero counts as set."""
    return default if value is None else value


def _leader_election(values: Values) -> LeaderElectionConfiguration:
    return LeaderElectionConfiguration(
        leader_elect=_or(values.get("leaderElect"), True),
        lease_duration_ns=values.get("leaseDuration") or 15 * _SECOND_NS,
        renew_deadline_ns=values.get("renewDeadline") or 10 * _SECOND_NS,
        retry_period_ns=values.get("retryPeriod") or 2 * _SECOND_NS,
        resource_lock=values.get("resourceLock") or "leases",
        resource_name=values.get("resourceName") or "kube-scheduler",
        resource_namespace=values.get("resourceNamespace") or "kube-system",
    )


def _client_connection(values: Values) -> ClientConnectionConfiguration:
    return ClientConnectionConfiguration(
        kubeconfig=values.get("kubeconfig", ""),
        accept_content_types=values.get("acceptContentTypes", ""),
        content_type=values.get("contentType") or "application/vnd.kubernetes.protobuf",
        qps=values.get("qps") or 50.0,
        burst=values.get("burst") or 100,
    )


def _profile(values: Values, gates: DefaultingGates, *, single: bool) -> KubeSchedulerProfile:
    name = values.get("schedulerName")
    if name is None:
        # Several profiles have to be told apart, so only a single one gets a name.
        name = DEFAULT_SCHEDULER_NAME if single else ""
    plugins = merge_plugins(_default_plugins(gates), values.get("plugins"))
    given = tuple(
        PluginConfig(entry.get("name", ""), _args(entry, gates))
        for entry in values.get("pluginConfig") or ()
    )
    return KubeSchedulerProfile(
        scheduler_name=name,
        percentage_of_nodes_to_score=values.get("percentageOfNodesToScore"),
        plugins=plugins,
        plugin_config=given + _missing_args(plugins, {entry.name for entry in given}, gates),
    )


def _default_plugins(gates: DefaultingGates) -> Plugins:
    absent = {
        name
        for name, is_on in (
            ("DynamicResources", gates.dynamic_resource_allocation),
            ("NodeDeclaredFeatures", gates.node_declared_features),
        )
        if not is_on
    }
    if not absent:
        return DEFAULT_PLUGINS
    every = DEFAULT_PLUGINS.multi_point.enabled
    kept = tuple(plugin for plugin in every if plugin.name not in absent)
    return Plugins(multi_point=PluginSet(enabled=kept))


def _args(entry: Values, gates: DefaultingGates) -> PluginArgs:
    if "typed" in entry:
        return default_args(entry["name"], entry["typed"], gates)
    raw = entry.get("args")
    return None if raw is None else RawArgs(to_builtins(raw))


def _missing_args(
    plugins: Plugins, given: set[str], gates: DefaultingGates
) -> tuple[PluginConfig, ...]:
    """Return default arguments, in name order, for enabled plugins that were given none."""
    enabled = {plugin.name for point in POINTS for plugin in plugins.at(point).enabled}
    return tuple(
        PluginConfig(name, default_args(name, {}, gates))
        for name in sorted(enabled - given)
        if name in _ARGS
    )


def merge_plugins(defaults: Plugins, given: Values | None) -> Plugins:
    """Return the default plugin sets with a profile's own laid over them."""
    # Parity: v1/default_plugins.go mergePlugins, v1.36
    if given is None:
        return defaults
    return plugins_by_point(
        {point: _merge_set(defaults.at(point), given.get(point, {})) for point in POINTS}
    )


def _merge_set(defaults: PluginSet, given: Values) -> PluginSet:
    enabled = [_plugin(plugin) for plugin in given.get("enabled") or ()]
    disabled = [Plugin(plugin.get("name", "")) for plugin in given.get("disabled") or ()]
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
                # A default that is given again keeps its place and takes the given weight.
                merged.append(enabled[index])
                replaced.add(index)
    merged += [plugin for index, plugin in enumerate(enabled) if index not in replaced]
    return PluginSet(tuple(merged), tuple(disabled))


def _plugin(values: Values) -> Plugin:
    return Plugin(values.get("name", ""), _or(values.get("weight"), 0))


def _extender(values: Values) -> Extender:
    tls = values.get("tlsConfig")
    return Extender(
        url_prefix=values.get("urlPrefix", ""),
        filter_verb=values.get("filterVerb", ""),
        preempt_verb=values.get("preemptVerb", ""),
        prioritize_verb=values.get("prioritizeVerb", ""),
        weight=values.get("weight", 0),
        bind_verb=values.get("bindVerb", ""),
        enable_https=values.get("enableHTTPS", False),
        tls_config=None if tls is None else _tls_config(tls),
        http_timeout_ns=values.get("httpTimeout", 0),
        node_cache_capable=values.get("nodeCacheCapable", False),
        managed_resources=tuple(
            ExtenderManagedResource(
                resource.get("name", ""), resource.get("ignoredByScheduler", False)
            )
            for resource in values.get("managedResources") or ()
        ),
        ignorable=values.get("ignorable", False),
    )


def _tls_config(values: Values) -> ExtenderTLSConfig:
    return ExtenderTLSConfig(
        insecure=values.get("insecure", False),
        server_name=values.get("serverName", ""),
        cert_file=values.get("certFile", ""),
        key_file=values.get("keyFile", ""),
        ca_file=values.get("caFile", ""),
        cert_data=values.get("certData") or b"",
        key_data=values.get("keyData") or b"",
        ca_data=values.get("caData") or b"",
    )


def default_args(plugin: str, values: Values, gates: DefaultingGates = _NEWEST) -> InTreeArgs:
    """Return the arguments of an in-tree plugin, defaults filled in."""
    if plugin == "DynamicResources":
        return _dynamic_resources(values, gates)
    return _ARGS[plugin](values)


def _default_preemption(values: Values) -> DefaultPreemptionArgs:
    return DefaultPreemptionArgs(
        min_candidate_nodes_percentage=_or(values.get("minCandidateNodesPercentage"), 10),
        min_candidate_nodes_absolute=_or(values.get("minCandidateNodesAbsolute"), 100),
    )


def _dynamic_resources(values: Values, gates: DefaultingGates = _NEWEST) -> DynamicResourcesArgs:
    filtering = 10 * _SECOND_NS if gates.dra_filter_timeout else None
    binding = 600 * _SECOND_NS if gates.dra_binding_timeout else None
    return DynamicResourcesArgs(
        filter_timeout_ns=_or(values.get("filterTimeout"), filtering),
        binding_timeout_ns=_or(values.get("bindingTimeout"), binding),
    )


def _inter_pod_affinity(values: Values) -> InterPodAffinityArgs:
    return InterPodAffinityArgs(
        hard_pod_affinity_weight=_or(values.get("hardPodAffinityWeight"), 1),
        ignore_preferred_terms_of_existing_pods=values.get(
            "ignorePreferredTermsOfExistingPods", False
        ),
    )


def _node_affinity(values: Values) -> NodeAffinityArgs:
    wire = values.get("addedAffinity")
    if wire is None:
        return NodeAffinityArgs()
    return NodeAffinityArgs(
        added_affinity=msgspec.convert(_without_nulls(wire), NodeAffinity),
        added_affinity_wire=wire,
    )


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _resources(values: Values) -> tuple[ResourceSpec, ...]:
    given: Sequence[Values] = values.get("resources") or ({"name": "cpu"}, {"name": "memory"})
    return tuple(
        ResourceSpec(resource.get("name", ""), resource.get("weight") or 1) for resource in given
    )


def _balanced_allocation(values: Values) -> NodeResourcesBalancedAllocationArgs:
    return NodeResourcesBalancedAllocationArgs(resources=_resources(values))


def _shape(points: list[Values] | None) -> tuple[UtilizationShapePoint, ...]:
    return tuple(
        UtilizationShapePoint(point.get("utilization", 0), point.get("score", 0))
        for point in points or ()
    )


def _fit(values: Values) -> NodeResourcesFitArgs:
    strategy = values.get("scoringStrategy")
    if strategy is None:
        strategy = {"type": "LeastAllocated"}
    ratio = strategy.get("requestedToCapacityRatio")
    return NodeResourcesFitArgs(
        ignored_resources=tuple(values.get("ignoredResources") or ()),
        ignored_resource_groups=tuple(values.get("ignoredResourceGroups") or ()),
        scoring_strategy=ScoringStrategy(
            # The type of a strategy that is present is not defaulted.
            type=strategy.get("type", ""),
            resources=_resources(strategy),
            requested_to_capacity_ratio=(
                None if ratio is None else RequestedToCapacityRatioParam(_shape(ratio.get("shape")))
            ),
        ),
    )


def _topology_spread(values: Values) -> PodTopologySpreadArgs:
    wire = tuple(values.get("defaultConstraints") or ())
    return PodTopologySpreadArgs(
        default_constraints=tuple(
            msgspec.convert(_without_nulls(constraint), TopologySpreadConstraint)
            for constraint in wire
        ),
        defaulting_type=values.get("defaultingType") or "System",
        default_constraints_wire=wire,
    )


def _volume_binding(values: Values) -> VolumeBindingArgs:
    shape = values.get("shape")
    return VolumeBindingArgs(
        bind_timeout_seconds=_or(values.get("bindTimeoutSeconds"), 600),
        shape=None if shape is None else _shape(shape),
    )


_ARGS: dict[str, Callable[[Values], InTreeArgs]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _fit,
    "PodTopologySpread": _topology_spread,
    "VolumeBinding": _volume_binding,
}
