"""Names, kinds, labels, buckets and help texts of metrics are kube-scheduler's own."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubesched.metrics.exposition import go_number
from kubesched.metrics.process import ProcessMetrics, SliMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.metrics.serving import ServingMetrics

RECORDED = Path(__file__).parent / "data" / "kube-scheduler-v1.36.4-metrics.json.gz"

# Metrics of kube-scheduler that only a Go process or an API server can have.
LEFT_OUT = (
    "aggregator_",
    "apiserver_audit_",
    "apiserver_envelope_",
    "apiserver_storage_",
    "apiserver_validation_",
    "apiserver_webhooks_",
    "rest_client_transport_cert_rotation_gc_calls_total",
    "workqueue_",
)


@cache
def recorded(group: str) -> dict[str, dict[str, Any]]:
    document = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return {f["name"]: f for f in document["families"] if f["group"] == group}


@cache
def metrics() -> SchedulerMetrics:
    made = SchedulerMetrics()
    ProcessMetrics(made.measures, version="v1.36.4")
    ServingMetrics(made.measures)
    return made


def expected_names() -> list[str]:
    return [name for name in recorded("metrics") if not name.startswith(LEFT_OUT)]


def test_the_recording_contains_the_schedulers_metrics() -> None:
    assert sum(name.startswith("scheduler_") for name in expected_names()) >= 24


@pytest.mark.parametrize("name", expected_names())
def test_a_metric_equals_the_recorded_one(name: str) -> None:
    expected = recorded("metrics")[name]
    family = metrics().measures.family(name)
    bounds = [go_number(bound) for bound in family.buckets]
    assert family.kind == expected["type"]
    assert family.help == expected["help"]
    assert sorted(family.label_names) == expected["labels"]
    assert [*bounds, "+Inf"] == (expected["buckets"] or ["+Inf"])


def test_a_metric_of_health_checks_equals_the_recorded_one() -> None:
    expected = recorded("slis")["process_start_time_seconds"]
    family = SliMetrics().measures.family("process_start_time_seconds")
    assert (family.kind, family.help) == (expected["type"], expected["help"])


def exp(start: float, factor: float, count: int) -> list[float]:
    return [start * factor**power for power in range(count)]


# From upstream's reference: metrics that the recorded run did not show.
@pytest.mark.parametrize(
    ("name", "kind", "labels", "buckets", "stability"),
    [
        (
            "permit_wait_duration_seconds",
            "histogram",
            ["result"],
            exp(0.001, 2, 15),
            "BETA",
        ),
        (
            "queueing_hint_execution_duration_seconds",
            "histogram",
            ["plugin", "event", "hint"],
            exp(0.00001, 1.5, 20),
            "ALPHA",
        ),
        ("resourceclaim_creates_total", "counter", ["status"], [], "ALPHA"),
        (
            "dra_bindingconditions_allocations_total",
            "counter",
            ["profile", "driver", "status"],
            [],
            "ALPHA",
        ),
        (
            "dra_bindingconditions_wait_duration_seconds",
            "histogram",
            ["profile", "driver", "status"],
            exp(0.1, 2, 14),
            "ALPHA",
        ),
        ("volume_binder_cache_requests_total", "counter", ["operation"], [], "ALPHA"),
        ("volume_scheduling_stage_error_total", "counter", ["operation"], [], "ALPHA"),
    ],
)
def test_a_metric_that_was_not_recorded(
    name: str, kind: str, labels: list[str], buckets: list[float], stability: str
) -> None:
    family = metrics().measures.family(f"scheduler_{name}")
    assert family.kind == kind
    assert list(family.label_names) == labels
    assert list(family.buckets) == pytest.approx(buckets, rel=1e-12)
    assert family.help.startswith(f"[{stability}] ")


GATED = {
    "SchedulerQueueingHints": ["inflight_events", "queueing_hint_execution_duration_seconds"],
    "SchedulerAsyncPreemption": [
        "preemption_goroutines_duration_seconds",
        "preemption_goroutines_execution_total",
    ],
    "DRAExtendedResource": ["resourceclaim_creates_total"],
    "DRADeviceBindingConditions": [
        "dra_bindingconditions_allocations_total",
        "dra_bindingconditions_wait_duration_seconds",
    ],
}


@pytest.mark.parametrize("gate", GATED)
def test_metrics_of_a_feature_are_shown_only_if_it_is_enabled(gate: str) -> None:
    on = SchedulerMetrics(lambda name: name == gate)
    off = SchedulerMetrics(lambda _: False)
    shown = {family.name for family in on.measures.families()}
    hidden = {family.name for family in off.measures.families()}
    assert shown - hidden == {f"scheduler_{name}" for name in GATED[gate]}
    assert all(hasattr(off, name) for name in GATED[gate])


def test_metrics_of_disabled_features_are_hidden_by_default() -> None:
    shown = {family.name for family in metrics().measures.families()}
    assert not any("async_api" in name or "podgroup" in name for name in shown)
