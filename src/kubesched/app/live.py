"""A scheduler on a real cluster: every part, joined.

Owns what is built from what, and how it starts and ends. Serving, leader election and signals are
the process's; here is what schedules.
Upstream: cmd/kube-scheduler/app/server.go Setup, pkg/scheduler/scheduler.go New
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.app.build import Built, build
from kubesched.app.watched import watched_resources
from kubesched.cache.cache import Cache
from kubesched.client.change import Change
from kubesched.client.errors import ApiError
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.reflector import Reflector
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.search import Search
from kubesched.framework.enqueue import enqueue_registrations, pre_enqueue_calls, queue_sort_key
from kubesched.framework.profile import Profile
from kubesched.framework.registry import Registry
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo
from kubesched.model.process_metrics import ProcessMetrics
from kubesched.objects.decode import KINDS
from kubesched.objects.pod import Pod
from kubesched.plugins.in_tree import in_tree_registry
from kubesched.queue.interface import ProfileQueueing, QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.api_client import LiveApiClient
from kubesched.scheduler.binders import BINDERS_MAX, Binders
from kubesched.scheduler.binding_cycle import BindingCycle, Outstanding
from kubesched.scheduler.debugger import CacheDebugger
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.handle import Live, LiveHandle
from kubesched.scheduler.pods import UnassignedPods
from kubesched.scheduler.preemption import PreemptionExecutor
from kubesched.scheduler.queue_order import QueueOrder
from kubesched.scheduler.schedule_one import SchedulingCycle
from kubesched.scheduler.scheduler import Inbox, Scheduler
from kubesched.scheduler.status_patches import StatusPatches
from kubesched.scheduler.stories import NotedRecorder, Stories
from kubesched.scheduler.story import StoryTeller

# Terminal pods take nothing and are left out, as by upstream's informer.
POD_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
DRAIN_S: Final = 2.0
STORIES_CHECKED_PER_S: Final = 1000
"""At how many stories a second it is looked whether their pods are still there."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How to schedule."""

    config: KubeSchedulerConfiguration
    hostname: str
    out_of_tree: Registry | None = None
    is_enabled: Callable[[str], bool] = lambda _gate: True
    """Says whether a feature that this scheduler can do without is on, by the name of its gate."""
    max_in_unschedulable_s: float = 300.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outside:
    """What a live scheduler is given of the world."""

    client: Client
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    measured: ProcessMetrics | None = None


class LiveScheduler:
    """Watches a cluster and schedules its pods."""

    def __init__(self, settings: LiveSettings, outside: Outside) -> None:
        self.settings = settings
        self.outside = outside
        self.tasks = Tasks()
        self.bindings = Tasks()
        clock, log, metrics = outside.clock, outside.log, outside.metrics
        self._live = Live(clock, log, self.tasks, metrics)
        self.built: Built = build(
            settings.config,
            out_of_tree=settings.out_of_tree,
            make_handle=lambda name: LiveHandle(name, self._live, settings.seed),
            validates=False,  # Whoever reads the options did.
        )
        self.profiles: dict[str, Profile] = self.built.profiles
        self.cache = Cache(keep_whole_pods=self.built.reads_bound_pods)
        for handle in self.built.handles.values():
            handle.view = self.cache.snapshot()
        for profile in self.profiles.values():
            profile.log = log
            profile.measured_by(metrics, clock.monotonic_s)
        self.pods = UnassignedPods()
        self.waiting_pods = WaitingPodsMap()
        self.in_pre_bind = PodsInPreBind()
        self.inbox = Inbox()
        self.queue = self._queue()
        self.events = EventBroadcaster(
            outside.client.sibling(user_agent="kube-scheduler"),
            clock=clock,
            log=log,
            hostname=settings.hostname,
            metrics=outside.measured,
            is_busy=self._is_binding_much,
        )
        self.stories = Stories(clock)
        self._recorders = {
            name: NotedRecorder(self.events.recorder(name), self.stories) for name in self.profiles
        }
        self.client = LiveApiClient(outside.client)
        self.patches = StatusPatches(outside.client, self.tasks, clock, log)
        self.executor = self._executor()
        self.failures = FailureHandler(
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            patches=self.patches,
            recorder_of=self._recorders.__getitem__,
            clock=clock,
            log=log,
            metrics=metrics,
        )
        self.scheduler = self._scheduler()
        self.teller = self._teller()
        self.debugger = CacheDebugger(
            client=outside.client,
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            pod_selector=POD_SELECTOR,
            clock=clock,
            log=log,
        )
        self._lend()
        self.resources = watched_resources(self.profiles.values())
        self._unsynced: set[Resource] = set(self.resources)
        self.forbidden: dict[Resource, str] = {}
        self.reflectors: list[Reflector] = []

    # -- parts ------------------------------------------------------------------------------------

    def _queue(self) -> SchedulingQueue:
        config, outside = self.settings.config, self.outside
        first = next(iter(self.profiles.values()))
        (name,) = first.plugin_names("queueSort")
        less, key = first.less, queue_sort_key(first)
        if name not in in_tree_registry():
            order = QueueOrder(name, less, key, outside.log)
            less, key = order.less, order.key
        return SchedulingQueue(
            {
                name: ProfileQueueing(pre_enqueue_calls(profile), enqueue_registrations(profile))
                for name, profile in self.profiles.items()
            },
            less=less,
            key=key,
            settings=QueueSettings(
                initial_backoff_s=float(config.pod_initial_backoff_seconds or 1),
                max_backoff_s=float(config.pod_max_backoff_seconds or 10),
                max_in_unschedulable_s=self.settings.max_in_unschedulable_s,
                pop_from_backoff_queue=self.settings.is_enabled("SchedulerPopFromBackoffQ"),
            ),
            clock=outside.clock,
            metrics=outside.metrics,
            log=outside.log,
            nominator=Nominator(
                nominate=self._nominate,
                remove=self._take_back,
                pod_of=self.pods.get,
                log=outside.log,
            ),
        )

    def _nominate(self, pod: PodInfo, node_name: str) -> None:
        if not self.cache.is_bound(pod):
            self.cache.nominate_pod(pod, node_name)

    def _take_back(self, pod: PodInfo) -> None:
        if not self.cache.is_bound(pod):
            self.cache.nominate_pod(pod, "")

    def _executor(self) -> PreemptionExecutor:
        outside = self.outside
        return PreemptionExecutor(
            client=self.client,
            recorder_of=self._recorders.__getitem__,
            activate=self.queue.activate,
            nominator=self.queue.nominator,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.in_pre_bind,
            cache=self.cache,
            tasks=self.tasks,
            clock=outside.clock,
            log=outside.log,
            metrics=outside.metrics,
        )

    def _scheduler(self) -> Scheduler:
        clock, log, metrics = self.outside.clock, self.outside.log, self.outside.metrics
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
            search=Search(default_percentage=percentage),
            failures=self.failures,
            preempt=self.executor.start if is_asynchronous else self.executor.evict,
            waiting_pods=self.waiting_pods,
            recorder_of=self._recorders.__getitem__,
            clock=clock,
            log=log,
            metrics=metrics,
            on_decided=self.stories.decided,
        )
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

    def _teller(self) -> StoryTeller:
        return StoryTeller(
            stories=self.stories,
            profiles=self.profiles,
            cache=self.cache,
            queue=self.queue,
            pods=self.pods,
            waiting_pods=self.waiting_pods,
            in_pre_bind=self.in_pre_bind,
            is_preempting=self.executor.is_preempting,
            is_scheduling=lambda: self.scheduler.is_scheduling,
            max_in_unschedulable_s=self.settings.max_in_unschedulable_s,
            clock=self.outside.clock,
        )

    def _lend(self) -> None:
        """Give plugins' handles what exists only now."""
        live = self._live
        live.client = self.client
        live.nominator = self.queue.nominator
        live.recorder_of = self._recorders.__getitem__
        live.waiting_pods = self.waiting_pods
        live.activate = self.queue.activate
        live.is_preempting = self.executor.is_preempting
        live.informer = self._informer

    def _informer(self, resource: str) -> Any:
        if resource == "pods":
            return self.pods
        for kind in self.resources:
            if resource == _custom_name(kind) and self.cache.kind_of(kind.kind) is None:
                return self.scheduler.handlers.others.setdefault(kind, {})
        raise LookupError(
            f"objects of {resource} are not kept: a plugin gets pods, and the kinds "
            "<plural>.<version>.<group> that it registers for in events_to_register()"
        )

    def _is_binding_much(self) -> bool:
        """Return whether pods wait to be bound."""
        return self.scheduler.outstanding.count >= BINDERS_MAX

    # -- watching ---------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """Return whether every kind was read to the end, and taken over."""
        return not self._unsynced and bool(self.reflectors)

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds that are not known yet."""
        return sorted(resource.plural for resource in self._unsynced)

    def start_watching(self) -> None:
        """Begin to read the cluster, and to take over what changes."""
        # Nothing that is read now is garbage soon: looking for some would double the time.
        gc.disable()
        outside, rng = self.outside, Generator(self.settings.seed, "reflectors")
        self.reflectors = [
            Reflector(
                outside.client,
                resource,
                self.inbox.put,
                decode=KINDS.get((resource.api_version, resource.kind), dict),
                field_selector=POD_SELECTOR if resource == PODS else "",
                keep_raw=_keeps_raw(resource),
                clock=outside.clock,
                rng=rng,
                log=outside.log,
                initial_done=self._initial_done,
                on_forbidden=self._forbidden,
            )
            for resource in self.resources
        ]
        for reflector in self.reflectors:
            self.tasks.start(reflector.run(), name=f"watch {reflector.resource.plural}")
        self.tasks.start(self.scheduler.run(), name="scheduler")
        self.tasks.start(self.events.run(), name="events")
        self.tasks.start(self._show_cache_size(), name="cache size")
        self.tasks.start(self._forget_stories(), name="stories")

    def _initial_done(self, resource: Resource) -> None:
        # Through the inbox: only then has everything before it been taken over.
        self.inbox.put(lambda: self._synced(resource))

    def _synced(self, resource: Resource) -> None:
        self._unsynced.discard(resource)
        self.forbidden.pop(resource, None)
        if not self._unsynced:
            gc.enable()
            gc.freeze()

    def _forbidden(self, resource: Resource, verb: str, error: ApiError) -> None:
        # The client's owner says which right is missing.
        self.forbidden[resource] = str(error)

    async def wait_until_synced(self) -> None:
        """Wait until every kind is known."""
        while not self.has_synced:
            await self.outside.clock.sleep(0.02)

    async def _show_cache_size(self) -> None:
        sizes = self.outside.metrics.cache_size
        while True:
            view = self.cache.snapshot()
            sizes.labels("assumed_pods").set(self.cache.assumed_count)
            sizes.labels("pods").set(view.pods.counted.sum())
            sizes.labels("nodes").set(view.node_count)
            await self.outside.clock.sleep(1.0)

    async def _forget_stories(self) -> None:
        while True:
            await self.outside.clock.sleep(1.0)
            self.stories.forget(self.teller.is_there, STORIES_CHECKED_PER_S)

    # -- scheduling -------------------------------------------------------------------------------

    def explain(self, key: str) -> bytes | None:
        """Return where `namespace/name` is and why, as JSON; None for a pod that is not known."""
        story = self.teller.tell(key)
        return None if story is None else msgspec.json.encode(story)

    def start_scheduling(self) -> None:
        """Begin to place pods."""
        self.scheduler.start_scheduling()

    async def stop_scheduling(self) -> None:
        """Place no further pod; bindings that are on their way are waited for, others given up."""
        clock, outstanding = self.outside.clock, self.scheduler.outstanding
        self.scheduler.stop_scheduling()
        deadline_s = clock.monotonic_s() + DRAIN_S
        while outstanding.count and clock.monotonic_s() < deadline_s:
            await clock.sleep(0.01)
        await self.bindings.stop()

    def compare_and_dump(self) -> None:
        """Log how cache and API server differ, and what is known."""
        self.tasks.start(self.debugger.compare_and_dump(), name="cache debugger")

    async def stop(self) -> None:
        """End in order: no new attempt, bindings under way are waited for, then events."""
        await self.stop_scheduling()
        await self.events.drain(DRAIN_S)
        self.scheduler.stop()
        await self.tasks.stop()


def _keeps_raw(resource: Resource) -> Callable[[Any], bool] | bool:
    if resource == NODES:
        return True
    if resource == PODS:
        return _is_unassigned
    return False


def _is_unassigned(pod: Pod) -> bool:
    return not pod.spec.node_name


def _custom_name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.version}.{resource.group}"


def all_pods(live: LiveScheduler) -> Iterable[Any]:
    """Yield every pod that has not ended."""
    yield from live.cache.bound_pods()
    yield from (pod for pod in live.pods if not live.cache.is_bound(pod))


__all__ = ["Change", "LiveScheduler", "LiveSettings", "Outside", "all_pods"]
