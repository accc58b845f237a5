"""The effective configuration written as upstream writes it: v1, complete, as an object or YAML.

Owns the way back from the internal types to v1 and what the encoder omits. Never defaults.
Upstream: cmd/kube-scheduler/app/options/configfile.go encodeConfig
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from kubesched.config.gotext import format_duration
from kubesched.config.schema import (
    API_VERSION,
    ARGS,
    CONFIGURATION,
    KIND,
    POINTS,
    Scalar,
    Slice,
    StringMap,
    Struct,
    Type,
)
from kubesched.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    Extender,
    ExtenderTLSConfig,
    InterPodAffinityArgs,
    InTreeArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Plugin,
    PluginArgs,
    PodTopologySpreadArgs,
    RawArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kubesched.config.yaml_scalars import resolve


def effective(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration as the object that upstream's --write-config-to writes."""
    election, client = config.leader_election, config.client_connection
    encoded: dict[str, Any] = _encode(
        {
            "kind": KIND,
            "apiVersion": API_VERSION,
            "parallelism": config.parallelism,
            "leaderElection": {
                "leaderElect": election.leader_elect,
                "leaseDuration": election.lease_duration_ns,
                "renewDeadline": election.renew_deadline_ns,
                "retryPeriod": election.retry_period_ns,
                "resourceLock": election.resource_lock,
                "resourceName": election.resource_name,
                "resourceNamespace": election.resource_namespace,
            },
            "clientConnection": {
                "kubeconfig": client.kubeconfig,
                "acceptContentTypes": client.accept_content_types,
                "contentType": client.content_type,
                "qps": client.qps,
                "burst": client.burst,
            },
            "enableProfiling": config.enable_profiling,
            "enableContentionProfiling": config.enable_contention_profiling,
            "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
            "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
            "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
            "profiles": [_profile(profile) for profile in config.profiles],
            "extenders": [_extender(extender) for extender in config.extenders],
            "delayCacheUntilActive": config.delay_cache_until_active,
        },
        CONFIGURATION,
    )
    return encoded


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """Return the effective configuration as YAML, keys sorted as upstream sorts them."""
    return dump_yaml(effective(config))


def dump_yaml(document: Mapping[str, Any], *, sort_keys: bool = True) -> str:
    """Return plain values as YAML in which no string can be taken for something else."""
    text: str = yaml.dump(
        dict(document), Dumper=_Dumper, sort_keys=sort_keys, allow_unicode=True, width=10_000
    )
    return text


def _profile(profile: KubeSchedulerProfile) -> dict[str, Any]:
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": {
            point: {
                "enabled": _plugins(profile.plugins.at(point).enabled),
                "disabled": _plugins(profile.plugins.at(point).disabled),
            }
            for point in POINTS
        },
        "pluginConfig": [
            {"name": entry.name, "args": encode_args(entry.args)} for entry in profile.plugin_config
        ],
    }


def _plugins(plugins: tuple[Plugin, ...]) -> list[dict[str, Any]]:
    return [{"name": plugin.name, "weight": plugin.weight} for plugin in plugins]


def _extender(extender: Extender) -> dict[str, Any]:
    return {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": None if extender.tls_config is None else _tls_config(extender.tls_config),
        "httpTimeout": extender.http_timeout_ns,
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            {"name": resource.name, "ignoredByScheduler": resource.ignored_by_scheduler}
            for resource in extender.managed_resources
        ],
        "ignorable": extender.ignorable,
    }


def _tls_config(tls: ExtenderTLSConfig) -> dict[str, Any]:
    return {
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "caFile": tls.ca_file,
        "certData": tls.cert_data,
        "keyData": tls.key_data,
        "caData": tls.ca_data,
    }


def encode_args(args: PluginArgs) -> Any:
    """Return plugin arguments as v1 JSON, in-tree ones with their apiVersion and kind."""
    if args is None:
        return None
    if isinstance(args, RawArgs):
        return args.value
    kind = type(args).__name__
    values = {"kind": kind, "apiVersion": API_VERSION, **_ARGS[type(args)](args)}
    return _encode(values, ARGS[kind])


def _resources(resources: tuple[ResourceSpec, ...]) -> list[dict[str, Any]]:
    return [{"name": resource.name, "weight": resource.weight} for resource in resources]


def _shape(shape: tuple[UtilizationShapePoint, ...] | None) -> list[dict[str, Any]]:
    return [{"utilization": point.utilization, "score": point.score} for point in shape or ()]


def _default_preemption(args: DefaultPreemptionArgs) -> dict[str, Any]:
    return {
        "minCandidateNodesPercentage": args.min_candidate_nodes_percentage,
        "minCandidateNodesAbsolute": args.min_candidate_nodes_absolute,
    }


def _dynamic_resources(args: DynamicResourcesArgs) -> dict[str, Any]:
    return {"filterTimeout": args.filter_timeout_ns, "bindingTimeout": args.binding_timeout_ns}


def _inter_pod_affinity(args: InterPodAffinityArgs) -> dict[str, Any]:
    return {
        "hardPodAffinityWeight": args.hard_pod_affinity_weight,
        "ignorePreferredTermsOfExistingPods": args.ignore_preferred_terms_of_existing_pods,
    }


def _fit(args: NodeResourcesFitArgs) -> dict[str, Any]:
    strategy = args.scoring_strategy
    values: dict[str, Any] = {
        "ignoredResources": list(args.ignored_resources),
        "ignoredResourceGroups": list(args.ignored_resource_groups),
    }
    if strategy is not None:
        ratio = strategy.requested_to_capacity_ratio
        values["scoringStrategy"] = {
            "type": strategy.type,
            "resources": _resources(strategy.resources),
            "requestedToCapacityRatio": None if ratio is None else {"shape": _shape(ratio.shape)},
        }
    return values


def _topology_spread(args: PodTopologySpreadArgs) -> dict[str, Any]:
    return {
        "defaultConstraints": list(args.default_constraints_wire),
        "defaultingType": args.defaulting_type,
    }


def _volume_binding(args: VolumeBindingArgs) -> dict[str, Any]:
    return {"bindTimeoutSeconds": args.bind_timeout_seconds, "shape": _shape(args.shape)}


def _balanced(args: NodeResourcesBalancedAllocationArgs) -> dict[str, Any]:
    return {"resources": _resources(args.resources)}


def _node_affinity(args: NodeAffinityArgs) -> dict[str, Any]:
    return {"addedAffinity": args.added_affinity_wire}


_ARGS: dict[type[InTreeArgs], Callable[[Any], dict[str, Any]]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced,
    NodeResourcesFitArgs: _fit,
    PodTopologySpreadArgs: _topology_spread,
    VolumeBindingArgs: _volume_binding,
}


def _encode(value: Any, kind: Type) -> Any:
    """Return a value as Go's encoder writes its type: empty optional fields left out."""
    if isinstance(kind, Scalar):
        return _scalar(value, kind)
    if isinstance(kind, Slice):
        return None if value is None else [_encode(item, kind.elem) for item in value]
    if isinstance(kind, StringMap):
        return value
    return _struct(value or {}, kind)


def _struct(values: Mapping[str, Any], kind: Struct) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, field in kind.fields.items():
        value = values.get(name)
        if field.omitempty and (value is None if field.pointer else not value):
            continue
        out[name] = None if value is None and field.pointer else _encode(value, field.type)
    return out


def _scalar(value: Any, kind: Scalar) -> Any:
    match kind.kind:
        case "duration":
            return format_duration(value or 0)
        case "bytes":
            return base64.b64encode(value).decode()
        case "string":
            return value or ""
        case "bool":
            return bool(value)
        case "raw":
            return value
        case "float32":
            number = value or 0.0
            return int(number) if number == int(number) else number
    return value or 0


class _Dumper(yaml.SafeDumper):
    """Quotes every string that some reader of YAML 1.1 or 1.2 takes for another type."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write shared values in full: upstream's writer knows no anchors."""
        return True


_LOOKS_LIKE_MORE = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|\.?[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|\.(inf|Inf|INF)|\.(nan|NaN|NAN))"
    r"|[0-9]{4}-[0-9].*|=|<<|[yYnN~]|"
)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    tag, _ = resolve("", text)
    style = "'" if not tag.endswith(":str") or _LOOKS_LIKE_MORE.fullmatch(text) else None
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _represent_text)
