"""The scheduler's metrics: upstream's names, kinds, labels, buckets and texts.

Owns the list, and one metric of kubesched. A metric of a disabled feature is counted, but not
shown; those of features that kubesched lacks are left out.
Upstream: pkg/scheduler/metrics/metrics.go,
pkg/scheduler/framework/plugins/volumebinding/metrics/metrics.go
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

from kubesched.config.feature_gates import DEFAULT_GATES
from kubesched.metrics.exposition import Exposed, registry_of
from kubesched.metrics.instruments import CounterVec, Maker, Measures, exponential_buckets

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ATTEMPT_BUCKETS = exponential_buckets(0.001, 2, 15)
_EXTENSION_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
_HINT_BUCKETS = exponential_buckets(0.00001, 2, 12)
_PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
_LONG_BUCKETS = exponential_buckets(0.01, 2, 20)


class SchedulerMetrics(Exposed):
    """One attribute for each metric, named as upstream without `scheduler_`.

    With labels: `metrics.schedule_attempts_total.labels(result, profile).inc()`; on a hot path,
    keep the child. Without: `metrics.preemption_attempts_total.inc()`.
    """

    def __init__(
        self, is_enabled: Callable[[str], bool] | None = None, disabled: Collection[str] = ()
    ) -> None:
        """Make the metrics.

        Args:
            is_enabled: Returns whether a feature gate is enabled; upstream's defaults if None.
            disabled: Full names of metrics that are not shown.
        """
        self.measures = Measures(disabled)
        make = Maker(self.measures, "scheduler_")
        enabled = DEFAULT_GATES.is_enabled if is_enabled is None else is_enabled

        def gated(gate: str) -> Maker:
            return make if enabled(gate) else Maker(Measures(), "scheduler_")

        self._make_attempts(make)
        self._make_framework(make)
        self._make_queue(make)
        self._make_queueing_hints(gated("SchedulerQueueingHints"))
        self._make_batches(make)
        self._make_preemption(make)
        self._make_async_preemption(gated("SchedulerAsyncPreemption"))
        self.resourceclaim_creates_total = gated("DRAExtendedResource").counter_vec(
            "resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            "ALPHA",
            ("status",),
        )
        self._make_binding_conditions(gated("DRADeviceBindingConditions"))
        self._make_volumes(make)

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Return a registry of prometheus_client with these metrics and the process's."""
        return registry_of(self.measures)

    def _make_attempts(self, make: Maker) -> None:
        self.schedule_attempts_total = make.counter_vec(
            "schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could"
            " not be scheduled, while 'error' means an internal scheduler problem.",
            "STABLE",
            ("result", "profile"),
        )
        self.scheduling_attempt_duration_seconds = make.histogram_vec(
            "scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            "STABLE",
            ("result", "profile"),
            _ATTEMPT_BUCKETS,
        )
        self.scheduling_algorithm_duration_seconds = make.histogram(
            "scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            "ALPHA",
            _ATTEMPT_BUCKETS,
        )
        self.pod_scheduling_sli_duration_seconds = make.histogram_vec(
            "pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling"
            " queue and might involve multiple scheduling attempts.",
            "BETA",
            ("attempts",),
            _LONG_BUCKETS,
        )
        self.pod_scheduling_attempts = make.histogram(
            "pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            "STABLE",
            exponential_buckets(1, 2, 5),
        )
        self.pod_scheduled_after_flush_total = make.counter(
            "pod_scheduled_after_flush_total",
            "Number of pods that were successfully scheduled after being flushed from"
            " unschedulablePods due to timeout. This metric helps detect potential queueing hint"
            " misconfigurations or event handling issues.",
            "ALPHA",
        )

    def _make_framework(self, make: Maker) -> None:
        self.framework_extension_point_duration_seconds = make.histogram_vec(
            "framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            "STABLE",
            ("extension_point", "status", "profile"),
            _EXTENSION_POINT_BUCKETS,
        )
        self.plugin_execution_duration_seconds = make.histogram_vec(
            "plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            "ALPHA",
            ("plugin", "extension_point", "status"),
            _PLUGIN_BUCKETS,
        )
        self.plugin_evaluation_total = make.counter_vec(
            "plugin_evaluation_total",
            "Number of attempts to schedule pods by each plugin and the extension point (available"
            " only in PreFilter, Filter, PreScore, and Score).",
            "BETA",
            ("plugin", "extension_point", "profile"),
        )
        self.permit_wait_duration_seconds = make.histogram_vec(
            "permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            "BETA",
            ("result",),
            _ATTEMPT_BUCKETS,
        )
        self.goroutines = make.gauge_vec(
            "goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            "BETA",
            ("operation",),
        )
        self.cache_size = make.gauge_vec(
            "cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            "ALPHA",
            ("type",),
        )

    def _make_queue(self, make: Maker) -> None:
        self.pending_pods = make.gauge_vec(
            "pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ;"
            " 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in"
            " unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the"
            " number of unschedulable pods that the scheduler never attempted to schedule because"
            " they are gated.",
            "STABLE",
            ("queue",),
        )
        self.queue_incoming_pods_total = make.counter_vec(
            "queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            "STABLE",
            ("queue", "event"),
        )
        self.unschedulable_pods = make.gauge_vec(
            "unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment the"
            " gauge for all plugins that caused it to not schedule and so this metric have meaning"
            " only when broken down by plugin.",
            "BETA",
            ("plugin", "profile"),
        )
        self.event_handling_duration_seconds = make.histogram_vec(
            "event_handling_duration_seconds",
            "Event handling latency in seconds.",
            "ALPHA",
            ("event",),
            _EXTENSION_POINT_BUCKETS,
        )

    def _make_queueing_hints(self, make: Maker) -> None:
        self.inflight_events = make.gauge_vec(
            "inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            "ALPHA",
            ("event",),
        )
        self.queueing_hint_execution_duration_seconds = make.histogram_vec(
            "queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            "ALPHA",
            ("plugin", "event", "hint"),
            _PLUGIN_BUCKETS,
        )

    def _make_batches(self, make: Maker) -> None:
        self.batch_attempts_total = make.counter_vec(
            "batch_attempts_total",
            "Counts of results when we attempt to use batching.",
            "ALPHA",
            ("profile", "result"),
        )
        self.batch_cache_flushed_total = make.counter_vec(
            "batch_cache_flushed_total",
            "Counts of cache flushes by reason.",
            "ALPHA",
            ("profile", "reason"),
        )
        self.get_node_hint_duration_seconds = make.histogram_vec(
            "get_node_hint_duration_seconds",
            "Latency for getting a node hint.",
            "ALPHA",
            ("hinted", "profile"),
            _HINT_BUCKETS,
        )
        self.store_schedule_results_duration_seconds = make.histogram_vec(
            "store_schedule_results_duration_seconds",
            "Latency for getting a no.",
            "ALPHA",
            ("profile",),
            _HINT_BUCKETS,
        )

    def _make_preemption(self, make: Maker) -> None:
        self.preemption_victims = make.histogram(
            "preemption_victims",
            "Number of selected preemption victims",
            "STABLE",
            exponential_buckets(1, 2, 7),
        )
        self.preemption_attempts_total = make.counter(
            "preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            "STABLE",
        )

    def _make_async_preemption(self, make: Maker) -> None:
        self.preemption_goroutines_duration_seconds = make.histogram_vec(
            "preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            "ALPHA",
            ("result",),
            _LONG_BUCKETS,
        )
        self.preemption_goroutines_execution_total = make.counter_vec(
            "preemption_goroutines_execution_total",
            "Number of preemption goroutines executed.",
            "ALPHA",
            ("result",),
        )

    def _make_binding_conditions(self, make: Maker) -> None:
        self.dra_bindingconditions_allocations_total = make.counter_vec(
            "dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per"
            " scheduling attempt",
            "ALPHA",
            ("profile", "driver", "status"),
        )
        self.dra_bindingconditions_wait_duration_seconds = make.histogram_vec(
            "dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            "ALPHA",
            ("profile", "driver", "status"),
            exponential_buckets(0.1, 2, 14),
        )

    def _make_volumes(self, make: Maker) -> None:
        self.volume_binder_cache_requests_total = make.counter_vec(
            "volume_binder_cache_requests_total",
            "Total number for request volume binding cache",
            "ALPHA",
            ("operation",),
        )
        self.volume_scheduling_stage_error_total = make.counter_vec(
            "volume_scheduling_stage_error_total",
            "Volume scheduling stage error count",
            "ALPHA",
            ("operation",),
        )


class PluginFaults:
    """`kubesched_plugin_faults_total`: faults of out-of-tree plugins.

    Shown from the first out-of-tree plugin on: without one, the metrics are upstream's.
    """

    def __init__(self, measures: Measures) -> None:
        self._measures = measures
        self._faults: CounterVec | None = None

    def show(self) -> None:
        """Start showing the metric."""
        if self._faults is None:
            self._faults = Maker(self._measures, "kubesched_").counter_vec(
                "plugin_faults_total",
                "Number of failed calls of out-of-tree plugins, by the fault: raised, "
                "invalid_result, over_budget or interrupted.",
                "ALPHA",
                ("plugin", "extension_point", "profile", "fault"),
            )

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        """Count one fault."""
        self.show()
        assert self._faults is not None
        self._faults.labels(plugin, point, profile, fault).inc()
