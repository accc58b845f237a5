"""Names, kinds, labels, buckets and help texts of metrics are kube-scheduler's own."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kubesched.kit.exposition import go_number
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.process_metrics import ProcessMetrics, SliMetrics
from kubesched.model.serving_metrics import ServingMetrics

RECORDED = Path(__file__).parent / "data" / "kube-scheduler-v1.36.4-metrics.json.gz"

# What kube-scheduler shows and only a Go process, or a whole API server inside of it, can mean.
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
    return {one["name"]: one for one in document["families"] if one["group"] == group}


@cache
def metrics() -> SchedulerMetrics:
    made = SchedulerMetrics()
    ProcessMetrics(made.measures, version="v1.36.4")
    ServingMetrics(made.measures)
    return made


def expected_names() -> list[str]:
    return [name for name in recorded("metrics") if not name.startswith(LEFT_OUT)]


def test_the_recording_has_the_schedulers_metrics() -> None:
    assert sum(name.startswith("scheduler_") for name in expected_names()) >= 24


@pytest.mark.parametrize("name", expected_names())
def test_a_metric_is_described_as_kube_scheduler_describes_it(name: str) -> None:
    expected = recorded("metrics")[name]
    family = metrics().measures.family(name)
    bounds = [go_number(bound) for bound in family.buckets]
    assert family.kind == expected["type"]
    assert family.help == expected["help"]
    assert sorted(family.label_names) == expected["labels"]
    assert [*bounds, "+Inf"] == (expected["buckets"] or ["+Inf"])


def test_a_metric_of_the_health_checks_is_described_the_same() -> None:
    expected = recorded("slis")["process_start_time_seconds"]
    family = SliMetrics().measures.family("process_start_time_seconds")
    assert (family.kind, family.help) == (expected["type"], expected["help"])


def exp(start: float, factor: float, count: int) -> list[float]:
    return [start * factor**power for power in range(count)]


# Of the tables of the reference: what the recorded run had no occasion to show.
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
    "SchedulerAsyncAPICalls": [
        "async_api_call_execution_total",
        "async_api_call_execution_duration_seconds",
        "pending_async_api_calls",
    ],
    "DRAExtendedResource": ["resourceclaim_creates_total"],
    "GenericWorkload": [
        "podgroup_schedule_attempts_total",
        "podgroup_scheduling_attempt_duration_seconds",
        "podgroup_scheduling_algorithm_duration_seconds",
    ],
    "DRADeviceBindingConditions": [
        "dra_bindingconditions_allocations_total",
        "dra_bindingconditions_wait_duration_seconds",
    ],
}


@pytest.mark.parametrize("gate", GATED)
def test_metrics_of_a_feature_are_shown_when_it_is_on_and_can_be_counted_always(gate: str) -> None:
    on = SchedulerMetrics(lambda name: name == gate)
    off = SchedulerMetrics(lambda _: False)
    shown = {family.name for family in on.measures.families()}
    hidden = {family.name for family in off.measures.families()}
    assert shown - hidden == {f"scheduler_{name}" for name in GATED[gate]}
    assert all(hasattr(off, name) for name in GATED[gate])


def test_at_the_defaults_the_metrics_of_features_that_are_off_are_not_shown() -> None:
    shown = {family.name for family in metrics().measures.families()}
    assert not any("async_api" in name or "podgroup" in name for name in shown)
