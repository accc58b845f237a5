"""Metrics of the process: its API client, build, memory and health checks.

Owns the metrics that every component of Kubernetes has, as far as they apply to a program that is
not written in Go.
Upstream: staging/src/k8s.io/component-base/metrics/prometheus, component-base/metrics/options.go
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from kubesched.config.feature_gates import EffectiveVersions
from kubesched.metrics.exposition import Exposed
from kubesched.metrics.instruments import Counter, Gauge, GaugeVec, Maker, Measures

_LATENCY_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE_BUCKETS = tuple(64.0 * factor for factor in (1, 4, 8, 16, 64, 256, 1024)) + tuple(
    262144.0 * factor for factor in (1, 4, 16, 64)
)
_ROTATION_BUCKETS = tuple(
    60.0 * minutes
    for minutes in (10, 30, 60, 240, 1440, 10080, 43200, 129600, 259200, 518400, 2073600)
)
_EFFECTIVE = EffectiveVersions()
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
# RLIMIT_AS where there is none, as Go reads it: all bits set.
_NO_LIMIT = float(2**64)
_START = "process_start_time_seconds"
_LIMIT = "process_virtual_memory_max_bytes"
_RECEIVED = "process_network_receive_bytes_total"
_SENT = "process_network_transmit_bytes_total"
_START_HELP = "Start time of the process since unix epoch in seconds."


class ProcessMetrics:
    """One attribute for each metric, by its full name; the API client calls `observe_*`."""

    def __init__(
        self, measures: Measures, *, version: str, at: EffectiveVersions = _EFFECTIVE
    ) -> None:
        """Add the metrics to those that are shown.

        Args:
            measures: The registry, with the scheduler's own metrics.
            version: The reported version of Kubernetes: v1.36.4.
            at: The emulated version, and the oldest compatible one.
        """
        make = Maker(measures)
        self._make_rest_client(make)
        self._make_credentials(make)
        self._make_leader_election(make)
        self._make_versions(make, version, at)
        self._make_meta(make, measures)
        self.events_dropped_total = Maker(measures, "kubesched_").counter_vec(
            "events_dropped_total",
            "Number of events that were lost, by the reason: queue_full, retries_exceeded, rejected"
            " or stopped.",
            "ALPHA",
            ("reason",),
        )
        process = _Process(make)
        measures.before_look(process.read)

    def observe_request(self, verb: str, host: str, code: str, seconds: float) -> None:
        """Count a completed request."""
        self.rest_client_request_duration_seconds.labels(verb, host).observe(seconds)
        self.rest_client_requests_total.labels(code, verb, host).inc()

    def count_answer(self, verb: str, host: str, code: str) -> None:
        """Count a response that is retried, or that starts a watch."""
        self.rest_client_requests_total.labels(code, verb, host).inc()

    def observe_retry(self, verb: str, host: str, code: str) -> None:
        """Count a retry of a request."""
        self.rest_client_request_retries_total.labels(code, verb, host).inc()

    def observe_rate_limiter(self, verb: str, host: str, seconds: float) -> None:
        """Count the time that a request waited for the rate limiter."""
        self.rest_client_rate_limiter_duration_seconds.labels(verb, host).observe(seconds)

    def observe_sizes(self, verb: str, host: str, request_bytes: int, response_bytes: int) -> None:
        """Count the sizes of both bodies."""
        self.rest_client_request_size_bytes.labels(verb, host).observe(request_bytes)
        self.rest_client_response_size_bytes.labels(verb, host).observe(response_bytes)

    def set_features(self, features: Iterable[tuple[str, str, bool]]) -> None:
        """Show the features: name, stage (ALPHA, BETA, or empty), and whether it is enabled."""
        for name, stage, is_on in features:
            self.kubernetes_feature_enabled.labels(name, stage).set(int(is_on))

    def _make_rest_client(self, make: Maker) -> None:
        self.rest_client_request_duration_seconds = make.histogram_vec(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            "ALPHA",
            ("verb", "host"),
            _LATENCY_BUCKETS,
        )
        self.rest_client_request_size_bytes = make.histogram_vec(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host.",
            "ALPHA",
            ("verb", "host"),
            _SIZE_BUCKETS,
        )
        self.rest_client_response_size_bytes = make.histogram_vec(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host.",
            "ALPHA",
            ("verb", "host"),
            _SIZE_BUCKETS,
        )
        self.rest_client_rate_limiter_duration_seconds = make.histogram_vec(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            "ALPHA",
            ("verb", "host"),
            _LATENCY_BUCKETS,
        )
        self.rest_client_requests_total = make.counter_vec(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            "ALPHA",
            ("code", "method", "host"),
        )
        self.rest_client_request_retries_total = make.counter_vec(
            "rest_client_request_retries_total",
            "Number of request retries, partitioned by status code, verb, and host.",
            "ALPHA",
            ("code", "verb", "host"),
        )

    def _make_credentials(self, make: Maker) -> None:
        self.rest_client_exec_plugin_ttl_seconds = make.gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the"
            " auth exec plugin. The value is in seconds until certificate expiry (negative if"
            " already expired). If auth exec plugins are unused or manage no TLS certificates, the"
            " value will be +INF.",
            "ALPHA",
        )
        self.rest_client_exec_plugin_ttl_seconds.set(math.inf)
        self.rest_client_exec_plugin_certificate_rotation_age = make.histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "Histogram of the number of seconds the last auth exec plugin client certificate lived"
            " before being rotated. If auth exec plugin client certificates are unused, histogram"
            " will contain no data.",
            "ALPHA",
            _ROTATION_BUCKETS,
        )
        self.rest_client_exec_plugin_call_total = make.counter_vec(
            "rest_client_exec_plugin_call_total",
            "Number of calls to an exec plugin, partitioned by the type of event encountered"
            " (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and"
            " an optional exit code. The exit code will be set to 0 if and only if the plugin call"
            " was successful.",
            "ALPHA",
            ("code", "call_status"),
        )
        self.rest_client_transport_cache_entries = make.gauge(
            "rest_client_transport_cache_entries",
            "Number of transport entries in the internal cache.",
            "ALPHA",
        )
        self.rest_client_transport_create_calls_total = make.counter_vec(
            "rest_client_transport_create_calls_total",
            "Number of calls to get a new transport, partitioned by the result of the operation"
            " hit: obtained from the cache, miss: created and added to the cache, miss-gc:"
            " recreated and added back to the cache after being garbage collected, uncacheable:"
            " created and not cached",
            "ALPHA",
            ("result",),
        )
        self.rest_client_transport_ca_reload_total = make.counter_vec(
            "rest_client_transport_ca_reload_total",
            "Number of times a CA reload is attempted, partitioned by the result and reason for the"
            " reload attempt",
            "ALPHA",
            ("result", "reason"),
        )

    def _make_leader_election(self, make: Maker) -> None:
        self.leader_election_master_status = make.gauge_vec(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup,"
            " 1 indicates master. 'name' is the string used to identify the lease. Please make sure"
            " to group by name.",
            "ALPHA",
            ("name",),
        )
        self.leader_election_slowpath_total = make.counter_vec(
            "leader_election_slowpath_total",
            "Total number of slow path exercised in renewing leader leases. 'name' is the string"
            " used to identify the lease. Please make sure to group by name.",
            "ALPHA",
            ("name",),
        )

    def _make_versions(self, make: Maker, version: str, at: EffectiveVersions) -> None:
        major, minor = version.removeprefix("v").split(".")[:2]
        build_info = make.gauge_vec(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by major, minor, git version, git commit,"
            " git tree state, build date, Go version, and compiler from which Kubernetes was built,"
            " and platform on which it is running.",
            "BETA",
            (
                "major",
                "minor",
                "git_version",
                "git_commit",
                "git_tree_state",
                "build_date",
                "go_version",
                "compiler",
                "platform",
            ),
        )
        build_info.labels(
            major, minor, version, "", "", "", "", sys.implementation.name, _platform()
        ).set(1)
        self.kubernetes_feature_enabled: GaugeVec = make.gauge_vec(
            "kubernetes_feature_enabled",
            "This metric records the data about the stage and enablement of a k8s feature.",
            "BETA",
            ("name", "stage"),
        )
        version_info = make.gauge_vec(
            "version_info",
            "Provides the compatibility version info of the component. The component label is the"
            " name of the component, usually kube, but is relevant for aggregated-apiservers.",
            "ALPHA",
            ("component", "binary", "emulation", "min_compat"),
        )
        binary = version.removeprefix("v")
        version_info.labels("kube", binary, str(at.emulation), str(at.min_compatibility)).set(1)

    def _make_meta(self, make: Maker, measures: Measures) -> None:
        disabled = make.counter("disabled_metrics_total", "The count of disabled metrics.", "BETA")
        disabled.inc(len(measures.disabled))
        make.counter("hidden_metrics_total", "The count of hidden metrics.", "BETA")
        make.counter(
            "cardinality_enforcement_unexpected_categorizations_total",
            "The count of unexpected categorizations during cardinality enforcement.",
            "ALPHA",
        )
        registered = make.counter_vec(
            "registered_metrics_total",
            "The count of registered metrics broken by stability level and deprecation version.",
            "BETA",
            ("stability_level", "deprecated_version"),
        )

        def count() -> None:
            for stability, number in measures.registered_counts.items():
                registered.labels(stability, "").value = number

        measures.before_look(count)


class SliMetrics(Exposed):
    """The metrics of /metrics/slis."""

    def __init__(self) -> None:
        self.measures = Measures()
        make = Maker(self.measures, "kubernetes_")
        self._healthcheck = make.gauge_vec(
            "healthcheck",
            "This metric records the result of a single healthcheck.",
            "STABLE",
            ("name", "type"),
        )
        self._healthchecks_total = make.counter_vec(
            "healthchecks_total",
            "This metric records the results of all healthcheck.",
            "STABLE",
            ("name", "type", "status"),
        )
        start = Maker(self.measures).gauge(_START, _START_HELP, "ALPHA")
        start.set(_collected().get(_START, 0.0))

    def observe(self, name: str, kind: str, *, is_ok: bool) -> None:
        """Count a health check; the kind is healthz, livez or readyz."""
        self._healthcheck.labels(name, kind).set(int(is_ok))
        status = "success" if is_ok else "error"
        self._healthchecks_total.labels(name, kind, status).inc()

    def reset(self) -> None:
        """Reset the results of checks; upstream also removes the start time of the process."""
        super().reset()
        self.measures.remove(_START)


class _Process:
    """Metrics that the operating system keeps of the process."""

    def __init__(self, make: Maker) -> None:
        self._numbers: dict[str, Counter | Gauge] = {
            name: (make.counter if name.endswith("_total") else make.gauge)(name, help_text, "")
            for name, help_text in {
                "process_cpu_seconds_total": "Total user and system CPU time spent in seconds.",
                "process_open_fds": "Number of open file descriptors.",
                "process_max_fds": "Maximum number of open file descriptors.",
                "process_virtual_memory_bytes": "Virtual memory size in bytes.",
                "process_resident_memory_bytes": "Resident memory size in bytes.",
                _START: _START_HELP,
                _LIMIT: "Maximum amount of virtual memory available in bytes.",
                _RECEIVED: "Number of bytes received by the process over the network.",
                _SENT: "Number of bytes sent by the process over the network.",
            }.items()
        }

    def read(self) -> None:
        """Update the numbers."""
        received, sent = _network_bytes()
        numbers = {_LIMIT: _memory_limit_bytes(), _RECEIVED: received, _SENT: sent}
        for name, value in (_collected() | numbers).items():
            self._numbers[name].value = value


def _collected() -> dict[str, float]:
    """Return the numbers of Linux about this process; none on other systems."""
    proc = Path("/proc/self")
    try:
        # The name of the program comes first, in parentheses, and may contain anything.
        fields = (proc / "stat").read_text().rpartition(") ")[2].split()
        boot = re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
        limit = re.search(r"^Max open files +(\d+)", (proc / "limits").read_text(), re.MULTILINE)
        open_count = sum(1 for _ in (proc / "fd").iterdir())
    except OSError:
        return {}
    # man 5 proc_pid_stat: the fields 14, 15, 22, 23 and 24; these begin with the third.
    user, system, started, virtual, resident = (int(fields[at - 3]) for at in (14, 15, 22, 23, 24))
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "process_cpu_seconds_total": (user + system) / ticks,
        "process_open_fds": open_count,
        "process_max_fds": float(limit[1]) if limit is not None else _NO_LIMIT,
        "process_virtual_memory_bytes": virtual,
        "process_resident_memory_bytes": resident * os.sysconf("SC_PAGE_SIZE"),
        _START: (float(boot[1]) if boot else 0.0) + started / ticks,
    }


def _memory_limit_bytes() -> float:
    if sys.platform == "win32":
        return _NO_LIMIT
    import resource  # noqa: PLC0415  # There is none on Windows.

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _NO_LIMIT if limit == resource.RLIM_INFINITY else float(limit)


def _network_bytes() -> tuple[float, float]:
    """Return the received and sent bytes over IP; 0 where the system does not count them."""
    try:
        lines = Path("/proc/self/net/netstat").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    rows = [line.split() for line in lines if line.startswith("IpExt:")]
    if len(rows) != 2:
        return 0.0, 0.0
    found = dict(zip(*rows, strict=False))
    return float(found.get("InOctets", 0)), float(found.get("OutOctets", 0))


def _platform() -> str:
    machine = platform.machine() or os.name
    return f"{sys.platform}/{_MACHINES.get(machine, machine)}"
