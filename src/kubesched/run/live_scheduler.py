"""The live scheduler: builds and connects all components that schedule pods of a cluster.

Owns how they start and stop. HTTP serving, leader election and signals belong to the process
(`cli.run`).
Upstream: cmd/kube-scheduler/app/server.go Setup, pkg/scheduler/scheduler.go New
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubesched.attempt.request import Search
from kubesched.cache.cache import Cache, UnassignedPods
from kubesched.client.events.recorder import EventBroadcaster
from kubesched.client.resources import Resource
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from kubesched.profile.build import Built
from kubesched.queue.interface import QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.run.profile_set import ProfileSet, build_profile_set
from kubesched.run.reflectors import POD_SELECTOR, Watching
from kubesched.run.settings import Environment, LiveSettings
from kubesched.run.watched_kinds import registered_kind
from kubesched.scheduler.binding_cycle import BINDERS_MAX, Binders, BindingCycle, Outstanding
from kubesched.scheduler.debugger import CacheDebugger
from kubesched.scheduler.decision_history import DecisionHistory, HistoryRecorder
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.live_handle import LiveApiClient, LiveServices
from kubesched.scheduler.pod_reporter import PodReporter
from kubesched.scheduler.preemption import PreemptionExecutor
from kubesched.scheduler.schedule_one import SchedulingCycle
from kubesched.scheduler.scheduler import Inbox, Scheduler
from kubesched.scheduler.status_patches import StatusPatches
from kubesched.snapshot.pod_info import PodInfo

DRAIN_S: Final = 5.0
DECISIONS_CHECKED_PER_S: Final = 1000
"""How many records of the decision history are checked each second."""


class LiveScheduler:
    """Watches a cluster and schedules its pods."""

    def __init__(self, settings: LiveSettings, environment: Environment) -> None:
        self.settings = settings
        self.environment = environment
        self.tasks = Tasks()
        self.bindings = Tasks()
        self.retiring: list[ProfileSet] = []
        """Replaced profile sets whose plugins still bind pods."""
        self.preparing: ProfileSet | None = None
        """The profile set that a reload prepares."""
        clock, log, metrics = environment.clock, environment.log, environment.metrics
        self.cache = Cache()
        self.profile_set = build_profile_set(
            settings,
            environment,
            self.cache.snapshot(),
            Tasks(),
            add_placeholders=self.cache.add_placeholders,
        )
        if self.profile_set.reads_bound_pods:
            self.cache.keep_whole_pods()
        self.profiles: dict[str, Profile] = dict(self.profile_set.profiles)
        """The active profiles by scheduler name, shared with all components."""
        self.pods = UnassignedPods()
        self.waiting_pods = WaitingPodsMap()
        self.in_pre_bind = PodsInPreBind()
        self.inbox = Inbox()
        self.watching = Watching(
            self.profile_set.resources,
            environment=environment,
            inbox=self.inbox,
            seed=settings.seed,
        )
        self.watching.keeps_bound_json = self.profile_set.shows_bound_pods
        self.queue = self._queue()
        self.events = EventBroadcaster(
            environment.client.sibling(user_agent="kube-scheduler"),
            clock=clock,
            log=log,
            hostname=settings.hostname,
            metrics=environment.measured,
            is_busy=self._are_binders_saturated,
        )
        self.history = DecisionHistory(clock)
        self._recorders: dict[str, HistoryRecorder] = {}
        self.add_recorders()
        self.client = LiveApiClient(environment.client)
        self.patches = StatusPatches(environment.client, self.tasks, clock, log)
        self.executor = PreemptionExecutor(
            client=self.client,
            recorder_of=self._recorders.__getitem__,
            activate=self.queue.activate,
            nominated_pods=self.queue.nominator.nominated_pods,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.in_pre_bind,
            bound_pod=self.cache.bound_pod,
            tasks=self.tasks,
            clock=clock,
            log=log,
            metrics=metrics,
        )
        self.failures = FailureHandler(
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            patches=self.patches,
            recorder_of=self._recorders.__getitem__,
            clock=clock,
            log=log,
            metrics=metrics,
            is_ours=self.profiles.__contains__,
        )
        self.scheduler = self._scheduler()
        self.pod_reporter = PodReporter(
            history=self.history,
            profiles=self.profiles,
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            waiting_pods=self.waiting_pods,
            in_pre_bind=self.in_pre_bind,
            is_preempting=self.executor.is_preempting,
            is_scheduling=lambda: self.scheduler.is_scheduling,
            max_in_unschedulable_s=settings.max_in_unschedulable_s,
            clock=clock,
        )
        self.debugger = CacheDebugger(
            client=environment.client,
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            pod_selector=POD_SELECTOR,
            clock=clock,
            log=log,
        )
        self.provide(self.profile_set.services)

    # -- components -------------------------------------------------------------------------------

    def _queue(self) -> SchedulingQueue:
        config, environment = self.settings.config, self.environment
        return SchedulingQueue(
            self.profile_set.queueing,
            less=self.profile_set.less,
            key=self.profile_set.key,
            settings=QueueSettings(
                initial_backoff_s=float(config.pod_initial_backoff_seconds or 1),
                max_backoff_s=float(config.pod_max_backoff_seconds or 10),
                max_in_unschedulable_s=self.settings.max_in_unschedulable_s,
                pop_from_backoff_queue=self.settings.is_enabled("SchedulerPopFromBackoffQ"),
            ),
            clock=environment.clock,
            metrics=environment.metrics,
            log=environment.log,
            nominator=Nominator(
                nominate=self._nominate,
                remove=lambda pod: self._nominate(pod, ""),
                pod_of=self.pods.get,
                log=environment.log,
            ),
        )

    def _nominate(self, pod: PodInfo, node_name: str) -> None:
        if not self.cache.is_bound(pod):
            self.cache.nominate_pod(pod, node_name)

    def _scheduler(self) -> Scheduler:
        clock, log, metrics = self.environment.clock, self.environment.log, self.environment.metrics
        outstanding = Outstanding()
        is_asynchronous = self.settings.is_enabled("SchedulerAsyncPreemption")
        percentage = self.settings.config.percentage_of_nodes_to_score or 0
        handlers = EventHandlers(
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            scheduler_names=self.profiles,
            reject_waiting_pod=self.waiting_pods.reject,
            clock=clock,
            log=log,
            metrics=metrics,
        )
        cycle = SchedulingCycle(
            profiles=self.profiles,
            cache=self.cache,
            queue=self.queue,
            search=Search(
                default_percentage=percentage,
                draw=RandomStream(self.settings.seed, "equal nodes").below,
            ),
            failures=self.failures,
            preempt=self.executor.start if is_asynchronous else self.executor.evict,
            waiting_pods=self.waiting_pods,
            recorder_of=self._recorders.__getitem__,
            clock=clock,
            log=log,
            metrics=metrics,
            on_decided=self.history.record_decision,
        )
        cycle.use_extenders(self.profile_set.extenders)
        binding = BindingCycle(
            cache=self.cache,
            queue=self.queue,
            waiting_pods=self.waiting_pods,
            in_pre_bind=self.in_pre_bind,
            patches=self.patches,
            failures=self.failures,
            recorder_of=self._recorders.__getitem__,
            apply_later=self.inbox.put,
            outstanding=outstanding,
            clock=clock,
            log=log,
            metrics=metrics,
            nominates_for_expectation=self.settings.is_enabled("NominatedNodeNameForExpectation"),
            node_of=self.client.node_of,
        )
        return Scheduler(
            inbox=self.inbox,
            handlers=handlers,
            queue=self.queue,
            cycle=cycle,
            binders=Binders(binding, outstanding, self.bindings),
            outstanding=outstanding,
            clock=clock,
            log=log,
        )

    def add_recorders(self) -> None:
        """Create event recorders for new profiles; old ones stay for pods in flight."""
        for name in self.profiles:
            if name not in self._recorders:
                recorder = self.events.recorder(name)
                self._recorders[name] = HistoryRecorder(recorder, self.history)

    def provide(self, services: LiveServices) -> None:
        """Set the components that plugin handles offer, now that they are built."""
        services.client = self.client
        services.nominator = self.queue.nominator
        services.recorder_of = self._recorders.__getitem__
        services.waiting_pods = self.waiting_pods
        services.activate = self.queue.activate
        services.is_preempting = self.executor.is_preempting
        services.informer = self._informer

    def _informer(self, resource: str) -> Any:
        if resource == "pods":
            return self.pods
        kind = registered_kind(resource, self.resources, self.cache)
        return self.scheduler.handlers.others.setdefault(kind, {})

    def _are_binders_saturated(self) -> bool:
        """Return whether bindings use all the workers."""
        return self.scheduler.outstanding.count >= BINDERS_MAX

    # -- watching ---------------------------------------------------------------------------------

    @property
    def built(self) -> Built:
        """Return the active profiles, and their configuration."""
        return self.profile_set.built

    @property
    def resources(self) -> list[Resource]:
        """Return the watched resources."""
        return self.watching.resources

    @property
    def has_synced(self) -> bool:
        """Return whether all resources were listed and applied."""
        return self.watching.has_synced

    def start_watching(self) -> None:
        """Start to watch the cluster and to apply changes."""
        self.environment.guard.start()
        self.watching.start(self.tasks)
        self.tasks.start(self.scheduler.run(), name="scheduler")
        self.tasks.start(self.events.run(), name="events")
        self.tasks.start(self._export_cache_size(), name="cache size")
        self.tasks.start(self._forget_decisions(), name="decision history")

    async def wait_until_synced(self) -> None:
        """Wait until all resources are synced."""
        await self.watching.wait_until_synced()

    async def _export_cache_size(self) -> None:
        sizes = self.environment.metrics.cache_size
        while True:
            view = self.cache.snapshot()
            sizes.labels("assumed_pods").set(self.cache.assumed_count)
            sizes.labels("pods").set(view.pods.counted.sum())
            sizes.labels("nodes").set(view.node_count)
            await self.environment.clock.sleep(1.0)

    async def _forget_decisions(self) -> None:
        while True:
            await self.environment.clock.sleep(1.0)
            self.history.forget(self.pod_reporter.is_there, DECISIONS_CHECKED_PER_S)

    # -- scheduling -------------------------------------------------------------------------------

    def explain(self, key: str) -> bytes | None:
        """Return the report of `namespace/name` as JSON; None for an unknown pod."""
        report = self.pod_reporter.report(key)
        return None if report is None else msgspec.json.encode(report)

    def start_scheduling(self) -> None:
        """Start to place pods."""
        self.scheduler.start_scheduling()

    async def stop_scheduling(self) -> None:
        """Stop placing pods; wait for outstanding bindings, and cancel parked ones."""
        clock, outstanding = self.environment.clock, self.scheduler.outstanding
        self.scheduler.stop_scheduling()
        deadline_s = clock.monotonic_s() + DRAIN_S
        while outstanding.count and clock.monotonic_s() < deadline_s:
            await clock.sleep(0.01)
        await self.bindings.stop()

    def compare_and_dump(self) -> None:
        """Log the differences of cache and API server, and a dump of cache and queue."""
        self.tasks.start(self.debugger.compare_and_dump(), name="cache debugger")

    async def stop(self) -> None:
        """Stop in order: attempts, outstanding bindings, events, then all tasks."""
        await self.stop_scheduling()
        await self.events.drain(DRAIN_S)
        self.scheduler.stop()
        await self.stop_tasks()

    async def stop_tasks(self) -> None:
        """Stop all background tasks, including those of plugins."""
        self.environment.guard.stop()
        await self.tasks.stop()
        for profile_set in (*self.retiring, self.profile_set):
            await profile_set.end()


def all_pods(live: LiveScheduler) -> Iterable[Any]:
    """Yield every known pod that has not ended."""
    yield from live.cache.bound_pods()
    yield from (pod for pod in live.pods if not live.cache.is_bound(pod))


__all__ = ["Environment", "LiveScheduler", "LiveSettings", "all_pods"]
