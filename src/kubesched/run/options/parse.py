"""Parsing of the command line of `kubesched run` into options.

Owns which of flags and configuration file takes precedence, and the order in which errors are
found. Never starts anything and never talks to a cluster.
Upstream: cmd/kube-scheduler/app/options/options.go, cmd/kube-scheduler/app/server.go Setup
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from kubesched.api.field_errors import aggregate_text
from kubesched.config.errors import ConfigError
from kubesched.config.feature_gates import FeatureGates, GateError, resolve_gates
from kubesched.config.gate_support import check_support, emulation_differences
from kubesched.config.load import default_config, load_config
from kubesched.config.types import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from kubesched.config.validate import validate_config
from kubesched.config.versions import KUBERNETES_VERSION
from kubesched.golang.os import read_file
from kubesched.golang.strconv import go_quote
from kubesched.ops.serving import AuthenticationSettings, AuthorizationSettings, ServingSettings
from kubesched.run.options.flags import FlagSet
from kubesched.run.options.scheduler_flags import scheduler_flags
from kubesched.run.options.validation import (
    authentication_errors,
    authentication_warnings,
    connection_error,
    device_argument_errors,
    election_error,
    lock_error,
    logging_errors,
    metrics_errors,
    serving_errors,
    tls_error,
)
from kubesched.run.options.values import (
    LoggingOptions,
    Options,
    OptionsError,
    OptionsWarning,
    Stage,
)

__all__ = ["Options", "OptionsError", "parse_options"]


def parse_options(arguments: Sequence[str], flags: FlagSet | None = None) -> Options:
    """Return the options of a command line, with the configuration file that it names.

    Args:
        arguments: The command line, without the command.
        flags: The flags of `run`, and of the command that shares them; parsing sets them.

    Raises:
        OptionsError: With upstream's text, at the first stage that finds a fault.
    """
    flags = flags or scheduler_flags()
    positional = flags.parse(arguments)
    if flags["help"]:
        return Options(show_help=True)
    if any(positional):
        listed = " ".join(map(go_quote, positional))
        text = f'"kube-scheduler" does not take any arguments, got [{listed}]'
        raise OptionsError(text, "usage")
    gates = _gates(flags)
    version = flags["version"]
    if version in ("true", "raw"):
        return Options(show_version="text" if version == "true" else "raw", feature_gates=gates)
    _reject(logging_errors(flags, gates), "logging")
    options = _from_flags(flags, gates)
    try:
        # Parity: options.go Validate, v1.36. The default configuration it looks at has no fault.
        _reject(
            gates.versions.errors()
            + serving_errors(flags)
            + authentication_errors(flags, gates)
            + metrics_errors(flags)
        )
        options = replace(options, config=_configuration(flags, gates))
        _check_start(options)
    except OptionsError as problem:
        # From here on the log has the requested format.
        problem.log_format = options.logging.format
        problem.config_file = options.config_file
        raise
    return options


def _reject(errors: list[str], stage: Stage = "command") -> None:
    if errors:
        raise OptionsError(aggregate_text(errors), stage)


def _gates(flags: FlagSet) -> FeatureGates:
    try:
        gates = resolve_gates(
            flags["feature-gates"],
            emulated_version=flags["emulated-version"],
            min_compatibility_version=flags["min-compatibility-version"],
        )
        check_support(gates)
    except GateError as problem:
        raise OptionsError(str(problem)) from None
    return gates


def _from_flags(flags: FlagSet, gates: FeatureGates) -> Options:
    """Return the options that have no counterpart in a configuration file."""
    reported = flags["version"]
    return Options(
        config_file=flags["config"],
        serving=_serving(flags),
        logging=LoggingOptions(flags["logging-format"], flags["v"], flags.text("vmodule")),
        disabled_metrics=flags["disabled-metrics"],
        feature_gates=gates,
        pod_max_in_unschedulable_pods_duration_s=(
            flags["pod-max-in-unschedulable-pods-duration"] / 1e9
        ),
        master=flags["master"],
        context=flags["context"],
        plugins=flags["plugin"],
        plugin_budgets=flags["plugin-budget"],
        write_config_to=flags["write-config-to"],
        reload=flags["reload"],
        shadow=flags["shadow"],
        shadow_report=flags["shadow-report"],
        reported_version=reported if reported.startswith("v") else KUBERNETES_VERSION,
        flags={flag.name: flags.text(flag.name) for flag in flags},
        warnings=_warnings(flags, gates),
    )


def _serving(flags: FlagSet) -> ServingSettings:
    authentication = AuthenticationSettings(
        **{
            **_fields_named_as_flags(flags, AuthenticationSettings),
            "kubeconfig": flags["authentication-kubeconfig"],
            "skip_lookup": flags["authentication-skip-lookup"],
            "tolerate_lookup_failure": flags["authentication-tolerate-lookup-failure"],
            "token_cache_ttl_s": flags["authentication-token-webhook-cache-ttl"] / 1e9,
        }
    )
    authorization = AuthorizationSettings(
        kubeconfig=flags["authorization-kubeconfig"],
        always_allow_paths=flags["authorization-always-allow-paths"],
        allow_cache_ttl_s=flags["authorization-webhook-cache-authorized-ttl"] / 1e9,
        deny_cache_ttl_s=flags["authorization-webhook-cache-unauthorized-ttl"] / 1e9,
    )
    return ServingSettings(
        **_fields_named_as_flags(flags, ServingSettings),
        port=flags["secure-port"],
        tls_sni_cert_keys=flags["tls-sni-cert-key"],
        authentication=authentication,
        authorization=authorization,
    )


def _fields_named_as_flags(flags: FlagSet, settings: type[Any]) -> dict[str, Any]:
    names = {field.name: field.name.replace("_", "-") for field in fields(settings)}
    return {field: flags[name] for field, name in names.items() if name in flags}


def _warnings(flags: FlagSet, gates: FeatureGates) -> tuple[OptionsWarning, ...]:
    return (
        *(
            OptionsWarning(
                f"Warning: setting {stage} feature gate. It will be removed in a future release.",
                {"featureGate": name, "value": value},
            )
            for name, stage, value in gates.set_too_late()
        ),
        *(
            OptionsWarning(
                "Warning: the feature stays on, although it was off in the emulated version",
                {"featureGate": name, "because": reason},
            )
            for name, reason in emulation_differences(gates)
        ),
        *map(OptionsWarning, authentication_warnings(flags)),
    )


def _configuration(flags: FlagSet, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Return the configuration, overridden by flags."""
    # Parity: options.go ApplyTo, v1.36
    path = flags["config"]
    if not path:
        return _with_election(_with_deprecated(default_config(gates), flags), flags)
    try:
        config = _with_election(load_config(read_file(path), gates), flags)
    except (ConfigError, ValueError) as problem:
        raise OptionsError(str(problem)) from None
    _reject(validate_config(config) + device_argument_errors(config, gates))
    return config


def _with_deprecated(
    config: KubeSchedulerConfiguration, flags: FlagSet
) -> KubeSchedulerConfiguration:
    """Override the configuration by the deprecated flags, which need no file."""
    connection: ClientConnectionConfiguration = msgspec.structs.replace(
        config.client_connection,
        **_fields_set(
            flags,
            kubeconfig="kubeconfig",
            content_type="kube-api-content-type",
            qps="kube-api-qps",
            burst="kube-api-burst",
        ),
    )
    return msgspec.structs.replace(
        config,
        client_connection=connection,
        **_fields_set(
            flags,
            enable_profiling="profiling",
            enable_contention_profiling="contention-profiling",
        ),
    )


def _with_election(
    config: KubeSchedulerConfiguration, flags: FlagSet
) -> KubeSchedulerConfiguration:
    """Override the configuration by the flags of leader election."""
    election: LeaderElectionConfiguration = msgspec.structs.replace(
        config.leader_election,
        **_fields_set(
            flags,
            leader_elect="leader-elect",
            lease_duration_ns="leader-elect-lease-duration",
            renew_deadline_ns="leader-elect-renew-deadline",
            retry_period_ns="leader-elect-retry-period",
            resource_lock="leader-elect-resource-lock",
            resource_name="leader-elect-resource-name",
            resource_namespace="leader-elect-resource-namespace",
        ),
    )
    return msgspec.structs.replace(config, leader_election=election)


def _fields_set(flags: FlagSet, **names: str) -> dict[str, Any]:
    """Return fields with the values of the flags that are set."""
    return {field_name: flags[name] for field_name, name in names.items() if name in flags.used}


def _check_start(options: Options) -> None:
    """Reject what upstream rejects while it starts, as far as that needs no cluster."""
    # Differs: checked before the kubeconfig is read and the port is taken, ADR 8.
    config, election = options.config, options.config.leader_election
    problem = tls_error(options.serving) if options.serving.port > 0 else None
    problem = problem or connection_error(config.client_connection)
    if options.reload and options.shadow:
        problem = problem or "--reload and --shadow cannot be given together"
    if election.leader_elect:
        problem = problem or lock_error(election.resource_lock)
        # The elector is made after the configuration has been written.
        if not options.write_config_to:
            problem = problem or election_error(election)
    if problem is not None:
        raise OptionsError(problem)
