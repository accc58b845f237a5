"""Metrics of the process: its client, build and memory."""

import re
from functools import cache

from kubesched.config.feature_gates import EffectiveVersions
from kubesched.config.versions import MinorVersion
from kubesched.metrics.instruments import Measures
from kubesched.metrics.process import ProcessMetrics, SliMetrics
from kubesched.metrics.scheduler import SchedulerMetrics


def values(text: str, name: str) -> dict[str, float]:
    """Return the samples of a metric by label text."""
    samples = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in samples}


def some() -> tuple[SchedulerMetrics, ProcessMetrics]:
    metrics = SchedulerMetrics()
    return metrics, ProcessMetrics(metrics.measures, version="v1.36.4")


@cache
def fresh_text() -> str:
    return some()[0].text()


def test_a_request_counts_in_its_metric_families() -> None:
    metrics, process = some()
    process.observe_request("GET", "api:6443", "200", 0.2)
    process.count_answer("GET", "api:6443", "429")
    process.observe_retry("GET", "api:6443", "200")
    process.observe_rate_limiter("GET", "api:6443", 0.001)
    process.observe_sizes("POST", "api:6443", 100, 2000)
    text = metrics.text()
    assert values(text, "rest_client_requests_total") == {
        'code="200",host="api:6443",method="GET"': 1,
        'code="429",host="api:6443",method="GET"': 1,
    }
    of_get, of_post = 'host="api:6443",verb="GET"', 'host="api:6443",verb="POST"'
    assert values(text, "rest_client_request_duration_seconds_sum") == {of_get: 0.2}
    assert values(text, "rest_client_rate_limiter_duration_seconds_count") == {of_get: 1}
    assert values(text, "rest_client_request_size_bytes_sum") == {of_post: 100}
    assert values(text, "rest_client_response_size_bytes_sum") == {of_post: 2000}
    assert values(text, "rest_client_request_retries_total") == {
        'code="200",host="api:6443",verb="GET"': 1
    }


def test_versions() -> None:
    (build,) = values(fresh_text(), "kubernetes_build_info")
    assert 'git_version="v1.36.4"' in build
    assert 'major="1",minor="36",platform="' in build
    assert values(fresh_text(), "version_info") == {
        'binary="1.36.4",component="kube",emulation="1.36",min_compat="1.35"': 1
    }


def test_features() -> None:
    metrics, process = some()
    process.set_features([("SchedulerAsyncAPICalls", "BETA", False), ("Old", "", True)])
    assert values(metrics.text(), "kubernetes_feature_enabled") == {
        'name="Old",stage=""': 1,
        'name="SchedulerAsyncAPICalls",stage="BETA"': 0,
    }


def test_the_process_itself() -> None:
    text = fresh_text()
    memory = values(text, "process_resident_memory_bytes")[""]
    assert 1e6 < memory < values(text, "process_virtual_memory_bytes")[""]
    assert values(text, "process_cpu_seconds_total")[""] > 0
    assert 0 < values(text, "process_open_fds")[""] <= values(text, "process_max_fds")[""]
    assert values(text, "process_start_time_seconds")[""] > 1e9
    assert values(text, "rest_client_exec_plugin_ttl_seconds") == {"": float("inf")}


def test_registered_metrics_total_counts_itself() -> None:
    metrics, _ = some()
    counted = values(metrics.text(), "registered_metrics_total")
    helps = [family.help for family in metrics.measures.families()]
    for stability in ("ALPHA", "BETA", "STABLE"):
        expected = sum(text.startswith(f"[{stability}]") for text in helps)
        assert counted[f'deprecated_version="",stability_level="{stability}"'] == expected


def test_dropped_events_have_a_counter() -> None:
    metrics, process = some()
    process.events_dropped_total.labels("queue_full").inc(3)
    name = "kubesched_events_dropped_total"
    assert values(metrics.text(), name) == {'reason="queue_full"': 3}


def test_version_info_has_the_emulated_version() -> None:
    metrics = SchedulerMetrics()
    at = EffectiveVersions(MinorVersion(1, 35), MinorVersion(1, 34))
    ProcessMetrics(metrics.measures, version="v1.36.4", at=at)
    labels = 'binary="1.36.4",component="kube",emulation="1.35",min_compat="1.34"'
    assert values(metrics.text(), "version_info") == {labels: 1}


def test_disabled_metrics_are_counted_and_left_out() -> None:
    metrics = SchedulerMetrics(disabled=["scheduler_pending_pods", "process_open_fds"])
    ProcessMetrics(metrics.measures, version="v1.36.4")
    metrics.pending_pods.labels("active").set(1)
    text = metrics.text()
    assert values(text, "scheduler_pending_pods") == values(text, "process_open_fds") == {}
    assert values(text, "disabled_metrics_total") == {"": 2}


def test_health_checks() -> None:
    slis = SliMetrics()
    slis.observe("ping", "livez", is_ok=True)
    slis.observe("ping", "livez", is_ok=True)
    slis.observe("leaderElection", "healthz", is_ok=False)
    text = slis.text()
    assert values(text, "kubernetes_healthcheck") == {
        'name="leaderElection",type="healthz"': 0,
        'name="ping",type="livez"': 1,
    }
    assert values(text, "kubernetes_healthchecks_total") == {
        'name="leaderElection",status="error",type="healthz"': 1,
        'name="ping",status="success",type="livez"': 2,
    }
    assert "[STABLE] This metric records the result of a single healthcheck." in text


def test_process_metrics_are_read_on_demand() -> None:
    measures = Measures()
    ProcessMetrics(measures, version="v1.36.4")
    (_, start), = measures.family("process_start_time_seconds").children()  # fmt: skip
    assert start.is_untouched
    measures.families()
    assert not start.is_untouched
