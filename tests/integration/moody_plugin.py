"""A plugin that extends every extension point, controlled by annotations of pods.

`raise: POINT` raises there once, `always: POINT` every time, `permit: WORD` decides at permit,
`bind: WORD` interferes before the binding, and `wants: NAME` needs an object of a custom kind.
Every call that has a pod's name is logged.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import SKIP, Code, Status, unschedulable
from kubesched.kit.log import Ref

WAIT = Status(Code.WAIT)
MOODS = "moods.v1.example.com"


class Moody:
    """Raises, rejects and waits by annotations."""

    name = "Moody"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle
        self._met: set[tuple[str, str]] = set()

    def _at(self, point: str, pod: Any) -> bool:
        """Raise if the pod's annotations name this point; return whether this is the first call."""
        is_first = (pod.uid, point) not in self._met
        self._met.add((pod.uid, point))
        if is_first or point in ("Reserve", "Unreserve"):
            ref = Ref(pod.namespace, pod.name)
            self._handle.log.info("Moody was called", point=point, pod=ref)
        annotations = pod.annotations
        if annotations.get("always") == point or (is_first and annotations.get("raise") == point):
            raise ValueError(f"{pod.name} at {point}")
        return is_first

    def events_to_register(self) -> list[EventRegistration]:
        return [
            EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD), self._node_hint),
            EventRegistration(ClusterEvent(EventResource.POD, ActionType.ADD)),
            EventRegistration(ClusterEvent(MOODS, ActionType.ADD), self._mood_hint),
        ]

    def _mood_hint(self, pod: Any, old: Any, new: Any) -> QueueingHint:
        is_needed = pod.annotations.get("wants") == new["metadata"]["name"]
        return QueueingHint.QUEUE if is_needed else QueueingHint.QUEUE_SKIP

    def _node_hint(self, pod: Any, old: Any, new: Any) -> QueueingHint:
        self._at("Hint", pod)
        return QueueingHint.QUEUE_SKIP

    def pre_enqueue(self, pod: Any) -> Status | None:
        self._at("PreEnqueue", pod)
        return None

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self._at("PreFilter", pod)
        return None

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        is_first = self._at("Filter", pod) or (pod.uid, "Hint") not in self._met
        mood = pod.annotations.get("wants")
        if mood and self._handle.informer(MOODS).get(f"{pod.namespace}/{mood}") is None:
            return unschedulable(f"no mood {mood}")
        needs_hint = pod.annotations.get("raise") == "Hint"
        return unschedulable("in no mood") if needs_hint and is_first else None

    def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
        self._at("PostFilter", pod)
        return None, unschedulable("no idea")

    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
        self._at("PreScore", pod)
        return None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        self._at("Score", pod)
        return 1

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        self._at("NormalizeScore", pod)
        return scores

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status | None:
        self._at("Reserve", pod)
        return None

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._at("Unreserve", pod)

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        mode = pod.annotations.get("permit", "")
        is_first = self._at("Permit", pod)
        if mode == "allow others":
            for held in self._others(pod):
                held.allow(self.name)
        elif mode == "reject others":
            for held in self._others(pod):
                held.reject(self.name, "not with me")
        elif mode == "reject once" and is_first:
            return unschedulable("not yet"), 0.0
        elif mode.startswith("wait ") and is_first:
            return WAIT, float(mode.removeprefix("wait "))
        return None, 0.0

    def _others(self, pod: Any) -> list[Any]:
        held = list(self._handle.waiting_pods())
        return [one for one in held if one.pod.namespace == pod.namespace]

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Status | None:
        self._at("PreBindPreFlight", pod)
        has_work = "PreBind" in pod.annotations.values()
        return None if has_work else SKIP

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        self._at("PreBind", pod)
        return None

    async def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        is_first = self._at("Bind", pod)
        client, target = self._handle.client, pod.annotations.get("bind", "")
        if target == "gone":
            await client.delete_pod(namespace=pod.namespace, name=pod.name)
        elif target and is_first:
            await client.bind_pod(
                namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=target
            )
        return SKIP

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._at("PostBind", pod)


class Hanging:
    """Never finishes a binding."""

    name = "Hanging"

    def __init__(self, args: object, handle: Any) -> None:
        self._log = handle.log

    async def bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._log.info("Binding for ever", pod=Ref(pod.namespace, pod.name))
        await asyncio.Event().wait()
