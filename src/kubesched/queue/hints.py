"""Queueing hints: which events let which rejected pods be tried again.

Owns the registrations of every profile, and how hints run: for one pod, or once for many pods that
the hint cannot distinguish. Never moves a pod.
Upstream: pkg/scheduler/scheduler.go buildQueueingHintMap,
pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration, HintFunction, HintReads, HintReadsOf
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.queue.interface import Occurrence, ProfileQueueing, Recorder
from kubesched.queue.unschedulable_pods import Group, PodsOfShape
from kubesched.snapshot.pod_info import PodInfo, PodShape

_NODE_TAINT: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
READS: Final = ("nothing", "shape", "template", "pod")
"""The parts of a pod that a hint may declare to read, the smallest first."""


class Strategy(IntEnum):
    """When a pod is tried again after an event; the greatest of several values wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


Worth: TypeAlias = "list[tuple[Strategy, Collection[QueuedPodInfo]]]"
"""Pods that are to be tried again, by strategy."""


class Hint:
    """The queueing hint of one plugin for one event."""

    __slots__ = ("call", "plugin", "reads")

    def __init__(self, plugin: str, call: HintFunction, reads: HintReads | HintReadsOf) -> None:
        if not callable(reads) and reads not in READS:
            raise ValueError(f"plugin {plugin}: a hint reads {', '.join(READS)}, not {reads!r}")
        self.plugin = plugin
        self.call = call
        self.reads = reads


class HintsByReads(NamedTuple):
    """The hints to run for an event, by what they read."""

    nothing: tuple[Hint, ...] = ()
    shape: tuple[Hint, ...] = ()
    template: tuple[Hint, ...] = ()
    pod: tuple[Hint, ...] = ()
    varying: tuple[Hint, ...] = ()
    """Hints whose `reads` depends on the pod."""


def _sort_by_reads(hints: Sequence[tuple[Hint, str]]) -> HintsByReads:
    by_reads: dict[str, list[Hint]] = {name: [] for name in HintsByReads._fields}
    for hint, reads in hints:
        by_reads[reads].append(hint)
    return HintsByReads(*map(tuple, by_reads.values()))


HintMap: TypeAlias = "dict[ClusterEvent, list[Hint]]"


def build_hint_map(registrations: Mapping[str, Sequence[EventRegistration]]) -> HintMap:
    """Return the hints of a profile by the event they were registered for."""
    # Parity: scheduler.go buildQueueingHintMap, v1.36.
    hints: HintMap = {}
    for plugin, registered in registrations.items():
        node_actions = ActionType(0)
        for registration in registered:
            event, call = registration.event, registration.hint
            reads = registration.reads if call else "nothing"
            hints.setdefault(event, []).append(Hint(plugin, call or _always, reads))
            if event.resource == EventResource.NODE:
                node_actions |= event.action
        if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
            # A plugin that waits for a new node also gets events of nodes that lose a taint.
            hints.setdefault(_NODE_TAINT, []).append(Hint(plugin, _always, "nothing"))
    return hints


def _always(_pod: PodInfo, _old: Any, _new: Any) -> QueueingHint:
    return QueueingHint.QUEUE


class Hints:
    """The hints of all profiles."""

    def __init__(
        self,
        profiles: Mapping[str, ProfileQueueing],
        *,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> None:
        self._maps = {
            name: build_hint_map(profile.registrations) for name, profile in profiles.items()
        }
        self._clock = clock
        self._recorder = recorder
        self._log = log
        self._interesting: dict[ClusterEvent, bool] = {}
        self._cached_hints: dict[tuple[str, ClusterEvent, frozenset[str]], HintsByReads] = {}
        self._events_of: dict[str, tuple[ClusterEvent, ...]] = {}
        for hint_map in self._maps.values():
            for event, hints in hint_map.items():
                for hint in hints:
                    self._events_of[hint.plugin] = (*self.events_of(hint.plugin), event)

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """Return the events a plugin registered for, in any profile."""
        return self._events_of.get(plugin, ())

    def registered_actions(self) -> dict[str, ActionType]:
        """Return the resources that plugins registered for, with the actions."""
        # Parity: scheduler.go unionedGVKs, v1.36.
        actions: dict[str, ActionType] = {}
        for hint_map in self._maps.values():
            for event in hint_map:
                before = actions.get(event.resource, ActionType(0))
                actions[event.resource] = before | event.action
        return actions

    def is_of_interest(self, event: ClusterEvent) -> bool:
        """Return whether the event could help any pod at all."""
        # Parity: scheduling_queue.go isEventOfInterest, v1.36.
        is_of_interest = self._interesting.get(event)
        if is_of_interest is None:
            is_of_interest = self._interesting[event] = event.is_wildcard or any(
                registered.covers(event) for events in self._maps.values() for registered in events
            )
        if not is_of_interest:
            message = "receive an event that isn't interested by any enabled plugins"
            self._log.info(message, level=6, event=event)
        return is_of_interest

    # -- one pod ----------------------------------------------------------------------------------

    def is_pod_worth_requeuing(self, queued: QueuedPodInfo, occurrence: Occurrence) -> Strategy:
        """Return when a pod is tried again after an event."""
        # Parity: scheduling_queue.go isPodWorthRequeuing, v1.36.
        if not queued.has_rejectors:
            self._log.info("Worth requeuing because no failed plugins", level=6, pod=queued.pod)
            return Strategy.AFTER_BACKOFF
        if occurrence.event.is_wildcard:
            return self._after_wildcard(queued, occurrence)
        by_reads = self._hints_for(
            queued.pod.scheduler_name, occurrence.event, frozenset(queued.rejector_plugins)
        )
        if by_reads is None:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for hints in by_reads:
            strategy = self._run(hints, queued.pod, occurrence, queued.pending_plugins, strategy)
            if _is_settled(strategy, queued.pending_plugins):
                break
        return strategy

    def _after_wildcard(self, queued: QueuedPodInfo, occurrence: Occurrence) -> Strategy:
        # An event that names a pod concerns only this pod.
        is_meant = occurrence.new is None or occurrence.new.uid == queued.pod.uid
        if self._log.enabled(6):
            if is_meant:
                message, fields = "Worth requeuing because the event is wildcard", {}
            else:
                message = "Not worth requeuing because the event is wildcard, but for another pod"
                fields = {"newObj": _ref(occurrence.new)}
            label = occurrence.event.label
            self._log.info(message, level=6, pod=queued.pod, event=label, **fields)
        return Strategy.AFTER_BACKOFF if is_meant else Strategy.SKIP

    # -- groups of pods ----------------------------------------------------------------------------

    def worth_requeuing(
        self, group: Group, occurrence: Occurrence, subject: QueuedPodInfo | None
    ) -> Worth:
        """Return the pods of a group that an event may help.

        The result is that of running every hint for every pod, but a hint runs once for all pods
        that it cannot distinguish. Only the subject, the pod that the event is about, is always
        checked individually.
        """
        if not group.rejectors or occurrence.event.is_wildcard:
            return self._one_by_one(group, occurrence)
        by_reads = self._hints_for(group.profile, occurrence.event, group.rejectors)
        if by_reads is None:
            return [(Strategy.AFTER_BACKOFF, list(group))]
        if not any(by_reads):
            return []
        worth = self._judge_group(group, by_reads, occurrence, subject)
        if subject is not None:
            worth += self._one_by_one([subject], occurrence)
        return worth

    def _judge_group(
        self,
        group: Group,
        by_reads: HintsByReads,
        occurrence: Occurrence,
        subject: QueuedPodInfo | None,
    ) -> Worth:
        some_pod = _any_but(group, subject)
        if some_pod is None:
            return []
        strategy = self._run(by_reads.nothing, some_pod, occurrence, group.pending, Strategy.SKIP)
        if _is_settled(strategy, group.pending) or not any(by_reads[1:]):
            return [(strategy, _all_but(group, subject))] if strategy else []
        deeper = by_reads._replace(nothing=())
        worth: Worth = []
        for shape, same_shape in group.shapes.items():
            settled = self._settle_varying(deeper, shape, occurrence) if deeper.varying else deeper
            worth += self._judge_shape(
                same_shape, settled, occurrence, subject, (group.pending, strategy)
            )
        return worth

    def _settle_varying(
        self, by_reads: HintsByReads, shape: PodShape, occurrence: Occurrence
    ) -> HintsByReads:
        """Return the hints for pods of a shape, with the varying ones sorted by what they read."""
        return _sort_by_reads(
            [
                *((hint, "shape") for hint in by_reads.shape),
                *((hint, "template") for hint in by_reads.template),
                *((hint, "pod") for hint in by_reads.pod),
                *((hint, self._reads_of(hint, shape, occurrence)) for hint in by_reads.varying),
            ]
        )

    def _reads_of(self, hint: Hint, shape: PodShape, occurrence: Occurrence) -> str:
        assert callable(hint.reads)
        try:
            reads = hint.reads(shape, occurrence.old, occurrence.new)
            if reads in READS:
                return reads
            problem: Exception = ValueError(f"a hint reads {', '.join(READS)}, not {reads!r}")
        except Exception as raised:  # noqa: BLE001 - a failing plugin costs time, nothing else
            problem = raised
        self._log_failure(
            hint, occurrence, problem, "The reads function of a QueueingHintFn failed"
        )
        return "pod"

    def _judge_shape(
        self,
        same_shape: PodsOfShape,
        by_reads: HintsByReads,
        occurrence: Occurrence,
        subject: QueuedPodInfo | None,
        so_far: tuple[frozenset[str], Strategy],
    ) -> Worth:
        pending, strategy = so_far
        some_pod = _any_but(same_shape.pods.values(), subject)
        if some_pod is None:
            return []
        strategy = self._run(
            (*by_reads.nothing, *by_reads.shape), some_pod, occurrence, pending, strategy
        )
        if _is_settled(strategy, pending) or not (by_reads.template or by_reads.pod):
            return [(strategy, _all_but(same_shape.pods.values(), subject))] if strategy else []
        worth: Worth = []
        for same_template in same_shape.by_template() if by_reads.template else (same_shape.pods,):
            some_pod = _any_but(same_template.values(), subject)
            if some_pod is None:
                continue
            by_template = self._run(by_reads.template, some_pod, occurrence, pending, strategy)
            if by_reads.pod and not _is_settled(by_template, pending):
                for queued in _all_but(same_template.values(), subject):
                    alone = self._run(by_reads.pod, queued.pod, occurrence, pending, by_template)
                    if alone:
                        worth.append((alone, (queued,)))
            elif by_template:
                worth.append((by_template, _all_but(same_template.values(), subject)))
        return worth

    def _one_by_one(self, pods: Iterable[QueuedPodInfo], occurrence: Occurrence) -> Worth:
        strategies = [(self.is_pod_worth_requeuing(queued, occurrence), queued) for queued in pods]
        return [(strategy, (queued,)) for strategy, queued in strategies if strategy]

    # -- running hints ----------------------------------------------------------------------------

    def _hints_for(
        self, profile: str, event: ClusterEvent, rejectors: frozenset[str]
    ) -> HintsByReads | None:
        """Return the hints of some plugins for an event; None if the profile is not known."""
        cached = self._cached_hints.get((profile, event, rejectors))
        if cached is not None:
            return cached
        hint_map = self._maps.get(profile)
        if hint_map is None:
            self._log.error("No QueueingHintMap is registered for this profile", profile=profile)
            return None
        by_reads = self._cached_hints[profile, event, rejectors] = _sort_by_reads(
            [
                (hint, "varying" if callable(hint.reads) else hint.reads)
                for registered, hints in hint_map.items()
                if registered.covers(event)
                for hint in hints
                if hint.plugin in rejectors
            ]
        )
        return by_reads

    def _run(
        self,
        hints: Iterable[Hint],
        pod: PodInfo,
        occurrence: Occurrence,
        pending: Collection[str],
        strategy: Strategy,
    ) -> Strategy:
        for hint in hints:
            if not self._is_queued_by(hint, pod, occurrence):
                continue
            if hint.plugin in pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def _is_queued_by(self, hint: Hint, pod: PodInfo, occurrence: Occurrence) -> bool:
        start_s = self._clock.monotonic_s()
        try:
            verdict = hint.call(pod, occurrence.old, occurrence.new)
            result: str = verdict.value
        except Exception as problem:  # noqa: BLE001 - the pod must not be lost
            verdict, result = QueueingHint.QUEUE, "Error"
            message = "QueueingHintFn returns error"
            self._log_failure(hint, occurrence, problem, message, pod=pod)
        elapsed_s = self._clock.monotonic_s() - start_s
        self._recorder.hints[hint.plugin, occurrence.event.label, result].observe(elapsed_s)
        return verdict is not QueueingHint.QUEUE_SKIP

    def _log_failure(
        self, hint: Hint, occurrence: Occurrence, problem: Exception, message: str, **fields: object
    ) -> None:
        if occurrence.old is not None and occurrence.new is not None:
            fields |= {"oldObj": _ref(occurrence.old), "newObj": _ref(occurrence.new)}
        self._log.error(message, err=problem, event=occurrence.event, plugin=hint.plugin, **fields)


def _is_settled(strategy: Strategy, pending: Collection[str]) -> bool:
    """Return whether no further hint can change the strategy."""
    return strategy is Strategy.IMMEDIATELY or (strategy is Strategy.AFTER_BACKOFF and not pending)


def _any_but(pods: Iterable[QueuedPodInfo], subject: QueuedPodInfo | None) -> PodInfo | None:
    return next((queued.pod for queued in pods if queued is not subject), None)


def _all_but(pods: Iterable[QueuedPodInfo], subject: QueuedPodInfo | None) -> list[QueuedPodInfo]:
    if subject is None:
        return list(pods)
    return [queued for queued in pods if queued is not subject]


def _ref(obj: Any) -> Ref:
    """Return the name of a pod, a node, another object, or the document of one."""
    named = obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", obj)
    find = named.get if isinstance(named, Mapping) else lambda key: getattr(named, key, "")
    return Ref(find("namespace") or "", find("name") or "")
