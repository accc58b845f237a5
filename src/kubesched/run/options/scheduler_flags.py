"""The flags of `kubesched run`, group by group.

Owns the flags, their defaults and their help. Names, types, groups and defaults are upstream's, so
that a command line of kube-scheduler works unchanged; the group `kubesched` is additional.
Upstream: cmd/kube-scheduler/app/options/{options,deprecated}.go, apiserver
pkg/server/options/{serving,authentication,authorization}.go, component-base config/options,
compatibility/registry.go, metrics/options.go, logs/api/v1/options.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubesched.config.gate_support import ALWAYS_ON, HONORED, LACKING
from kubesched.ops.serving import DEFAULT_PORT
from kubesched.run.options.flag_types import (
    BOOL,
    DURATION,
    FLOAT32,
    GATES,
    INT,
    INT32,
    INT32S,
    IP,
    LEVEL,
    NAMED_CERT_KEYS,
    PLUGIN_BUDGETS,
    QUANTITY,
    TEXT,
    TEXT_MAP,
    TEXTS,
    VERSION,
    VMODULE,
    WHOLE_TEXTS,
)
from kubesched.run.options.flags import Flag, FlagSet

_SECOND_NS: Final = 1_000_000_000
_NOT_WITH_CONFIG: Final = "Without --config only."
_ONE_STREAM: Final = "Not supported: kubesched writes a single log stream without a buffer."

_GROUPS: Final[Mapping[str, Sequence[Flag]]] = {
    "misc": (
        Flag("config", TEXT, "Configuration file (KubeSchedulerConfiguration v1)."),
        Flag("master", TEXT, "URL of the API server; overrides the kubeconfig."),
        Flag("write-config-to", TEXT, "Write the effective configuration to a file and exit."),
    ),
    "secure serving": (
        Flag("bind-address", IP.of("0.0.0.0"), "Address to serve on; 0.0.0.0 and :: mean all."),
        Flag(
            "cert-dir",
            TEXT,
            "Directory of kube-scheduler.crt and .key, created if missing. "
            "Without it, the certificate is kept in memory.",
        ),
        Flag("disable-http2-serving", BOOL, "Serve HTTP/1.1 only, as kubesched always does."),
        Flag("http2-max-streams-per-connection", INT, "Ignored: kubesched has no HTTP/2."),
        Flag("permit-address-sharing", BOOL, "Bind with SO_REUSEADDR, as kubesched always does."),
        Flag(
            "permit-port-sharing",
            BOOL,
            "Bind with SO_REUSEPORT, so that processes can share the port.",
        ),
        Flag("secure-port", INT.of(DEFAULT_PORT), "Port to serve HTTPS on; 0 disables serving."),
        Flag(
            "tls-cert-file",
            TEXT,
            "Serving certificate, followed by intermediates; reloaded when it changes.",
        ),
        Flag(
            "tls-cipher-suites",
            TEXTS,
            "Cipher suites of TLS 1.2 by Go's names, such as "
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. All secure ones by default.",
        ),
        Flag(
            "tls-curve-preferences",
            INT32S,
            "Key exchanges by number, such as 29 (X25519) or 23 (P-256).",
        ),
        Flag(
            "tls-min-version",
            TEXT,
            "Minimum TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
            default="VersionTLS12",
        ),
        Flag("tls-private-key-file", TEXT, "Key of --tls-cert-file."),
        Flag(
            "tls-sni-cert-key",
            NAMED_CERT_KEYS,
            "Certificate and key for some host names: cert,key or cert,key:name,*.name. "
            "Repeatable.",
        ),
    ),
    "authentication": (
        Flag(
            "authentication-kubeconfig",
            TEXT,
            "Kubeconfig for TokenReviews; without it, users are anonymous outside a cluster.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            "Do not read certificate authorities from the cluster (ConfigMap "
            "extension-apiserver-authentication).",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION.of(10 * _SECOND_NS),
            "How long to cache the result of a TokenReview.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL.of(True),
            "Start even if that ConfigMap cannot be read; users may then be anonymous.",
        ),
        Flag(
            "client-ca-file",
            TEXT,
            "Authorities of client certificates, whose CommonName is the user.",
        ),
        Flag(
            "requestheader-allowed-names",
            TEXTS,
            "CommonNames of proxies that may name the user in headers; any if empty.",
        ),
        Flag(
            "requestheader-client-ca-file", TEXT, "Authorities of the certificates of such proxies."
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            TEXTS.of(("x-remote-extra-",)),
            "Prefixes of headers with extra fields of the user.",
        ),
        Flag(
            "requestheader-group-headers",
            TEXTS.of(("x-remote-group",)),
            "Headers with the user's groups.",
        ),
        Flag(
            "requestheader-uid-headers",
            TEXTS,
            "Headers with the user's UID; X-Remote-Uid must be among them.",
        ),
        Flag(
            "requestheader-username-headers",
            TEXTS.of(("x-remote-user",)),
            "Headers with the user's name.",
        ),
    ),
    "authorization": (
        Flag(
            "authorization-always-allow-paths",
            TEXTS.of(("/healthz", "/readyz", "/livez")),
            "Paths that need no authorization; a trailing * matches anything.",
        ),
        Flag(
            "authorization-kubeconfig",
            TEXT,
            "Kubeconfig for SubjectAccessReviews. Without it, and outside a cluster, only the "
            "paths above are allowed.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION.of(10 * _SECOND_NS),
            "How long to cache an allowed SubjectAccessReview.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION.of(10 * _SECOND_NS),
            "How long to cache a denied SubjectAccessReview.",
        ),
    ),
    "deprecated": (
        Flag("contention-profiling", BOOL.of(True), "Ignored: kubesched has no locks to profile."),
        Flag(
            "kube-api-burst",
            INT32.of(100),
            f"Burst of requests to the API server. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kube-api-content-type",
            TEXT.of("application/vnd.kubernetes.protobuf"),
            "Ignored: kubesched uses JSON.",
        ),
        Flag(
            "kube-api-qps",
            FLOAT32.of(50.0),
            f"Requests per second; negative is unlimited. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "kubeconfig",
            TEXT,
            "File with the address and credentials of the API server. Without it and --master, the "
            f"service account of the pod is used. {_NOT_WITH_CONFIG}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION.of(300 * _SECOND_NS),
            "How long a rejected pod waits for an event before it is retried anyway. "
            "Also with --config.",
        ),
        Flag("profiling", BOOL.of(True), f"Serve /debug/pprof and flags. {_NOT_WITH_CONFIG}"),
    ),
    "leader election": (
        Flag(
            "leader-elect",
            BOOL.of(True),
            "Schedule only while holding the lease, so that several replicas can run. Flags of "
            "this group override the configuration file.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION.of(15 * _SECOND_NS),
            "How long after the last renewal another replica may take over.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION.of(10 * _SECOND_NS),
            "How long the leader retries a renewal; shorter than the lease duration.",
        ),
        Flag("leader-elect-resource-lock", TEXT.of("leases"), "Resource of the lock: leases."),
        Flag("leader-elect-resource-name", TEXT.of("kube-scheduler"), "Name of the lease."),
        Flag("leader-elect-resource-namespace", TEXT.of("kube-system"), "Namespace of the lease."),
        Flag(
            "leader-elect-retry-period",
            DURATION.of(2 * _SECOND_NS),
            "Time between two attempts to acquire or renew the lease.",
        ),
    ),
    "feature gate": (
        Flag(
            "emulated-version",
            TEXTS,
            "Version whose feature gates to emulate, 1.33 to 1.36.",
            default="1.36",
        ),
        Flag(
            "feature-gates",
            GATES,
            "Feature gates: Name=true or Name=false, separated by commas. All gates of "
            "kube-scheduler v1.36.4 are accepted, including AllAlpha and AllBeta.\n"
            f"Can be enabled and disabled: {', '.join(HONORED)}.\n"
            f"Cannot be enabled: {', '.join(LACKING)}.\n"
            f"Cannot be disabled: {', '.join(ALWAYS_ON)}.\n"
            "All others have no effect on a scheduler.",
            shown="gates",
        ),
        Flag(
            "min-compatibility-version",
            TEXTS,
            "Oldest compatible version of other components, 1.33 to the emulated one.",
            default="1.35",
        ),
    ),
    "metrics": (
        Flag(
            "allow-metric-labels",
            TEXT_MAP,
            "Allowed values of metric labels, as metric,label='a,b'. Validated, without effect.",
            shown="map",
        ),
        Flag(
            "allow-metric-labels-manifest",
            TEXT,
            "YAML file with such a map. Validated, without effect.",
        ),
        Flag("disabled-metrics", TEXTS, "Full names of metrics to leave out."),
        Flag(
            "show-hidden-metrics-for-version",
            TEXT,
            "Show metrics hidden since 1.35, the only allowed value. There are none.",
        ),
    ),
    "logs": (
        Flag(
            "log-flush-frequency",
            DURATION.of(5 * _SECOND_NS),
            "Ignored: the log is flushed at a fixed interval.",
        ),
        Flag("log-json-info-buffer-size", QUANTITY, _ONE_STREAM),
        Flag("log-json-split-stream", BOOL, _ONE_STREAM),
        Flag("log-text-info-buffer-size", QUANTITY, _ONE_STREAM),
        Flag("log-text-split-stream", BOOL, _ONE_STREAM),
        Flag("logging-format", TEXT.of("text"), "Log format: text or json."),
        Flag(
            "v",
            LEVEL,
            "Log verbosity: 0 for warnings and main steps, 2 for changes, 3 for each pod, 5 for "
            "the reasons of decisions, 10 for everything.",
            shorthand="v",
        ),
        Flag(
            "vmodule",
            VMODULE,
            "Verbosity by file: pattern=level, separated by commas. Text format only.",
        ),
    ),
    "kubesched": (
        Flag("context", TEXT, "Context of the kubeconfig; the current context by default."),
        Flag(
            "plugin",
            WHOLE_TEXTS,
            "Load an out-of-tree plugin: [NAME=]MODULE:CLASS or [NAME=]FILE.py:CLASS. Repeatable. "
            "Without --config it is enabled at all its extension points.",
            shown="[NAME=]MODULE:CLASS",
        ),
        Flag(
            "plugin-budget",
            PLUGIN_BUDGETS,
            "Time limit of a call of an out-of-tree plugin. A longer call fails the attempt "
            "and is interrupted after ten times the limit. 0s: no limit. Repeatable.",
        ),
        Flag(
            "reload",
            BOOL,
            "Watch the configuration file and plugin files, and apply changes between two "
            "decisions. An invalid change is rejected with a reason; the old version stays active.",
        ),
        Flag(
            "shadow",
            BOOL,
            "Shadow mode: decide for the pods that another scheduler places, never write, and "
            "report where and why the decisions differ.",
        ),
        Flag(
            "shadow-report",
            TEXT,
            "With --shadow: append a line of JSON to this file for each decision that differs.",
        ),
    ),
    "global": (
        Flag("help", BOOL, "Print help and exit.", shorthand="h"),
        Flag(
            "version",
            VERSION,
            "Print the version and exit; =raw prints details, =v1.36.4-mine reports this version.",
            shown="version[=true]",
        ),
    ),
}


def scheduler_flags() -> FlagSet:
    """Return all flags, unset."""
    return FlagSet(_GROUPS)
