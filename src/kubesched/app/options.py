"""What the command line of `kubesched run` means.

Owns the values that flags and the configuration file give together, which of them goes first, and
the order in which faults are found. Never starts anything and never talks to a cluster.
Upstream: cmd/kube-scheduler/app/options/options.go, cmd/kube-scheduler/app/server.go Setup
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from kubesched.app.flags import FlagError, FlagSet
from kubesched.app.go_values import read_file
from kubesched.app.option_groups import scheduler_flags
from kubesched.app.option_rules import (
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
from kubesched.app.option_values import (
    AuthenticationOptions,
    AuthorizationOptions,
    LoggingOptions,
    MetricsOptions,
    Options,
    OptionsError,
    OptionsWarning,
    ServingOptions,
)
from kubesched.config.defaults import DefaultingGates
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
from kubesched.objects.field_errors import aggregate_text, go_quote

__all__ = ["Options", "OptionsError", "parse_options"]


def parse_options(arguments: Sequence[str], flags: FlagSet | None = None) -> Options:
    """Return what a command line means, the configuration file it names read.

    Args:
        arguments: The command line, without the command.
        flags: The flags of `run` and those that another command has beside them; they are set.

    Raises:
        OptionsError: With upstream's text, at the first stage that finds a fault.
    """
    flags = flags or scheduler_flags()
    try:
        positional = flags.parse(arguments)
    except FlagError as problem:
        raise OptionsError(str(problem), "usage", problem.flag) from None
    if flags["help"].value.value:
        return Options(show_help=True)
    if any(positional):
        listed = " ".join(map(go_quote, positional))
        text = f'"kube-scheduler" does not take any arguments, got [{listed}]'
        raise OptionsError(text, "usage")
    gates = _gates(flags)
    version = str(flags["version"].value)
    if version in ("true", "raw"):
        return Options(show_version="text" if version == "true" else "raw", feature_gates=gates)
    options = _from_flags(flags, gates)
    _check_logging(flags, gates)
    try:
        _check_all(options, gates)
        options = replace(options, config=_configuration(flags, gates))
        _check_what_starts(options)
    except OptionsError as problem:
        # From here on the log has the form that was asked for.
        problem.log_format = options.logging.format
        problem.config_file = options.config_file
        raise
    return options


def _value(flags: FlagSet, name: str) -> Any:
    return flags[name].value.value


def _seconds(flags: FlagSet, name: str) -> float:
    return float(_value(flags, name)) / 1e9


def _gates(flags: FlagSet) -> FeatureGates:
    try:
        gates = resolve_gates(
            _value(flags, "feature-gates"),
            emulated_version=_value(flags, "emulated-version"),
            min_compatibility_version=_value(flags, "min-compatibility-version"),
        )
        check_support(gates)
    except GateError as problem:
        raise OptionsError(str(problem)) from None
    return gates


def _from_flags(flags: FlagSet, gates: FeatureGates) -> Options:
    """Return the options that have no counterpart in a configuration file."""
    reported = str(flags["version"].value)
    return Options(
        config_file=_value(flags, "config"),
        serving=_serving(flags),
        authentication=_authentication(flags),
        authorization=AuthorizationOptions(
            kubeconfig=_value(flags, "authorization-kubeconfig"),
            allow_cache_ttl_s=_seconds(flags, "authorization-webhook-cache-authorized-ttl"),
            deny_cache_ttl_s=_seconds(flags, "authorization-webhook-cache-unauthorized-ttl"),
            always_allow_paths=_value(flags, "authorization-always-allow-paths"),
        ),
        metrics=MetricsOptions(
            show_hidden_metrics_for_version=_value(flags, "show-hidden-metrics-for-version"),
            disabled_metrics=_value(flags, "disabled-metrics"),
            allow_metric_labels=_value(flags, "allow-metric-labels"),
            allow_metric_labels_manifest=_value(flags, "allow-metric-labels-manifest"),
        ),
        logging=LoggingOptions(
            format=_value(flags, "logging-format"),
            verbosity=_value(flags, "v"),
            vmodule=str(flags["vmodule"].value),
            flush_frequency_s=_seconds(flags, "log-flush-frequency"),
        ),
        feature_gates=gates,
        pod_max_in_unschedulable_pods_duration_s=_seconds(
            flags, "pod-max-in-unschedulable-pods-duration"
        ),
        master=_value(flags, "master"),
        context=_value(flags, "context"),
        plugins=_value(flags, "plugin"),
        plugin_budgets=_value(flags, "plugin-budget"),
        write_config_to=_value(flags, "write-config-to"),
        reload=_value(flags, "reload"),
        shadow=_value(flags, "shadow"),
        shadow_report=_value(flags, "shadow-report"),
        reported_version=reported if reported.startswith("v") else KUBERNETES_VERSION,
        flags={flag.name: str(flag.value) for flag in flags},
        warnings=_warnings(flags, gates),
    )


def _serving(flags: FlagSet) -> ServingOptions:
    return ServingOptions(
        bind_address=_value(flags, "bind-address"),
        secure_port=_value(flags, "secure-port"),
        disable_http2_serving=_value(flags, "disable-http2-serving"),
        http2_max_streams_per_connection=_value(flags, "http2-max-streams-per-connection"),
        cert_dir=_value(flags, "cert-dir"),
        tls_cert_file=_value(flags, "tls-cert-file"),
        tls_private_key_file=_value(flags, "tls-private-key-file"),
        tls_cipher_suites=_value(flags, "tls-cipher-suites"),
        tls_curve_preferences=_value(flags, "tls-curve-preferences"),
        tls_min_version=_value(flags, "tls-min-version"),
        tls_sni_cert_keys=_value(flags, "tls-sni-cert-key"),
        permit_port_sharing=_value(flags, "permit-port-sharing"),
        permit_address_sharing=_value(flags, "permit-address-sharing"),
    )


def _authentication(flags: FlagSet) -> AuthenticationOptions:
    return AuthenticationOptions(
        kubeconfig=_value(flags, "authentication-kubeconfig"),
        skip_lookup=_value(flags, "authentication-skip-lookup"),
        tolerate_lookup_failure=_value(flags, "authentication-tolerate-lookup-failure"),
        token_cache_ttl_s=_seconds(flags, "authentication-token-webhook-cache-ttl"),
        client_ca_file=_value(flags, "client-ca-file"),
        requestheader_client_ca_file=_value(flags, "requestheader-client-ca-file"),
        requestheader_allowed_names=_value(flags, "requestheader-allowed-names"),
        requestheader_username_headers=_value(flags, "requestheader-username-headers"),
        requestheader_uid_headers=_value(flags, "requestheader-uid-headers"),
        requestheader_group_headers=_value(flags, "requestheader-group-headers"),
        requestheader_extra_headers_prefix=_value(flags, "requestheader-extra-headers-prefix"),
    )


def _warnings(flags: FlagSet, gates: FeatureGates) -> tuple[OptionsWarning, ...]:
    warnings = [
        OptionsWarning(
            f"Warning: setting {stage} feature gate. It will be removed in a future release.",
            {"featureGate": name, "value": value},
        )
        for name, stage, value in gates.set_too_late()
    ]
    warnings += [
        OptionsWarning(
            "Warning: the feature stays on, although it was off in the emulated version",
            {"featureGate": name, "because": reason},
        )
        for name, reason in emulation_differences(gates)
    ]
    headers = {
        name: _value(flags, f"requestheader-{name}")
        for name in ("username-headers", "group-headers", "extra-headers-prefix")
    }
    return tuple(warnings) + tuple(map(OptionsWarning, authentication_warnings(headers)))


def _check_logging(flags: FlagSet, gates: FeatureGates) -> None:
    errors = logging_errors(
        form=_value(flags, "logging-format"),
        flush_ns=_value(flags, "log-flush-frequency"),
        vmodule=_value(flags, "vmodule"),
        streams={
            name: (
                _value(flags, f"log-{name}-split-stream"),
                _value(flags, f"log-{name}-info-buffer-size"),
            )
            for name in ("text", "json")
        },
        gates=gates,
    )
    if errors:
        raise OptionsError(aggregate_text(errors), "logging")


def _check_all(options: Options, gates: FeatureGates) -> None:
    """Refuse what upstream refuses before it reads a file: every fault at once."""
    # Parity: options.go Validate, v1.36. The default configuration it looks at has no fault.
    who = options.authentication
    errors = gates.versions.errors()
    errors += serving_errors(options.serving.secure_port)
    errors += authentication_errors(
        {
            "username-headers": who.requestheader_username_headers,
            "group-headers": who.requestheader_group_headers,
            "extra-headers-prefix": who.requestheader_extra_headers_prefix,
            "allowed-names": who.requestheader_allowed_names,
        },
        who.requestheader_uid_headers,
        has_uid=gates.is_enabled("RemoteRequestHeaderUID"),
    )
    errors += metrics_errors(
        hidden_for=options.metrics.show_hidden_metrics_for_version,
        disabled=options.metrics.disabled_metrics,
        labels=options.metrics.allow_metric_labels,
        manifest=options.metrics.allow_metric_labels_manifest,
    )
    if errors:
        raise OptionsError(aggregate_text(errors))


def _configuration(flags: FlagSet, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Return the configuration with the flags that go before it."""
    # Parity: options.go ApplyTo, v1.36
    path = _value(flags, "config")
    defaults = DefaultingGates(
        dynamic_resource_allocation=gates.is_enabled("DynamicResourceAllocation"),
        node_declared_features=gates.is_enabled("NodeDeclaredFeatures"),
        dra_filter_timeout=gates.is_enabled("DRASchedulerFilterTimeout"),
        dra_binding_timeout=gates.is_enabled("DRADeviceBindingConditions")
        and gates.is_enabled("DRAResourceClaimDeviceStatus"),
    )
    if not path:
        return _with_election(_with_deprecated(default_config(defaults), flags), flags)
    try:
        config = _with_election(load_config(read_file(path), defaults), flags)
        _check_file(config, defaults)
    except (ConfigError, ValueError) as problem:
        raise OptionsError(str(problem)) from None
    return config


def _check_file(config: KubeSchedulerConfiguration, gates: DefaultingGates) -> None:
    errors = validate_config(config)
    errors += device_argument_errors(
        config,
        has_filter_timeout=gates.dra_filter_timeout,
        has_binding_timeout=gates.dra_binding_timeout,
    )
    if errors:
        raise OptionsError(aggregate_text(errors))


def _with_deprecated(
    config: KubeSchedulerConfiguration, flags: FlagSet
) -> KubeSchedulerConfiguration:
    """Lay flags over the configuration that a file would give."""
    connection: ClientConnectionConfiguration = msgspec.structs.replace(
        config.client_connection,
        **_given(
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
        **_given(
            flags,
            enable_profiling="profiling",
            enable_contention_profiling="contention-profiling",
        ),
    )


def _with_election(
    config: KubeSchedulerConfiguration, flags: FlagSet
) -> KubeSchedulerConfiguration:
    """Lay the flags of the election over a configuration."""
    election: LeaderElectionConfiguration = msgspec.structs.replace(
        config.leader_election,
        **_given(
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


def _given(flags: FlagSet, **names: str) -> dict[str, Any]:
    """Return fields with the values of those flags that were given."""
    return {
        field_name: _value(flags, name) for field_name, name in names.items() if flags[name].is_set
    }


def _check_what_starts(options: Options) -> None:
    """Refuse what upstream would find out while it starts, as far as that takes no cluster."""
    # Differs: told before the kubeconfig is read and the port is taken, ADR 8.
    serving, election = options.serving, options.config.leader_election
    problem = None
    if serving.secure_port > 0:
        problem = tls_error(
            serving.tls_cipher_suites, serving.tls_curve_preferences, serving.tls_min_version
        )
    problem = problem or connection_error(options.config.client_connection)
    if options.reload and options.shadow:
        problem = problem or "--reload and --shadow cannot be given together"
    if election.leader_elect:
        problem = problem or lock_error(election.resource_lock)
        # The elector is made after the configuration has been written.
        if not options.write_config_to:
            problem = problem or election_error(election)
    if problem is not None:
        raise OptionsError(problem)
