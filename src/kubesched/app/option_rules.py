"""Rules for the values of flags, with upstream's words.

Owns what is wrong with a value that could be read. Never reads a command line.
Upstream: apiserver pkg/server/options/{serving,authentication}.go, component-base
metrics/api/v1/config.go, logs/api/v1/options.go, cli/flag/{ciphersuites_flag,curves_flag}.go,
client-go tools/leaderelection
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from kubesched.app.go_values import read_file
from kubesched.config.feature_gates import FeatureGates
from kubesched.config.field_errors import DurationValue, forbidden, invalid
from kubesched.config.types import (
    ClientConnectionConfiguration,
    DynamicResourcesArgs,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from kubesched.config.versions import KUBERNETES_VERSION, parse_version
from kubesched.objects.field_errors import go_quote

_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_OF_METRIC: Final = re.compile(rf"{_METRIC},{_LABEL}")
_JITTER_FACTOR: Final = 1.2

# Parity: Go 1.26 crypto/tls CipherSuites, InsecureCipherSuites, and two old names.
CIPHER_SUITES: Final = frozenset((
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_RC4_128_SHA",
))  # fmt: skip
CURVES: Final = frozenset((23, 24, 25, 29, 4587, 4588, 4589))
TLS_VERSIONS: Final = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")


def serving_errors(port: int) -> list[str]:
    """Return what is wrong with the port."""
    # Parity: serving.go Validate, v1.36, whose first condition also holds for ports too high.
    if port > 65535:
        range_text = "between 1 and 65535, inclusive. It cannot be turned off with 0"
    elif port < 0:
        range_text = "between 0 and 65535, inclusive. 0 for turning off secure port"
    else:
        return []
    return [f"--secure-port {port} must be {range_text}"]


def tls_error(cipher_suites: Sequence[str], curves: Sequence[int], min_version: str) -> str | None:
    """Return the first thing that is wrong with the settings of TLS."""
    for name in cipher_suites:
        if name not in CIPHER_SUITES:
            return f"Cipher suite {name} not supported or doesn't exist"
    for index, number in enumerate(curves):
        if not 0 < number < 1 << 16:
            return f"curve preference {number} is out of range (must be 1-65535)"
        if number in curves[:index]:
            return f"duplicate curve preference {number}"
        if number not in CURVES:
            return f"curve preference {number} is not supported by the current Go version"
    if min_version and min_version not in TLS_VERSIONS:
        return f"unknown tls version {go_quote(min_version)}"
    return None


def authentication_errors(
    headers: Mapping[str, Sequence[str]], uid_headers: Sequence[str], *, has_uid: bool
) -> list[str]:
    """Return what is wrong with names of headers, given by the ends of their flags' names."""
    errors = [
        f'empty value in "requestheader-{name}"'
        for name, values in headers.items()
        if _has_blank(values)
    ]
    if not has_uid:
        if uid_headers:
            errors.append(
                '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be '
                "enabled"
            )
        return errors
    if _has_blank(uid_headers):
        errors.append('empty value in "requestheader-uid-headers"')
    if uid_headers and not _has_header(uid_headers, "x-remote-uid"):
        errors.append(_without_standard("uid-headers", "X-Remote-Uid header"))
    return errors


def authentication_warnings(headers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what is odd about names of headers."""
    standard = {
        "username-headers": "X-Remote-User header",
        "group-headers": "X-Remote-Group header",
        "extra-headers-prefix": "X-Remote-Extra- header prefix",
    }
    return [
        _without_standard(name, what)
        for name, what in standard.items()
        if headers[name] and not _has_header(headers[name], what.split(" ")[0].lower())
    ]


def _without_standard(name: str, what: str) -> str:
    return (
        f"--requestheader-{name} is set without specifying the standard {what} - "
        "API aggregation will not work"
    )


def _has_blank(values: Sequence[str]) -> bool:
    return any(not value.strip() for value in values)


def _has_header(values: Sequence[str], wanted: str) -> bool:
    return any(value.lower() == wanted for value in values)


def metrics_errors(
    *,
    hidden_for: str,
    disabled: Sequence[str],
    labels: Mapping[str, str] | None,
    manifest: str,
) -> list[str]:
    """Return what is wrong with the choice of metrics."""
    # Parity: metrics/api/v1/config.go Validate, v1.36
    errors = []
    previous = str(parse_version(KUBERNETES_VERSION).minor_version.minus_one())
    if hidden_for not in ("", previous):
        detail = (
            f"must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
        errors.append(invalid("metrics.showHiddenMetricsForVersion", hidden_for, detail))
    for name in disabled:
        if re.fullmatch(_METRIC, name) is None:
            detail = (
                f'must be fully qualified metric names matching "^{_METRIC}$", got {go_quote(name)}'
            )
            errors.append(invalid("metrics.disabledMetrics", list(disabled), detail))
            break
    errors += _label_errors("metrics.allowListMapping", labels or {})
    if manifest:
        errors += _manifest_errors("metrics.allowListMappingManifest", manifest)
    if labels is not None and manifest:
        whole: dict[str, object] = {
            "showHiddenMetricsForVersion": hidden_for,
            "disabledMetrics": list(disabled),
            "allowListMapping": dict(labels),
            "allowListMappingManifest": manifest,
        }
        given = {key: value for key, value in whole.items() if value}
        detail = "cannot specify both allowListMapping and allowListMappingManifest"
        errors.append(invalid("metrics", given, detail))
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
        labels = label_manifest(data)
    except ValueError as problem:
        return [invalid(path, manifest, f"failed to parse allow list manifest: {problem}")]
    errors = _label_errors(path, labels)
    if errors:
        # Go prints the list of its errors as a list.
        detail = f"invalid allow list mapping in manifest: [{errors[0]}]"
        return [invalid(path, manifest, detail)]
    return []


def label_manifest(data: bytes) -> dict[str, str]:
    """Return the map that a file of allowed labels holds; raise ValueError if it holds none."""
    try:
        found = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ValueError(f"yaml: {' '.join(str(problem).split())}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError("yaml: unmarshal errors: the document is no map of texts")
    for key, value in found.items():
        if not isinstance(key, str) or isinstance(value, (dict, list)):
            raise ValueError(f"yaml: unmarshal errors: {key} is no text with a text")
    return {key: "" if value is None else str(value) for key, value in found.items()}


def logging_errors(
    *,
    form: str,
    flush_ns: int,
    vmodule: Sequence[tuple[str, int]],
    streams: Mapping[str, tuple[bool, int]],
    gates: FeatureGates,
) -> list[str]:
    """Return what is wrong with the settings of the log; `streams` by form: split, buffer size."""
    # Parity: logs/api/v1/options.go Validate, v1.36
    errors = []
    if flush_ns <= 0:
        shown = DurationValue(flush_ns)
        errors.append(invalid("flushFrequency", shown, "Must be greater than zero"))
    if form not in ("text", "json"):
        errors.append(invalid("format", form, "Unsupported log format"))
    elif form == "json" and not gates.is_enabled("LoggingBetaOptions"):
        detail = "Log format json is disabled, see LoggingBetaOptions feature"
        errors.append(forbidden("format", detail))
    if vmodule and form not in ("", "text"):
        errors.append(forbidden("vmodule", "Only supported for text log format"))
    if not gates.is_enabled("LoggingAlphaOptions"):
        detail = "Feature LoggingAlphaOptions is disabled"
        for name, (is_split, buffer_size) in streams.items():
            if is_split:
                errors.append(forbidden(f"options.{name}.splitStream", detail))
            if buffer_size:
                errors.append(forbidden(f"options.{name}.infoBufferSize", detail))
    return errors


def connection_error(connection: ClientConnectionConfiguration) -> str | None:
    """Return what is wrong with the limits of requests."""
    # Parity: client-go kubernetes/clientset.go NewForConfigAndClient, v1.36
    if connection.qps > 0 and connection.burst <= 0:
        return (
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to "
            "greater than 0"
        )
    return None


def lock_error(lock: str) -> str | None:
    """Return what is wrong with the kind of a lock."""
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
    """Return the first thing that is wrong with the times of an election."""
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


def device_argument_errors(
    config: KubeSchedulerConfiguration, *, has_filter_timeout: bool, has_binding_timeout: bool
) -> list[str]:
    """Return arguments of DynamicResources that may not be given while their gates are off."""
    # Parity: validation_pluginargs.go ValidateDynamicResourcesArgs, v1.36
    errors = []
    for i, profile in enumerate(config.profiles):
        for j, entry in enumerate(profile.plugin_config):
            if not isinstance(entry.args, DynamicResourcesArgs):
                continue
            path = f"profiles[{i}].pluginConfig[{j}].args"
            if not has_filter_timeout and entry.args.filter_timeout_ns is not None:
                detail = "DRASchedulingFilterTimeout feature gate is disabled"
                errors.append(forbidden(f"{path}.filterTimeout", detail))
            if not has_binding_timeout and entry.args.binding_timeout_ns is not None:
                detail = (
                    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is "
                    "disabled"
                )
                errors.append(forbidden(f"{path}.bindingTimeout", detail))
    return errors
