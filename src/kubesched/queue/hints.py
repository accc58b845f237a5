"""Which events may help which pods: the queueing hints of every profile.

Owns who registered for what, and the question whether an event makes a pod worth another attempt,
for one pod or for many that a hint cannot tell apart. Never moves a pod.
Upstream: pkg/scheduler/scheduler.go buildQueueingHintMap,
pkg/scheduler/backend/queue/scheduling_queue.go isPodWorthRequeuing
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.in_flight import Occurrence
from kubesched.queue.interface import HintFunction, ProfileQueueing, Reads, Registration
from kubesched.queue.recorder import Recorder
from kubesched.queue.unschedulable_pods import Alike, Group

_NODE_TAINT: Final = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
READS: Final = ("nothing", "shape", "template", "pod")
"""What a hint may say it reads of a pod, the least first."""


class Strategy(IntEnum):
    """What an event means for a pod; the greater wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


Worth: TypeAlias = "list[tuple[Strategy, Collection[QueuedPodInfo]]]"
"""Pods that are worth another attempt, and when."""


class Hint:
    """One plugin's answer to an event."""

    __slots__ = ("call", "plugin", "reads")

    def __init__(self, plugin: str, call: HintFunction, reads: Reads) -> None:
        if not callable(reads) and reads not in READS:
            raise ValueError(f"plugin {plugin}: a hint reads {', '.join(READS)}, not {reads!r}")
        self.plugin = plugin
        self.call = call
        self.reads = reads


class Asked(NamedTuple):
    """Whom to ask, by what they read."""

    nothing: tuple[Hint, ...] = ()
    shape: tuple[Hint, ...] = ()
    template: tuple[Hint, ...] = ()
    pod: tuple[Hint, ...] = ()
    varying: tuple[Hint, ...] = ()
    """Those that look at more of some pods than of others."""


def _by_reads(hints: Sequence[tuple[Hint, str]]) -> Asked:
    found: dict[str, list[Hint]] = {name: [] for name in Asked._fields}
    for hint, reads in hints:
        found[reads].append(hint)
    return Asked(*map(tuple, found.values()))


HintMap: TypeAlias = "dict[ClusterEvent, list[Hint]]"


def build_hint_map(registrations: Mapping[str, Sequence[Registration]]) -> HintMap:
    """Return the hints of a profile by the event they were registered for."""
    # Parity: scheduler.go buildQueueingHintMap, v1.36.
    hints: HintMap = {}
    for plugin, registered in registrations.items():
        node_actions = ActionType(0)
        for one in registered:
            call = one.hint
            hint = Hint(plugin, call, one.reads) if call else Hint(plugin, _always, "nothing")
            hints.setdefault(one.event, []).append(hint)
            if one.event.resource == EventResource.NODE:
                node_actions |= one.event.action
        if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
            # Whoever waits for a node to come hears of one that loses a taint, too.
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
        self._asked: dict[tuple[str, ClusterEvent, frozenset[str]], Asked] = {}
        self._events_of: dict[str, tuple[ClusterEvent, ...]] = {}
        for hint_map in self._maps.values():
            for event, hints in hint_map.items():
                for hint in hints:
                    known = self._events_of.get(hint.plugin, ())
                    self._events_of[hint.plugin] = (*known, event)

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """Return the events a plugin registered for, in any profile."""
        return self._events_of.get(plugin, ())

    def registered_actions(self) -> dict[str, ActionType]:
        """Return every resource that some plugin wants to hear of, with the actions."""
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
        known = self._interesting.get(event)
        if known is None:
            known = self._interesting[event] = event.is_wildcard or any(
                registered.covers(event) for events in self._maps.values() for registered in events
            )
        if not known and self._log.enabled(6):
            self._log.info(
                "receive an event that isn't interested by any enabled plugins",
                level=6,
                event=event,
            )
        return known

    # -- one pod ----------------------------------------------------------------------------------

    def is_pod_worth_requeuing(self, queued: QueuedPodInfo, what: Occurrence) -> Strategy:
        """Return what an event means for one pod."""
        # Parity: scheduling_queue.go isPodWorthRequeuing, v1.36.
        if not queued.has_rejectors:
            if self._log.enabled(6):
                message = "Worth requeuing because no failed plugins"
                self._log.info(message, level=6, pod=_ref(queued.pod))
            return Strategy.AFTER_BACKOFF
        if what.event.is_wildcard:
            return self._after_wildcard(queued, what)
        asked = self._whom_to_ask(
            queued.pod.scheduler_name, what.event, frozenset(queued.rejector_plugins)
        )
        if asked is None:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for hints in asked:
            strategy = self._ask(hints, queued.pod, what, queued.pending_plugins, strategy)
            if _is_settled(strategy, queued.pending_plugins):
                break
        return strategy

    def _after_wildcard(self, queued: QueuedPodInfo, what: Occurrence) -> Strategy:
        # An event that says which pod it is for is for no other.
        is_meant = what.new is None or what.new.uid == queued.pod.uid
        if self._log.enabled(6):
            if is_meant:
                message, fields = "Worth requeuing because the event is wildcard", {}
            else:
                message = "Not worth requeuing because the event is wildcard, but for another pod"
                fields = {"newObj": _ref(what.new)}
            label = what.event.label
            self._log.info(message, level=6, pod=_ref(queued.pod), event=label, **fields)
        return Strategy.AFTER_BACKOFF if is_meant else Strategy.SKIP

    # -- pods that are alike ----------------------------------------------------------------------

    def worth_requeuing(
        self, group: Group, what: Occurrence, subject: QueuedPodInfo | None
    ) -> Worth:
        """Return the pods of a group that an event may help.

        The answers are those of asking about one pod after the other, but a hint is asked once
        about all the pods it cannot tell apart; only the subject, the pod of the group that the
        event is about, is always asked alone.
        """
        if not group.rejectors or what.event.is_wildcard:
            return self._one_by_one(group, what)
        asked = self._whom_to_ask(group.profile, what.event, group.rejectors)
        if asked is None:
            return [(Strategy.AFTER_BACKOFF, list(group))]
        if not any(asked):
            return []
        worth = self._ask_group(group, asked, what, subject)
        if subject is not None:
            worth += self._one_by_one([subject], what)
        return worth

    def _ask_group(
        self, group: Group, asked: Asked, what: Occurrence, subject: QueuedPodInfo | None
    ) -> Worth:
        some_pod = _one_of(group, subject)
        if some_pod is None:
            return []
        strategy = self._ask(asked.nothing, some_pod, what, group.pending, Strategy.SKIP)
        if _is_settled(strategy, group.pending) or not any(asked[1:]):
            return [(strategy, _all_but(group, subject))] if strategy else []
        deeper = asked._replace(nothing=())
        worth: Worth = []
        for shape, alike in group.shapes.items():
            known = self._settle_varying(deeper, shape, what) if deeper.varying else deeper
            worth += self._ask_alike(alike, known, what, subject, (group.pending, strategy))
        return worth

    def _settle_varying(self, asked: Asked, shape: PodShape, what: Occurrence) -> Asked:
        """Return whom to ask about pods of a shape, those that vary put where they belong."""
        return _by_reads(
            [
                *((hint, "shape") for hint in asked.shape),
                *((hint, "template") for hint in asked.template),
                *((hint, "pod") for hint in asked.pod),
                *((hint, self._reads_of(hint, shape, what)) for hint in asked.varying),
            ]
        )

    def _reads_of(self, hint: Hint, shape: PodShape, what: Occurrence) -> str:
        assert callable(hint.reads)
        try:
            reads = hint.reads(shape, what.old, what.new)
            if reads in READS:
                return reads
            problem: Exception = ValueError(f"a hint reads {', '.join(READS)}, not {reads!r}")
        except Exception as raised:  # noqa: BLE001 - any fault of a plugin costs time, no more
            problem = raised
        self._log_failure(hint, what, problem, "What a QueueingHintFn reads cannot be told")
        return "pod"

    def _ask_alike(
        self,
        alike: Alike,
        asked: Asked,
        what: Occurrence,
        subject: QueuedPodInfo | None,
        so_far: tuple[frozenset[str], Strategy],
    ) -> Worth:
        pending, strategy = so_far
        some_pod = _one_of(alike.pods.values(), subject)
        if some_pod is None:
            return []
        strategy = self._ask((*asked.nothing, *asked.shape), some_pod, what, pending, strategy)
        if _is_settled(strategy, pending) or not (asked.template or asked.pod):
            return [(strategy, _all_but(alike.pods.values(), subject))] if strategy else []
        worth: Worth = []
        for same in alike.by_template() if asked.template else (alike.pods,):
            some_pod = _one_of(same.values(), subject)
            if some_pod is None:
                continue
            answer = self._ask(asked.template, some_pod, what, pending, strategy)
            if asked.pod and not _is_settled(answer, pending):
                for queued in _all_but(same.values(), subject):
                    alone = self._ask(asked.pod, queued.pod, what, pending, answer)
                    if alone:
                        worth.append((alone, (queued,)))
            elif answer:
                worth.append((answer, _all_but(same.values(), subject)))
        return worth

    def _one_by_one(self, pods: Iterable[QueuedPodInfo], what: Occurrence) -> Worth:
        answers = [(self.is_pod_worth_requeuing(queued, what), queued) for queued in pods]
        return [(strategy, (queued,)) for strategy, queued in answers if strategy]

    # -- asking -----------------------------------------------------------------------------------

    def _whom_to_ask(
        self, profile: str, event: ClusterEvent, rejectors: frozenset[str]
    ) -> Asked | None:
        """Return the hints of some plugins for an event; None if the profile is not known."""
        known = self._asked.get((profile, event, rejectors))
        if known is not None:
            return known
        hint_map = self._maps.get(profile)
        if hint_map is None:
            message = "No QueueingHintMap is registered for this profile"
            self._log.error(message, profile=profile)
            return None
        found = self._asked[profile, event, rejectors] = _by_reads(
            [
                (hint, "varying" if callable(hint.reads) else hint.reads)
                for registered, hints in hint_map.items()
                if registered.covers(event)
                for hint in hints
                if hint.plugin in rejectors
            ]
        )
        return found

    def _ask(
        self,
        hints: Iterable[Hint],
        pod: PodInfo,
        what: Occurrence,
        pending: Collection[str],
        strategy: Strategy,
    ) -> Strategy:
        for hint in hints:
            if not self._is_queued_by(hint, pod, what):
                continue
            if hint.plugin in pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not pending:
                break
        return strategy

    def _is_queued_by(self, hint: Hint, pod: PodInfo, what: Occurrence) -> bool:
        start_s = self._clock.monotonic_s()
        try:
            answer = hint.call(pod, what.old, what.new)
            result: str = answer.value
        except Exception as problem:  # noqa: BLE001 - a hint that fails must not strand the pod
            answer, result = QueueingHint.QUEUE, "Error"
            message = "QueueingHintFn returns error"
            self._log_failure(hint, what, problem, message, pod=_ref(pod))
        elapsed_s = self._clock.monotonic_s() - start_s
        self._recorder.hints[hint.plugin, what.event.label, result].observe(elapsed_s)
        return answer is not QueueingHint.QUEUE_SKIP

    def _log_failure(
        self, hint: Hint, what: Occurrence, problem: Exception, message: str, **fields: object
    ) -> None:
        if what.old is not None and what.new is not None:
            fields |= {"oldObj": _ref(what.old), "newObj": _ref(what.new)}
        self._log.error(message, err=problem, event=what.event, plugin=hint.plugin, **fields)


def _is_settled(strategy: Strategy, pending: Collection[str]) -> bool:
    """Return whether no further hint can change the answer."""
    return strategy is Strategy.IMMEDIATELY or (strategy is Strategy.AFTER_BACKOFF and not pending)


def _one_of(pods: Iterable[QueuedPodInfo], subject: QueuedPodInfo | None) -> PodInfo | None:
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
