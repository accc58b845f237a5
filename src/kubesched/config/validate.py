"""Rules for the configuration as a whole.

Owns validation of everything but plugin arguments, which validate_args holds, and the order in
which messages stand. Never changes the configuration.
Upstream: pkg/scheduler/apis/config/validation/validation.go; component-base
config/validation/validation.go
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kubesched.config.errors import ConfigError
from kubesched.config.field_errors import (
    DurationValue,
    Typed,
    duplicate,
    invalid,
    required,
)
from kubesched.config.internal_json import args_value
from kubesched.config.schema import POINTS
from kubesched.config.types import (
    ClientConnectionConfiguration,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    Extender,
    InterPodAffinityArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PluginConfig,
    PluginSet,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from kubesched.config.validate_args import (
    validate_default_preemption_args,
    validate_dynamic_resources_args,
    validate_inter_pod_affinity_args,
    validate_node_affinity_args,
    validate_node_resources_balanced_allocation_args,
    validate_node_resources_fit_args,
    validate_pod_topology_spread_args,
    validate_volume_binding_args,
)
from kubesched.objects.field_errors import aggregate_text, label_key_errors

REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")

# The points that are searched for removed plugins. Upstream walks a map of them, so that the
# order of its messages is open; ours is that of the type.
_CLASSIC_POINTS = tuple(
    point for point in POINTS if point not in ("multiPoint", "placementGenerate", "placementScore")
)


class _ArgsRule(NamedTuple):
    kind: type
    check: Callable[[Any, str], list[str]]


# Parity: validation.go validatePluginConfig, v1.36. Upstream files the rule for Fit under the name
# of its type, so that a file's Fit arguments are checked when the plugin is built, and a plugin of
# that very name is refused.
_ARGS_RULES: dict[str, _ArgsRule] = {
    "DefaultPreemption": _ArgsRule(DefaultPreemptionArgs, validate_default_preemption_args),
    "InterPodAffinity": _ArgsRule(InterPodAffinityArgs, validate_inter_pod_affinity_args),
    "NodeAffinity": _ArgsRule(NodeAffinityArgs, validate_node_affinity_args),
    "NodeResourcesBalancedAllocation": _ArgsRule(
        NodeResourcesBalancedAllocationArgs, validate_node_resources_balanced_allocation_args
    ),
    "NodeResourcesFitArgs": _ArgsRule(NodeResourcesFitArgs, validate_node_resources_fit_args),
    "PodTopologySpread": _ArgsRule(PodTopologySpreadArgs, validate_pod_topology_spread_args),
    "VolumeBinding": _ArgsRule(VolumeBindingArgs, validate_volume_binding_args),
    "DynamicResources": _ArgsRule(DynamicResourcesArgs, validate_dynamic_resources_args),
}


def check_config(config: KubeSchedulerConfiguration) -> None:
    """Refuse a configuration that breaks a rule.

    Raises:
        ConfigError: At stage "validate", with all messages in one text.
    """
    errors = validate_config(config)
    if errors:
        raise ConfigError("validate", aggregate_text(errors))


def validate_config(config: KubeSchedulerConfiguration) -> list[str]:
    """Return every message about a configuration, in upstream's order."""
    # Parity: validation.go ValidateKubeSchedulerConfiguration, v1.36
    errors = _client_connection(config.client_connection)
    errors += _leader_election(config.leader_election)
    if config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(invalid("parallelism", config.parallelism, detail))
    errors += _profiles(config)
    errors += _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", longest, detail))
    errors += _extenders(config.extenders)
    return errors


def _client_connection(connection: ClientConnectionConfiguration) -> list[str]:
    if connection.burst >= 0:
        return []
    return [invalid("clientConnection.burst", connection.burst, "must be non-negative")]


def _leader_election(election: LeaderElectionConfiguration) -> list[str]:
    if not election.leader_elect:
        return []
    errors: list[str] = []
    times = (
        ("leaseDuration", election.lease_duration_ns),
        ("renewDeadline", election.renew_deadline_ns),
        ("retryPeriod", election.retry_period_ns),
    )
    for name, value in times:
        if value <= 0:
            where = f"leaderElection.{name}"
            errors.append(invalid(where, DurationValue(value), "must be greater than zero"))
    if election.lease_duration_ns <= election.renew_deadline_ns:
        # Upstream shows the deadline as the bad value of the lease.
        shown = DurationValue(election.renew_deadline_ns)
        detail = "must be greater than `RenewDeadline`"
        errors.append(invalid("leaderElection.leaseDuration", shown, detail))
    texts = (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    )
    errors += [required(f"leaderElection.{name}") for name, text in texts if not text]
    if election.resource_lock != "leases":
        where = "leaderElection.resourceLock"
        detail = 'resourceLock value must be "leases"'
        errors.append(invalid(where, election.resource_lock, detail))
    return errors


def _percentage(path: str, value: int | None) -> list[str]:
    if value is None or 0 <= value <= 100:
        return []
    return [invalid(path, value, "not in valid range [0-100]")]


def _profiles(config: KubeSchedulerConfiguration) -> list[str]:
    if not config.profiles:
        return [required("profiles")]
    errors: list[str] = []
    seen: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        errors += _profile(profile, path, config.api_version)
        if profile.scheduler_name in seen:
            # Upstream passes a path where the value belongs, and it prints as an empty object.
            errors.append(duplicate(f"{path}.schedulerName", {}))
        seen.add(profile.scheduler_name)
    return errors + _common_queue_sort(config.profiles)


def _profile(profile: KubeSchedulerProfile, path: str, api_version: str) -> list[str]:
    errors: list[str] = []
    if not profile.scheduler_name:
        errors.append(required(f"{path}.schedulerName"))
    errors += _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in _CLASSIC_POINTS:
        for index, plugin in enumerate(profile.plugins.at(point).enabled):
            where = f"{path}.plugins.{point}.enabled[{index}]"
            errors += _removed(plugin.name, where, api_version)
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            errors.append(duplicate(where, entry.name))
        seen.add(entry.name)
        errors += _removed(entry.name, where, api_version) or _plugin_args(entry, where)
    return errors


def _removed(name: str, path: str, api_version: str) -> list[str]:
    if name not in REMOVED_PLUGINS:
        return []
    detail = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{api_version}")'
    return [invalid(path, name, detail)]


def _plugin_args(entry: PluginConfig, path: str) -> list[str]:
    rule = _ARGS_RULES.get(entry.name)
    if rule is None:
        return []
    if not isinstance(entry.args, rule.kind):
        return [invalid(f"{path}.args", args_value(entry.args), "has to match plugin args")]
    return rule.check(entry.args, f"{path}.args")


def _common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> list[str]:
    """Compare queue sort sets before expansion: all profiles share one queue."""
    errors: list[str] = []
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        where = "profiles[0].plugins.queueSort.Enabled"
        detail = "only one queue sort plugin can be enabled"
        errors.append(invalid(where, len(first.enabled), detail))
    name = first.enabled[0].name if first.enabled else ""
    first_args: PluginArgs = None
    for entry in profiles[0].plugin_config:
        if name and entry.name == name:
            first_args = entry.args
    for index, profile in enumerate(profiles[1:], start=1):
        current = profile.plugins.queue_sort
        if current != first:
            where = f"profiles[{index}].plugins.queueSort"
            detail = "must be the same for all profiles"
            errors.append(invalid(where, _plugin_set_value(current), detail))
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != first_args:
                where = f"profiles[{index}].pluginConfig.args"
                detail = "queueSort must be the same for all profiles"
                errors.append(invalid(where, args_value(entry.args), detail))
    return errors


def _plugin_set_value(plugin_set: PluginSet) -> dict[str, Any]:
    return {
        key: [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugins] or None
        for key, plugins in (("Enabled", plugin_set.enabled), ("Disabled", plugin_set.disabled))
    }


def _extenders(extenders: tuple[Extender, ...]) -> list[str]:
    errors: list[str] = []
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            errors.append(invalid(f"{path}.weight", extender.weight, detail))
        for j, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{j}].name"
            errors += _extended_resource_name(resource.name, where)
            if resource.name in managed:
                detail = "duplicate extender managed resource name"
                errors.append(invalid(where, resource.name, detail))
            managed.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        shown = f"found {binders} extenders implementing bind"
        errors.append(invalid("extenders", shown, "only one extender can implement bind"))
    return errors


def _extended_resource_name(name: str, path: str) -> list[str]:
    errors = [invalid(path, Typed(name), message) for message in label_key_errors(name)]
    if not errors and not _is_extended(name):
        errors.append(invalid(path, name, "is an invalid extended resource name"))
    return errors


def _is_extended(name: str) -> bool:
    """Say whether a resource belongs to somebody else than Kubernetes."""
    # Parity: pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName, v1.36
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_errors("requests." + name)
