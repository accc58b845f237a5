"""The flags of `kubesched run`, group by group.

Owns which flags there are, their defaults, and what help says about them. Names, types, groups and
defaults are upstream's, so that a command line of kube-scheduler works unchanged; the last group
is ours. Never reads a value: options does.
Upstream: cmd/kube-scheduler/app/options/{options,deprecated}.go, apiserver
pkg/server/options/{serving,authentication,authorization}.go, component-base config/options,
compatibility/registry.go, metrics/options.go, logs/api/v1/options.go
"""

from __future__ import annotations

from typing import Final

from kubesched.app.flag_values import (
    BoolValue,
    DurationValue,
    Float32Value,
    GatesValue,
    Int32sValue,
    Int32Value,
    IntValue,
    IPValue,
    LevelValue,
    NamedCertKeysValue,
    QuantityValue,
    TextMapValue,
    TextsValue,
    TextValue,
    VersionValue,
    VModuleValue,
    WholeTextsValue,
)
from kubesched.app.flags import Flag, FlagSet
from kubesched.app.plugin_budgets import PluginBudgetsValue
from kubesched.config.gate_support import ALWAYS_ON, HONOURED, LACKING

PORT: Final = 10259
_SECOND_NS: Final = 1_000_000_000
_NOT_WITH_CONFIG: Final = "Without --config only."


def scheduler_flags() -> FlagSet:
    """Return every flag, unset."""
    flags = FlagSet()
    flags.add("misc", _misc())
    flags.add("secure serving", _secure_serving())
    flags.add("authentication", _authentication())
    flags.add("authorization", _authorization())
    flags.add("deprecated", _deprecated())
    flags.add("leader election", _leader_election())
    flags.add("feature gate", _feature_gate())
    flags.add("metrics", _metrics())
    flags.add("logs", _logs())
    flags.add("kubesched", _kubesched())
    flags.add("global", _global())
    return flags


def _misc() -> list[Flag]:
    return [
        Flag("config", TextValue(), "Configuration file (KubeSchedulerConfiguration v1)."),
        Flag(
            "master",
            TextValue(),
            "URL of the API server; goes before the server of the kubeconfig.",
        ),
        Flag(
            "write-config-to",
            TextValue(),
            "Write the effective configuration to this file and exit.",
        ),
    ]


def _secure_serving() -> list[Flag]:
    return [
        Flag(
            "bind-address",
            IPValue("0.0.0.0"),
            "Address to serve health, metrics and debugging on; 0.0.0.0 and :: mean all.",
        ),
        Flag(
            "cert-dir",
            TextValue(),
            "Directory of kube-scheduler.crt and .key, which are made if they are not there. "
            "Without it the certificate lives in memory.",
        ),
        Flag(
            "disable-http2-serving", BoolValue(), "Serve HTTP/1.1 only, as kubesched always does."
        ),
        Flag(
            "http2-max-streams-per-connection",
            IntValue(),
            "Accepted for kube-scheduler's sake: there is no HTTP/2.",
        ),
        Flag(
            "permit-address-sharing",
            BoolValue(),
            "Bind with SO_REUSEADDR: no wait for old connections to time out.",
        ),
        Flag(
            "permit-port-sharing",
            BoolValue(),
            "Bind with SO_REUSEPORT: several processes may share the port.",
        ),
        Flag("secure-port", IntValue(PORT), "Port to serve HTTPS on; 0 serves nothing."),
        Flag(
            "tls-cert-file",
            TextValue(),
            "Certificate to serve with, intermediates after it. Read again when it changes.",
        ),
        Flag(
            "tls-cipher-suites",
            TextsValue(),
            "Cipher suites of TLS 1.2 by Go's names, such as "
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. All safe ones if it is not given.",
        ),
        Flag(
            "tls-curve-preferences",
            Int32sValue(),
            "Key exchanges by their numbers, such as 29 (X25519) or 23 (P-256).",
        ),
        Flag(
            "tls-min-version",
            TextValue(),
            "Oldest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
            default="VersionTLS12",
        ),
        Flag("tls-private-key-file", TextValue(), "Key of --tls-cert-file."),
        Flag(
            "tls-sni-cert-key",
            NamedCertKeysValue(),
            "Certificate and key for some names: cert,key or cert,key:name,*.name. "
            "May be repeated.",
        ),
    ]


def _authentication() -> list[Flag]:
    return [
        Flag(
            "authentication-kubeconfig",
            TextValue(),
            "Kubeconfig to ask with who a caller is (TokenReview). Without it, and outside a "
            "cluster, every caller is anonymous.",
        ),
        Flag(
            "authentication-skip-lookup",
            BoolValue(),
            "Do not read certificate authorities from the cluster (ConfigMap "
            "extension-apiserver-authentication).",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DurationValue(10 * _SECOND_NS),
            "How long an answer about a token is kept.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BoolValue(True),
            "Start even if that ConfigMap cannot be read; callers may then be anonymous.",
        ),
        Flag(
            "client-ca-file",
            TextValue(),
            "Authorities whose client certificates name the caller (by CommonName).",
        ),
        Flag(
            "requestheader-allowed-names",
            TextsValue(),
            "CommonNames of proxies that may name the caller in headers; any if empty.",
        ),
        Flag(
            "requestheader-client-ca-file",
            TextValue(),
            "Authorities of such proxies.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            TextsValue(("x-remote-extra-",)),
            "Prefixes of headers with more about the caller.",
        ),
        Flag(
            "requestheader-group-headers",
            TextsValue(("x-remote-group",)),
            "Headers with the caller's groups.",
        ),
        Flag(
            "requestheader-uid-headers",
            TextsValue(),
            "Headers with the caller's UID; X-Remote-Uid has to be among them.",
        ),
        Flag(
            "requestheader-username-headers",
            TextsValue(("x-remote-user",)),
            "Headers with the caller's name.",
        ),
    ]


def _authorization() -> list[Flag]:
    return [
        Flag(
            "authorization-always-allow-paths",
            TextsValue(("/healthz", "/readyz", "/livez")),
            "Paths that anyone may get; a * at the end stands for anything.",
        ),
        Flag(
            "authorization-kubeconfig",
            TextValue(),
            "Kubeconfig to ask with what a caller may do (SubjectAccessReview). Without it, and "
            "outside a cluster, only the paths above are allowed.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DurationValue(10 * _SECOND_NS),
            "How long a yes is kept.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DurationValue(10 * _SECOND_NS),
            "How long a no is kept.",
        ),
    ]


def _deprecated() -> list[Flag]:
    return [
        Flag(
            "contention-profiling",
            BoolValue(True),
            f"Accepted for kube-scheduler's sake: nothing is locked. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kube-api-burst",
            Int32Value(100),
            f"Requests that may be sent at once. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kube-api-content-type",
            TextValue("application/vnd.kubernetes.protobuf"),
            f"Accepted for kube-scheduler's sake: kubesched talks JSON. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kube-api-qps",
            Float32Value(50.0),
            f"Requests a second; less than 0 is no limit. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kubeconfig",
            TextValue(),
            "File that says where the API server is and who we are. Without it and --master, the "
            f"service account of the pod. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DurationValue(300 * _SECOND_NS),
            "How long a pod may wait for an event before it is tried again anyway. "
            "With --config too.",
        ),
        Flag("profiling", BoolValue(True), f"Serve /debug/flags/v. {_NOT_WITH_CONFIG}"),
    ]


def _leader_election() -> list[Flag]:
    return [
        Flag(
            "leader-elect",
            BoolValue(True),
            "Schedule only while holding a lease, so that several replicas may run. A flag of "
            "this group that is given goes before the configuration file.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DurationValue(15 * _SECOND_NS),
            "How long others wait after the holder's last renewal before they take over.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DurationValue(10 * _SECOND_NS),
            "How long the holder tries to renew before it gives up; shorter than the lease.",
        ),
        Flag(
            "leader-elect-resource-lock",
            TextValue("leases"),
            "Kind of the lock: only leases.",
        ),
        Flag("leader-elect-resource-name", TextValue("kube-scheduler"), "Name of the lease."),
        Flag(
            "leader-elect-resource-namespace",
            TextValue("kube-system"),
            "Namespace of the lease.",
        ),
        Flag(
            "leader-elect-retry-period",
            DurationValue(2 * _SECOND_NS),
            "Time between two tries to take or renew the lease.",
        ),
    ]


def _feature_gate() -> list[Flag]:
    return [
        Flag(
            "emulated-version",
            TextsValue(),
            "Have every feature gate as it was in this version, 1.33 to 1.36.",
            default="1.36",
        ),
        Flag(
            "feature-gates",
            GatesValue(),
            "Features to switch: Name=true or Name=false, parted by commas. All gates of "
            "kube-scheduler v1.36.4 are known, AllAlpha and AllBeta included.\n"
            f"Honoured: {', '.join(HONOURED)}.\n"
            f"Cannot be switched on: {', '.join(LACKING)}.\n"
            f"Cannot be switched off: {', '.join(ALWAYS_ON)}.\n"
            "Others change nothing in a scheduler.",
            shown="gates",
        ),
        Flag(
            "min-compatibility-version",
            TextsValue(),
            "Oldest version of other components to get along with, 1.33 to the emulated one.",
            default="1.35",
        ),
    ]


def _metrics() -> list[Flag]:
    return [
        Flag(
            "allow-metric-labels",
            TextMapValue(),
            "Values a label of a metric may have, as metric,label='a,b'; others become "
            "`unexpected`.",
            shown="map",
        ),
        Flag("allow-metric-labels-manifest", TextValue(), "File with such a map, in YAML."),
        Flag("disabled-metrics", TextsValue(), "Metrics to leave out, by their whole names."),
        Flag(
            "show-hidden-metrics-for-version",
            TextValue(),
            "Show metrics that this version hides; the only one allowed is 1.35.",
        ),
    ]


def _logs() -> list[Flag]:
    refused = "Refused: kubesched's log has one stream."
    return [
        Flag(
            "log-flush-frequency",
            DurationValue(5 * _SECOND_NS),
            "Longest time a line may wait to be written.",
        ),
        Flag("log-json-info-buffer-size", QuantityValue(), refused),
        Flag("log-json-split-stream", BoolValue(), refused),
        Flag("log-text-info-buffer-size", QuantityValue(), refused),
        Flag("log-text-split-stream", BoolValue(), refused),
        Flag("logging-format", TextValue("text"), "Form of the log: text or json."),
        Flag(
            "v",
            LevelValue(),
            "How much to log: 0 what an operator has to know, 2 changes, 3 every pod, 5 why, "
            "10 everything.",
            shorthand="v",
        ),
        Flag(
            "vmodule",
            VModuleValue(),
            "How much to log by file: pattern=level, parted by commas. Text form only.",
        ),
    ]


def _kubesched() -> list[Flag]:
    return [
        Flag("context", TextValue(), "Context of the kubeconfig; its current one otherwise."),
        Flag(
            "plugin",
            WholeTextsValue(),
            "A plugin of your own: import path or file, a colon, its class; and before it, if you "
            "like, another name. May be repeated. Without --config it is enabled at every point it "
            "has.",
            shown="[NAME=]MODULE:CLASS",
        ),
        Flag(
            "plugin-budget",
            PluginBudgetsValue(),
            "How long a call of a plugin of your own may take before it fails the pod's attempt; "
            "after ten times that it is interrupted. 0s means any time. May be repeated.",
        ),
        Flag(
            "reload",
            BoolValue(),
            "Watch the configuration file and the files of plugins: a change is put in force "
            "between two decisions, or refused with the reason while all goes on as before.",
        ),
        Flag(
            "shadow",
            BoolValue(),
            "Only watch: decide for the pods that another scheduler places, never write, and "
            "report where and why the decisions differ.",
        ),
        Flag(
            "shadow-report",
            TextValue(),
            "With --shadow: add a line of JSON to this file for each decision that differs.",
        ),
    ]


def _global() -> list[Flag]:
    return [
        Flag("help", BoolValue(), "Show this and exit.", shorthand="h"),
        Flag(
            "version",
            VersionValue(),
            "Tell the version and exit; =raw tells more, =v1.36.4-mine reports this version.",
            alone="true",
            shown="version[=true]",
        ),
    ]
