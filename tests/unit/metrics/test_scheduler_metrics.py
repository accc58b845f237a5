"""Counting in the scheduler's metrics."""

from kubesched.metrics.scheduler import SchedulerMetrics


def test_label_values_have_the_order_of_upstreams_labels() -> None:
    metrics = SchedulerMetrics()
    metrics.schedule_attempts_total.labels("scheduled", "default-scheduler").inc()
    metrics.framework_extension_point_duration_seconds.labels(
        "Filter", "Success", "default-scheduler"
    ).observe(0.00015)
    text = metrics.text()
    assert (
        'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1\n'
        in text
    )
    assert (
        "scheduler_framework_extension_point_duration_seconds_bucket"
        '{extension_point="Filter",profile="default-scheduler",status="Success",le="0.0002"} 1\n'
        in text
    )


def test_metrics_without_labels_are_shown_from_the_start() -> None:
    text = SchedulerMetrics().text()
    assert "\nscheduler_preemption_attempts_total 0\n" in text
    assert '\nscheduler_preemption_victims_bucket{le="64"} 0\n' in text
    assert "schedule_attempts_total" not in text


def test_a_reset_has_upstreams_effect() -> None:
    metrics = SchedulerMetrics()
    active = metrics.pending_pods.labels("active")
    active.inc(4)
    metrics.preemption_attempts_total.inc()
    metrics.pod_scheduling_attempts.observe(1)
    metrics.reset()
    text = metrics.text()
    assert "pending_pods" not in text
    assert "\nscheduler_preemption_attempts_total 0\n" in text
    assert "\nscheduler_pod_scheduling_attempts_count 1\n" in text
    active.inc()
    assert 'scheduler_pending_pods{queue="active"} 1\n' in metrics.text()


def test_registry_and_openmetrics_show_the_same_metrics() -> None:
    metrics = SchedulerMetrics()
    metrics.preemption_victims.observe(3)
    labels = {"le": "4.0"}
    assert metrics.registry.get_sample_value("scheduler_preemption_victims_bucket", labels) == 1
    assert 'scheduler_preemption_victims_bucket{le="4.0"} 1.0\n' in metrics.openmetrics()
