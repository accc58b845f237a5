"""Validation of flags, with upstream's texts.

Owns the errors of values that could be parsed. Never parses a command line.
Upstream: apiserver pkg/server/options/{serving,authentication}.go, component-base
metrics/api/v1/config.go, logs/api/v1/options.go, client-go tools/leaderelection
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from kubesched.api.field_errors import DurationValue, forbidden, invalid
from kubesched.config.defaults import has_binding_timeout, has_filter_timeout
from kubesched.config.feature_gates import FeatureGates
from kubesched.config.types import (
    ClientConnectionConfiguration,
    DynamicResourcesArgs,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from kubesched.config.versions import KUBERNETES_VERSION, parse_version
from kubesched.golang.os import read_file
from kubesched.golang.strconv import go_quote
from kubesched.ops.serving import ServingError, ServingSettings
from kubesched.ops.tls_names import openssl_ciphers, openssl_curves, tls_version
from kubesched.run.options.flags import FlagSet

_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_OF_METRIC: Final = re.compile(rf"{_METRIC},{_LABEL}")
_JITTER_FACTOR: Final = 1.2


def serving_errors(flags: FlagSet) -> list[str]:
    """Return the errors of the port."""
    # Parity: serving.go Validate, v1.36, whose first condition also holds for ports too high.
    port = flags["secure-port"]
    if port > 65535:
        range_text = "between 1 and 65535, inclusive. It cannot be turned off with 0"
    elif port < 0:
        range_text = "between 0 and 65535, inclusive. 0 for turning off secure port"
    else:
        return []
    return [f"--secure-port {port} must be {range_text}"]


def tls_error(serving: ServingSettings) -> str | None:
    """Return the first error in the TLS settings."""
    try:
        openssl_ciphers(serving.tls_cipher_suites)
        openssl_curves(serving.tls_curve_preferences)
        tls_version(serving.tls_min_version)
    except ServingError as problem:
        return str(problem)
    return None


def authentication_errors(flags: FlagSet, gates: FeatureGates) -> list[str]:
    """Return the errors in header names."""
    names = ("username-headers", "group-headers", "extra-headers-prefix", "allowed-names")
    uid_headers = flags["requestheader-uid-headers"]
    is_uid_enabled = gates.is_enabled("RemoteRequestHeaderUID")
    errors = [
        f'empty value in "requestheader-{name}"'
        for name in (*names, *(("uid-headers",) if is_uid_enabled else ()))
        if any(not value.strip() for value in flags[f"requestheader-{name}"])
    ]
    if uid_headers and not is_uid_enabled:
        errors.append(
            '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be '
            "enabled"
        )
    elif uid_headers and not _has_header(uid_headers, "x-remote-uid"):
        errors.append(_without_standard("uid-headers", "X-Remote-Uid header"))
    return errors


def authentication_warnings(flags: FlagSet) -> list[str]:
    """Return warnings about header names."""
    standard = {
        "username-headers": "X-Remote-User header",
        "group-headers": "X-Remote-Group header",
        "extra-headers-prefix": "X-Remote-Extra- header prefix",
    }
    return [
        _without_standard(name, header)
        for name, header in standard.items()
        if (values := flags[f"requestheader-{name}"])
        and not _has_header(values, header.split(" ")[0].lower())
    ]


def _without_standard(name: str, header: str) -> str:
    return (
        f"--requestheader-{name} is set without specifying the standard {header} - "
        "API aggregation will not work"
    )


def _has_header(values: Sequence[str], standard: str) -> bool:
    return any(value.lower() == standard for value in values)


def metrics_errors(flags: FlagSet) -> list[str]:
    """Return the errors in the metrics options."""
    # Parity: metrics/api/v1/config.go Validate, v1.36
    errors = []
    hidden_for, disabled = flags["show-hidden-metrics-for-version"], flags["disabled-metrics"]
    labels, manifest = flags["allow-metric-labels"], flags["allow-metric-labels-manifest"]
    previous = str(parse_version(KUBERNETES_VERSION).minor_version.minus_one())
    if hidden_for not in ("", previous):
        detail = (
            f"must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
        errors.append(invalid("metrics.showHiddenMetricsForVersion", hidden_for, detail))
    malformed = next((name for name in disabled if re.fullmatch(_METRIC, name) is None), None)
    if malformed is not None:
        quoted = go_quote(malformed)
        detail = f'must be fully qualified metric names matching "^{_METRIC}$", got {quoted}'
        errors.append(invalid("metrics.disabledMetrics", list(disabled), detail))
    errors += _label_errors("metrics.allowListMapping", labels or {})
    if manifest:
        errors += _manifest_errors("metrics.allowListMappingManifest", manifest)
    if labels is not None and manifest:
        options: dict[str, object] = {
            "showHiddenMetricsForVersion": hidden_for,
            "disabledMetrics": list(disabled),
            "allowListMapping": labels,
            "allowListMappingManifest": manifest,
        }
        shown = {key: value for key, value in options.items() if value}
        detail = "cannot specify both allowListMapping and allowListMappingManifest"
        errors.append(invalid("metrics", shown, detail))
    return errors


def _label_errors(path: str, labels: Mapping[str, object]) -> list[str]:
    if all(_LABEL_OF_METRIC.fullmatch(key) for key in labels):
        return []
    detail = (
        f'must have keys with format `metricName,labelName` where metricName matches "{_METRIC}" '
        f'and labelName matches "{_LABEL}"'
    )
    return [invalid(path, dict(labels), detail)]


def _manifest_errors(path: str, manifest: str) -> list[str]:
    try:
        data = read_file(os.path.normpath(manifest))
    except ValueError as problem:
        return [invalid(path, manifest, f"failed to read allow list manifest: {problem}")]
    try:
        labels = _label_manifest(data)
    except ValueError as problem:
        return [invalid(path, manifest, f"failed to parse allow list manifest: {problem}")]
    errors = _label_errors(path, labels)
    if errors:
        # Go prints the list of its errors as a list.
        detail = f"invalid allow list mapping in manifest: [{errors[0]}]"
        return [invalid(path, manifest, detail)]
    return []


def _label_manifest(data: bytes) -> dict[str, str]:
    """Return the map in a file of allowed labels; raise ValueError if there is none."""
    try:
        labels = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ValueError(f"yaml: {' '.join(str(problem).split())}") from None
    if labels is None:
        return {}
    if not isinstance(labels, dict):
        raise ValueError("yaml: unmarshal errors: the document is no map of texts")
    for key, value in labels.items():
        if not isinstance(key, str) or isinstance(value, (dict, list)):
            raise ValueError(f"yaml: unmarshal errors: {key} is no text with a text")
    return {key: "" if value is None else str(value) for key, value in labels.items()}


def logging_errors(flags: FlagSet, gates: FeatureGates) -> list[str]:
    """Return the errors in the logging options."""
    # Parity: logs/api/v1/options.go Validate, v1.36
    errors = []
    form, flush_ns = flags["logging-format"], flags["log-flush-frequency"]
    if flush_ns <= 0:
        shown = DurationValue(flush_ns)
        errors.append(invalid("flushFrequency", shown, "Must be greater than zero"))
    if form not in ("text", "json"):
        errors.append(invalid("format", form, "Unsupported log format"))
    elif form == "json" and not gates.is_enabled("LoggingBetaOptions"):
        detail = "Log format json is disabled, see LoggingBetaOptions feature"
        errors.append(forbidden("format", detail))
    if flags["vmodule"] and form not in ("", "text"):
        errors.append(forbidden("vmodule", "Only supported for text log format"))
    if not gates.is_enabled("LoggingAlphaOptions"):
        detail = "Feature LoggingAlphaOptions is disabled"
        for name in ("text", "json"):
            if flags[f"log-{name}-split-stream"]:
                errors.append(forbidden(f"options.{name}.splitStream", detail))
            if flags[f"log-{name}-info-buffer-size"] != "0":
                errors.append(forbidden(f"options.{name}.infoBufferSize", detail))
    return errors


def connection_error(connection: ClientConnectionConfiguration) -> str | None:
    """Return the errors in the request limits."""
    # Parity: client-go kubernetes/clientset.go NewForConfigAndClient, v1.36
    if connection.qps > 0 and connection.burst <= 0:
        return (
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to "
            "greater than 0"
        )
    return None


def lock_error(lock: str) -> str | None:
    """Return the errors in the resource lock."""
    # Parity: resourcelock/interface.go new, v1.36
    if lock == "leases":
        return None
    prefix = "couldn't create resource lock: "
    if lock in ("endpoints", "configmaps", "endpointsleases"):
        return f"{prefix}{lock} lock is removed, migrate to leases"
    if lock == "configmapsleases":
        return f"{prefix}{lock} lock is removed, migrated to leases"
    return f"{prefix}Invalid lock-type {lock}"


def election_error(election: LeaderElectionConfiguration) -> str | None:
    """Return the first error in the durations of leader election."""
    # Parity: leaderelection.go NewLeaderElector, v1.36
    lease, renew = election.lease_duration_ns, election.renew_deadline_ns
    retry = election.retry_period_ns
    problem = None
    if lease <= renew:
        problem = "leaseDuration must be greater than renewDeadline"
    elif renew <= int(_JITTER_FACTOR * retry):
        problem = "renewDeadline must be greater than retryPeriod*JitterFactor"
    elif lease < 1:
        problem = "leaseDuration must be greater than zero"
    elif renew < 1:
        problem = "renewDeadline must be greater than zero"
    elif retry < 1:
        problem = "retryPeriod must be greater than zero"
    return None if problem is None else f"couldn't create leader elector: {problem}"


def device_argument_errors(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[str]:
    """Return errors for arguments of DynamicResources whose gates are disabled."""
    # Parity: validation_pluginargs.go ValidateDynamicResourcesArgs, v1.36
    errors = []
    for i, profile in enumerate(config.profiles):
        for j, entry in enumerate(profile.plugin_config):
            if not isinstance(entry.args, DynamicResourcesArgs):
                continue
            path = f"profiles[{i}].pluginConfig[{j}].args"
            if not has_filter_timeout(gates) and entry.args.filter_timeout_ns is not None:
                detail = "DRASchedulingFilterTimeout feature gate is disabled"
                errors.append(forbidden(f"{path}.filterTimeout", detail))
            if not has_binding_timeout(gates) and entry.args.binding_timeout_ns is not None:
                detail = (
                    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is "
                    "disabled"
                )
                errors.append(forbidden(f"{path}.bindingTimeout", detail))
    return errors
