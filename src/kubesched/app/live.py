"""A scheduler on a real cluster: every part, joined.

Owns what is built from what, and how it starts and ends. Serving, leader election and signals are
the process's; here is what schedules.
Upstream: cmd/kube-scheduler/app/server.go Setup, pkg/scheduler/scheduler.go New
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubesched.app.build import Built
from kubesched.app.generation import Generation, make_generation
from kubesched.app.live_settings import LiveSettings, Outside
from kubesched.app.watching import POD_SELECTOR, Watching
from kubesched.cache.cache import Cache
from kubesched.client.change import Change
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.reflector import Reflector
from kubesched.client.resources import Resource
from kubesched.engine.search import Search
from kubesched.framework.profile import Profile
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.model.pod_info import PodInfo
from kubesched.queue.interface import QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.api_client import LiveApiClient
from kubesched.scheduler.binders import BINDERS_MAX, Binders
from kubesched.scheduler.binding_cycle import BindingCycle, Outstanding
from kubesched.scheduler.debugger import CacheDebugger
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.handle import Live
from kubesched.scheduler.pods import UnassignedPods
from kubesched.scheduler.preemption import PreemptionExecutor
from kubesched.scheduler.schedule_one import SchedulingCycle
from kubesched.scheduler.scheduler import Inbox, Scheduler
from kubesched.scheduler.status_patches import StatusPatches
from kubesched.scheduler.stories import NotedRecorder, Stories
from kubesched.scheduler.story import StoryTeller

DRAIN_S: Final = 5.0
STORIES_CHECKED_PER_S: Final = 1000
"""At how many stories a second it is looked whether their pods are still there."""


class LiveScheduler:
    """Watches a cluster and schedules its pods."""

    def __init__(self, settings: LiveSettings, outside: Outside) -> None:
        self.settings = settings
        self.outside = outside
        self.tasks = Tasks()
        self.bindings = Tasks()
        self.retiring: list[Generation] = []
        """Those whose plugins still bind pods, though others decide by now."""
        self.preparing: Generation | None = None
        """The one that is to decide next."""
        clock, log, metrics = outside.clock, outside.log, outside.metrics
        self.cache = Cache()
        self.generation = make_generation(
            settings, outside, self.cache.snapshot(), Tasks(), stand_in=self.cache.stand_in
        )
        if self.generation.reads_bound_pods:
            self.cache.keep_whole_pods()
        self.profiles: dict[str, Profile] = dict(self.generation.profiles)
        """Those in force, by scheduler name; the parts below look here at every step."""
        self.pods = UnassignedPods()
        self.waiting_pods = WaitingPodsMap()
        self.in_pre_bind = PodsInPreBind()
        self.inbox = Inbox()
        self.watching = Watching(
            self.generation.resources, outside=outside, inbox=self.inbox, seed=settings.seed
        )
        self.watching.keeps_bound_json = self.generation.shows_bound_pods
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
        self._recorders: dict[str, NotedRecorder] = {}
        self.know_recorders()
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
            is_ours=self.profiles.__contains__,
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
        self.lend(self.generation.lent)

    # -- parts ------------------------------------------------------------------------------------

    def _queue(self) -> SchedulingQueue:
        config, outside = self.settings.config, self.outside
        return SchedulingQueue(
            self.generation.queueing,
            less=self.generation.less,
            key=self.generation.key,
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
            search=Search(
                default_percentage=percentage,
                draw=Generator(self.settings.seed, "equal nodes").below,
            ),
            failures=self.failures,
            preempt=self.executor.start if is_asynchronous else self.executor.evict,
            waiting_pods=self.waiting_pods,
            recorder_of=self._recorders.__getitem__,
            clock=clock,
            log=log,
            metrics=metrics,
            on_decided=self.stories.decided,
        )
        cycle.go_by(self.generation.extenders)
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

    def know_recorders(self) -> None:
        """Have a recorder for every profile there is; old ones stay, for pods under way."""
        for name in self.profiles:
            if name not in self._recorders:
                recorder = self.events.recorder(name)
                self._recorders[name] = NotedRecorder(recorder, self.stories)

    def lend(self, live: Live) -> None:
        """Give plugins' handles what exists only now."""
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
    def built(self) -> Built:
        """Return the profiles in force, and the configuration they come from."""
        return self.generation.built

    @property
    def resources(self) -> list[Resource]:
        """Return the kinds that are watched."""
        return self.watching.resources

    @property
    def reflectors(self) -> list[Reflector]:
        """Return the readers; none before it has begun to watch."""
        return self.watching.reflectors

    @property
    def has_synced(self) -> bool:
        """Return whether every kind was read to the end, and taken over."""
        return self.watching.has_synced

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds that are not known yet."""
        return sorted(resource.plural for resource in self.watching.unsynced)

    def start_watching(self) -> None:
        """Begin to read the cluster, and to take over what changes."""
        self.outside.guard.start()
        self.watching.start(self.tasks)
        self.tasks.start(self.scheduler.run(), name="scheduler")
        self.tasks.start(self.events.run(), name="events")
        self.tasks.start(self._show_cache_size(), name="cache size")
        self.tasks.start(self._forget_stories(), name="stories")

    async def wait_until_synced(self) -> None:
        """Wait until every kind is known."""
        await self.watching.wait_until_synced()

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
        await self.stop_tasks()

    async def stop_tasks(self) -> None:
        """End all that runs beside scheduling, of ours and of plugins."""
        self.outside.guard.stop()
        await self.tasks.stop()
        for one in (*self.retiring, self.generation):
            await one.end()


def _custom_name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.version}.{resource.group}"


def all_pods(live: LiveScheduler) -> Iterable[Any]:
    """Yield every pod that has not ended."""
    yield from live.cache.bound_pods()
    yield from (pod for pod in live.pods if not live.cache.is_bound(pod))


__all__ = ["Change", "LiveScheduler", "LiveSettings", "Outside", "all_pods"]
