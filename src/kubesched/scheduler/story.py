"""Where a pod is now, why, and what was last decided on it, as one object.

Owns the form that `/debug/explain` serves, and how it is put together from what the scheduler knows
at that moment. Never changes anything, and never asks the API server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kubesched.cache.cache import Cache
from kubesched.columns.pod_columns import BoundPod
from kubesched.engine.explained import Explanation, Hold, Value
from kubesched.framework.enqueue import EXTENDER, enqueue_registrations, pre_enqueue_calls
from kubesched.framework.profile import Profile
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPod, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.kit.go_text import go_quote
from kubesched.model.cluster_event import ActionType, ClusterEvent
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.objects.times import time_text
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.pods import UnassignedPods
from kubesched.scheduler.stories import Note, Stories

VICTIMS_MAX: Final = 100
State = Literal[
    "active",
    "backoff",
    "unschedulable",
    "gated",
    "preempting",
    "scheduling",
    "waitingOnPermit",
    "preBinding",
    "binding",
    "bound",
    "foreign",
    "deleting",
    "pending",
]
_UPDATES: Final = tuple(
    action for name, action in ActionType.__members__.items() if name.startswith("UPDATE_")
)
_NOT_LEADING: Final = "; this scheduler places no pods at present, since it does not lead"


class Wake(Value, frozen=True, kw_only=True):
    """What may change the mind of one plugin."""

    plugin: str
    events: tuple[str, ...]
    """Upstream's names, as in logs and metrics; the plugin looks at each of them more closely."""


class SaidEvent(Value, frozen=True, kw_only=True):
    """The last event about the pod."""

    type: str
    reason: str
    message: str
    time: str


class Story(Value, frozen=True, kw_only=True):
    """Where a pod is, and what was last decided on it."""

    version: int = 1
    source: Literal["scheduler", "api"] = "scheduler"
    """Who tells: a running scheduler, or the API server's objects, worked out anew."""
    pod: str
    uid: str
    scheduler_name: str
    """The scheduler that the pod asks for."""
    profiles: tuple[str, ...]
    """The profiles there are."""
    state: State
    text: str
    """The state in one sentence."""
    until: str = ""
    """When the backoff ends, when permission must have come, or when the pod is tried again though
    nothing has happened."""
    node: str = ""
    """The node the pod is bound to, or is to be bound to."""
    bound_at: str = ""
    nominated_node: str = ""
    victims_left: tuple[str, ...] = ()
    """Pods that are to make room, and are still there."""
    attempts: int = 0
    refused_by: tuple[str, ...] = ()
    """The plugins that refused the pod at its last attempt, or before one."""
    holds: tuple[Hold, ...] = ()
    """The plugins that keep the pod from being tried, or from being bound."""
    wakes: tuple[Wake, ...] = ()
    """What would have the pod tried again."""
    last_event: SaidEvent | None = None
    decided_at: str = ""
    explanation: Explanation | None = None
    """Of the last decision; null if there was none yet, or it is not remembered."""


@dataclass(slots=True)
class StoryTeller:
    """Tells where pods are, out of all that a scheduler knows."""

    stories: Stories
    profiles: Mapping[str, Profile]
    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    waiting_pods: WaitingPodsMap
    in_pre_bind: PodsInPreBind
    is_preempting: Callable[[str], bool]
    is_scheduling: Callable[[], bool]
    max_in_unschedulable_s: float
    clock: Clock

    def tell(self, key: str) -> Story | None:
        """Return the story of `namespace/name`; None for a pod that is not known."""
        pod = self.pods.get(key)
        if pod is not None:
            return self._unassigned(pod)
        bound = self._bound_pod(key)
        return None if bound is None else self._bound(bound)

    def is_there(self, key: str, uid: str) -> bool:
        """Return whether a pod is known."""
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            return True
        return self.cache.bound_pod(uid) is not None

    # -- pods that have a node --------------------------------------------------------------------

    def _bound_pod(self, key: str) -> BoundPod | None:
        note = self.stories.get(key)
        bound = None if note is None else self.cache.bound_pod(note.uid)
        if bound is not None:
            return bound
        namespace, _, name = key.partition("/")
        return next(
            (
                pod
                for pod in self.cache.bound_pods()
                if pod.name == name and pod.namespace == namespace
            ),
            None,
        )

    def _bound(self, pod: BoundPod) -> Story:
        note = self._note(pod.key, pod.uid)
        bound_s = None if note is None else note.bound_s
        bound_at = "" if bound_s is None else time_text(bound_s)
        since = f" since {bound_at}" if bound_at else "; when it was bound is not remembered"
        leaving = ", and is being deleted" if pod.terminating else ""
        return self._story(
            pod,
            state="bound",
            text=f"{pod.key} is bound to {pod.node_name}{since}{leaving}",
            node=pod.node_name,
            bound_at=bound_at,
        )

    # -- pods that have none ----------------------------------------------------------------------

    def _unassigned(self, pod: PodInfo) -> Story:
        if self.cache.is_assumed(pod):  # Its profile may be gone by now.
            return self._assumed(pod)
        if pod.scheduler_name not in self.profiles:
            return self._story(pod, state="foreign", text=foreign_text(pod, self.profiles))
        queued = self.queue.get(pod.key)
        if queued is not None and queued.pod.uid == pod.uid:
            return self._queued(queued)
        if any(one.uid == pod.uid for one in self.queue.in_flight_pods()):
            text = f"{pod.key} is being decided on right now"
            return self._story(pod, state="scheduling", text=text)
        text = f"{pod.key} is not in the queue"
        if pod.terminating:
            text = f"{pod.key} is being deleted; the scheduler passes over it"
            return self._story(pod, state="deleting", text=text)
        return self._story(pod, state="pending", text=text + self._leading_note())

    def _assumed(self, pod: PodInfo) -> Story:
        """Return the story of a pod between the decision and its binding."""
        assumed = self.cache.bound_pod(pod.uid)
        node = "" if assumed is None else assumed.node_name
        waiting = self.waiting_pods.get(pod.uid)
        if waiting is not None:
            return self._waiting(waiting, node)
        if self.in_pre_bind.get(pod.uid) is not None:
            text = f"{pod.key} has a place on {node}; what must precede its binding is under way"
            return self._story(pod, state="preBinding", text=text, node=node)
        text = f"{pod.key} is being bound to {node}"
        return self._story(pod, state="binding", text=text, node=node)

    def _waiting(self, waiting: WaitingPod, node: str) -> Story:
        left_s = waiting.next_deadline_s - self.clock.monotonic_s()
        until = "" if math.isinf(left_s) else time_text(self.clock.now_s() + left_s)
        whom = ", ".join(waiting.pending_plugins)
        text = f"{waiting.pod.key} has a place on {node} and waits for the permission of {whom}"
        return self._story(
            waiting.pod,
            state="waitingOnPermit",
            text=f"{text}, until {until} at most" if until else text,
            until=until,
            node=node,
            holds=tuple(Hold(plugin=plugin) for plugin in waiting.pending_plugins),
        )

    def _queued(self, queued: QueuedPodInfo) -> Story:
        pod, key = queued.pod, queued.key
        refused_by = tuple(sorted(queued.rejector_plugins))
        known = {"attempts": queued.attempts, "refused_by": refused_by}
        if self.is_preempting(pod.uid):
            return self._preempting(queued, known)
        if queued.is_gated:
            return self._gated(queued, known)
        part = self.queue.where(key)
        if part == "Active":
            text = f"{key} waits for its turn in the active queue{self._leading_note()}"
            return self._story(pod, state="active", text=text, **known)
        who = f"refused by {', '.join(refused_by)}" if refused_by else "after an error"
        if part == "Backoff":
            until = time_text(self.queue.backoff_expiration_s(queued))
            text = f"{key} is backing off until {until}, {who}{self._leading_note()}"
            return self._story(pod, state="backoff", text=text, until=until, **known)
        until = time_text(queued.timestamp_s + self.max_in_unschedulable_s)
        text = (
            f"{key} is unschedulable, {who}; it is tried again when something happens that may "
            f"help, or soon after {until}{self._leading_note()}"
        )
        return self._story(
            pod,
            state="unschedulable",
            text=text,
            until=until,
            wakes=self._wakes(pod.scheduler_name, refused_by),
            **known,
        )

    def _preempting(self, queued: QueuedPodInfo, known: Mapping[str, Any]) -> Story:
        node = self.queue.nominator.node_of(queued.pod.uid)
        where = f" on {node}" if node else ""
        left = len(self._victims_left(queued.pod))
        text = f"{queued.key} waits while pods are evicted to make room for it{where}"
        text += f"; {left} of them {'is' if left == 1 else 'are'} still there" if left else ""
        return self._story(queued.pod, state="preempting", text=text, **known)

    def _gated(self, queued: QueuedPodInfo, known: Mapping[str, Any]) -> Story:
        pod, plugin = queued.pod, queued.gating_plugin
        ask = pre_enqueue_calls(self.profiles[pod.scheduler_name]).get(plugin)
        status = None if ask is None else ask(pod)
        message = "" if status is None else status.message
        return self._story(
            pod,
            state="gated",
            text=f"{pod.key} is not tried while {plugin} keeps it: {message}",
            holds=(Hold(plugin=plugin, message=message),),
            wakes=self._wakes(pod.scheduler_name, (plugin,)),
            **known,
        )

    # -- parts ------------------------------------------------------------------------------------

    def _story(self, pod: PodInfo | BoundPod, *, state: State, text: str, **fields: Any) -> Story:
        note = self._note(pod.key, pod.uid)
        if note is not None:
            fields.setdefault("attempts", note.attempts)
            fields["victims_left"] = tuple(self._victims_left(pod)[:VICTIMS_MAX])
            if note.digest is not None:
                fields["decided_at"] = time_text(note.decided_s)
                fields["explanation"] = note.digest.explanation()
            if note.said is not None:
                fields["last_event"] = _said_event(note)
        return Story(
            pod=pod.key,
            uid=pod.uid,
            scheduler_name=pod.scheduler_name,
            profiles=tuple(self.profiles),
            state=state,
            text=text,
            nominated_node=self._nominated_node(pod),
            **fields,
        )

    def _note(self, key: str, uid: str) -> Note | None:
        note = self.stories.get(key)
        return note if note is not None and note.uid == uid else None

    def _nominated_node(self, pod: PodInfo | BoundPod) -> str:
        if isinstance(pod, BoundPod):
            return ""
        return self.queue.nominator.node_of(pod.uid) or pod.nominated_node_name

    def _victims_left(self, pod: PodInfo | BoundPod) -> list[str]:
        note = self._note(pod.key, pod.uid)
        victims = () if note is None else note.victims
        there = (self.cache.bound_pod(uid) for uid in victims)
        return [victim.key for victim in there if victim is not None]

    def _wakes(self, profile: str, plugins: Sequence[str]) -> tuple[Wake, ...]:
        has_extenders = EXTENDER in plugins
        registered = enqueue_registrations(self.profiles[profile], has_extenders=has_extenders)
        return tuple(
            Wake(
                plugin=plugin,
                events=tuple(
                    dict.fromkeys(
                        name
                        for one in registered.get(plugin, ())
                        for name in event_names(one.event)
                    )
                ),
            )
            for plugin in plugins
        )

    def _leading_note(self) -> str:
        return "" if self.is_scheduling() else _NOT_LEADING


def foreign_text(pod: PodInfo, profiles: Mapping[str, Any]) -> str:
    """Return that nobody here places a pod, and for whom it waits."""
    there = ", ".join(go_quote(name) for name in profiles)
    return (
        f"{pod.key} asks for the scheduler {go_quote(pod.scheduler_name)}, and no profile here has "
        f"that name (there {'is' if len(profiles) == 1 else 'are'} {there}): if no other scheduler "
        "runs under it, nobody places the pod"
    )


def event_names(event: ClusterEvent) -> list[str]:
    """Return the events that a registration covers, each as logs and metrics name it."""
    if event.is_wildcard:
        return [event.label]
    actions = [action for action in (ActionType.ADD, ActionType.DELETE) if action & event.action]
    if event.action & ActionType.UPDATE == ActionType.UPDATE:
        actions.append(ActionType.UPDATE)
    else:
        actions += [action for action in _UPDATES if action & event.action]
    return [ClusterEvent(event.resource, action).label for action in actions]


def _said_event(note: Note) -> SaidEvent | None:
    said = note.said
    assert said is not None
    return SaidEvent(
        type=said.kind, reason=said.reason, message=said.note, time=time_text(said.at_s)
    )
