"""Validation of the configuration.

Owns the rules for everything but plugin arguments (`validate_args`), and the order of errors.
Never changes the configuration.
Upstream: pkg/scheduler/apis/config/validation/validation.go; component-base
config/validation/validation.go
"""

from typing import Any

import msgspec

from kubesched.api.field_errors import (
    DurationValue,
    Typed,
    aggregate_text,
    duplicate,
    invalid,
    label_key_errors,
    required,
)
from kubesched.config.errors import ConfigError
from kubesched.config.schema import API_VERSION, ARGS, POINTS
from kubesched.config.types import (
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    NodeAffinityArgs,
    PluginArgs,
    PluginConfig,
    PluginSet,
    PodTopologySpreadArgs,
    RawArgs,
)
from kubesched.config.validate_args import VALIDATORS
from kubesched.golang.time import format_duration

_REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")

# The points that are searched for removed plugins. Upstream walks a map of them, so that the order
# of its messages is not determined; here it is that of the type.
_CLASSIC_POINTS = tuple(
    point for point in POINTS if point not in ("multiPoint", "placementGenerate", "placementScore")
)


def check_config(config: KubeSchedulerConfiguration) -> None:
    """Reject an invalid configuration.

    Raises:
        ConfigError: At stage "validate", with all messages in one text.
    """
    errors = validate_config(config)
    if errors:
        raise ConfigError("validate", aggregate_text(errors))


def validate_config(config: KubeSchedulerConfiguration) -> list[str]:
    """Return every error of a configuration, in upstream's order."""
    # Parity: validation.go ValidateKubeSchedulerConfiguration, v1.36
    errors = []
    burst = config.client_connection.burst
    if burst < 0:
        errors.append(invalid("clientConnection.burst", burst, "must be non-negative"))
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
        errors += _profile(profile, path)
        if profile.scheduler_name in seen:
            # Upstream passes a path where the value belongs, and it prints as an empty object.
            errors.append(duplicate(f"{path}.schedulerName", {}))
        seen.add(profile.scheduler_name)
    return errors + _common_queue_sort(config.profiles)


def _profile(profile: KubeSchedulerProfile, path: str) -> list[str]:
    errors: list[str] = []
    if not profile.scheduler_name:
        errors.append(required(f"{path}.schedulerName"))
    errors += _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point in _CLASSIC_POINTS:
        for index, plugin in enumerate(profile.plugins.at(point).enabled):
            where = f"{path}.plugins.{point}.enabled[{index}]"
            errors += _removed(plugin.name, where)
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            errors.append(duplicate(where, entry.name))
        seen.add(entry.name)
        errors += _removed(entry.name, where) or _plugin_args(entry, where)
    return errors


def _removed(name: str, path: str) -> list[str]:
    if name not in _REMOVED_PLUGINS:
        return []
    detail = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return [invalid(path, name, detail)]


def _plugin_args(entry: PluginConfig, path: str) -> list[str]:
    # Parity: validation.go validatePluginConfig, v1.36. Upstream files the rule for Fit under the
    # name of its type, so that a file's Fit arguments are checked when the plugin is built, and a
    # plugin of that very name is rejected.
    fit = {"NodeResourcesFit": "", "NodeResourcesFitArgs": "NodeResourcesFitArgs"}
    shape = ARGS.get(fit.get(entry.name, f"{entry.name}Args"))
    if shape is None or shape.internal is None:
        return []
    if not isinstance(entry.args, shape.internal):
        return [invalid(f"{path}.args", _args_value(entry.args), "has to match plugin args")]
    return VALIDATORS[shape.internal](entry.args, f"{path}.args")


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
                errors.append(invalid(where, _args_value(entry.args), detail))
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
    """Return whether a resource is an extended one, outside kubernetes.io."""
    # Parity: pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName, v1.36
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_errors("requests." + name)


def _args_value(args: PluginArgs) -> Any:
    """Return arguments as the value that Go's json.Marshal makes of the internal object."""
    if isinstance(args, RawArgs):
        return args.value
    if isinstance(args, NodeAffinityArgs):
        return {"AddedAffinity": args.added_affinity_wire}
    if isinstance(args, PodTopologySpreadArgs):
        return {
            "DefaultConstraints": list(args.default_constraints_wire) or None,
            "DefaultingType": args.defaulting_type,
        }
    return _internal_value(args)


def _internal_value(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        return dict(_internal_field(name, getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, tuple):
        return [_internal_value(item) for item in value] or None
    return value


def _internal_field(name: str, value: object) -> tuple[str, Any]:
    """Return a field under its Go name; times are shown as durations."""
    if name.endswith("_ns"):
        name = name.removesuffix("_ns")
        value = format_duration(value) if isinstance(value, int) else None
    return "".join(part.capitalize() for part in name.split("_")), _internal_value(value)
