"""Types of the effective configuration, after defaulting and conversion.

Owns the internal types of KubeSchedulerConfiguration and the defaults of their fields; a field
without one of v1 has Go's zero. Never reads or validates. Durations are nanoseconds, as in Go.
Upstream: pkg/scheduler/apis/config/types.go, types_pluginargs.go, v1/defaults.go
"""

from typing import Any, TypeAlias

import msgspec

from kubesched.api.affinity import NodeAffinity, TopologySpreadConstraint

MAX_CUSTOM_PRIORITY_SCORE = 10
_SECOND_NS = 1_000_000_000


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable part of the configuration."""


class LeaderElectionConfiguration(_Value, frozen=True):
    """Leader election: the lease and its durations."""

    leader_elect: bool = True
    lease_duration_ns: int = 15 * _SECOND_NS
    renew_deadline_ns: int = 10 * _SECOND_NS
    retry_period_ns: int = 2 * _SECOND_NS
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(_Value, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class Plugin(msgspec.Struct, frozen=True):
    """A plugin in a set; weight 0 means unset."""

    name: str = ""
    weight: int = 0


class PluginSet(msgspec.Struct, frozen=True):
    """The plugins enabled and disabled at one extension point."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One plugin set per extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Return the set of an extension point by its configuration key, such as "preFilter"."""
        plugin_set: PluginSet = getattr(self, _ATTRIBUTES[point])
        return plugin_set


_ATTRIBUTES = dict(zip(Plugins.__struct_encode_fields__, Plugins.__struct_fields__, strict=True))


class ResourceSpec(msgspec.Struct, frozen=True):
    """A resource and its weight in scoring."""

    name: str = ""
    weight: int = 1


class UtilizationShapePoint(msgspec.Struct, frozen=True):
    """One point of a scoring function: utilization in percent, score from 0 to 10."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(msgspec.Struct, frozen=True):
    """The scoring function of the RequestedToCapacityRatio strategy."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(_Value, frozen=True):
    """How NodeResourcesFit scores; only the type of an absent strategy has a default."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = (ResourceSpec("cpu"), ResourceSpec("memory"))
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(_Value, frozen=True):
    """Arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DynamicResourcesArgs(_Value, frozen=True):
    """Arguments of DynamicResources."""

    filter_timeout_ns: int | None = 10 * _SECOND_NS
    binding_timeout_ns: int | None = 600 * _SECOND_NS


class InterPodAffinityArgs(_Value, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(_Value, frozen=True):
    """Arguments of NodeAffinity; the encoder needs the wire form: a list may be nil or empty."""

    added_affinity: NodeAffinity | None = None
    added_affinity_wire: dict[str, Any] | None = None


class NodeResourcesBalancedAllocationArgs(_Value, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = (ResourceSpec("cpu"), ResourceSpec("memory"))


class NodeResourcesFitArgs(_Value, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = ScoringStrategy(type="LeastAllocated")


class PodTopologySpreadArgs(_Value, frozen=True):
    """Arguments of PodTopologySpread; the wire form serves the encoder."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"
    default_constraints_wire: tuple[dict[str, Any], ...] = ()


class VolumeBindingArgs(_Value, frozen=True):
    """Arguments of VolumeBinding; an empty shape is not the same as none."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


InTreeArgs: TypeAlias = (
    DefaultPreemptionArgs
    | DynamicResourcesArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesBalancedAllocationArgs
    | NodeResourcesFitArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
)


class RawArgs(msgspec.Struct, frozen=True):
    """Arguments of a plugin without a known type: the JSON value, untouched."""

    value: Any


PluginArgs: TypeAlias = InTreeArgs | RawArgs | None


class PluginConfig(msgspec.Struct, frozen=True):
    """The arguments configured for one plugin."""

    name: str = ""
    args: PluginArgs = None


class KubeSchedulerProfile(_Value, frozen=True):
    """One scheduler: a name, its plugins and their arguments."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args_of(self, name: str) -> PluginArgs:
        """Return the arguments configured for a plugin, or None."""
        return next((entry.args for entry in self.plugin_config if entry.name == name), None)


class ExtenderManagedResource(msgspec.Struct, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(_Value, frozen=True):
    """TLS settings of an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(_Value, frozen=True):
    """An extender: an HTTP service that takes part in decisions."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls_config: ExtenderTLSConfig | None = None
    http_timeout_ns: int = 0
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(_Value, frozen=True):
    """The whole configuration of a scheduler process."""

    parallelism: int = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int | None = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
