"""Random histories of a scheduling queue: the steps, and each pod's queue after each step.

Owns the steps, which `main.go` runs on kube-scheduler's own queue, and running them on ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from conformance.queue_histories.plugins import EVENTS, GATES, PLUGINS, a_queue
from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.framework.cluster_event import ASSIGNED_POD_DELETE
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.snapshot.pod_info import PodInfo, PodShapes

Step = dict[str, Any]
NAMES = [f"p{i}" for i in range(8)]
START_S = 1000.5
# A power of two, so that both sides' clocks are exactly equal.
TICK_S = 2**-9
WAITS_S = (0.25, 1, 2.5, 9, 200)


class Clock:
    """Changes only when a step sets it."""

    def __init__(self) -> None:
        self.time_s = START_S

    def now_s(self) -> float:
        """Return the time."""
        return self.time_s

    monotonic_s = now_s

    async def sleep(self, delay_s: float) -> None:
        """Fail: the queue never sleeps."""
        raise NotImplementedError


class History:
    """Draws random steps and runs each of them on our queue."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._clock = Clock()
        self._shapes = PodShapes()
        self._pods: dict[str, PodInfo] = {}
        self._under_way: dict[str, QueuedPodInfo] = {}
        self._held: dict[str, str] = {}
        self._uids = 0
        self._queue = a_queue(
            lambda gate, pod: self._held.get(pod.name) == gate, self._clock, SchedulerMetrics()
        )
        self.steps: list[Step] = []
        self.states: list[str] = []
        """The popped pod and the queue of every pod, after each step."""

    def play(self, count: int) -> None:
        """Draw a number of steps, some of which may do nothing."""
        kinds: list[tuple[int, Callable[[], None]]] = [
            (14, self._add),
            (8, self._update),
            (3, self._delete),
            (20, self._pop),
            (17, self._fail),
            (2, self._bind),
            (10, self._occur),
            (4, self._remove_nomination),
            (4, self._activate),
            (6, self._toggle_gate),
            (5, self._wait),
            (5, self._flush),
            (2, self._flush_left_over),
        ]
        weights, plays = zip(*kinds, strict=True)
        for play in self._chance.choices(plays, weights, k=count):
            play()

    def _note(self, step: Step, popped: str = "") -> None:
        self.steps.append(step)
        places = " ".join(f"{name}={self._where(name)}" for name in sorted(self._pods))
        self.states.append(f"{popped}|{places}")

    def _where(self, name: str) -> str:
        key = f"default/{name}"
        queued = self._queue.get(key)
        gate = f":{queued.gating_plugin}" if queued is not None and queued.is_gated else ""
        return f"{self._queue.where(key)}{gate}"

    def _tick(self) -> None:
        # Pods are queued at different times: the heap's order of equal pods is undefined.
        self._clock.time_s += TICK_S
        self._note({"op": "wait", "seconds": TICK_S})

    def _pod(self, name: str, uid: str) -> tuple[Step, PodInfo]:
        priority, app = self._chance.randrange(3), self._chance.choice("ab")
        cpu = self._chance.randrange(1, 3)
        container = {"name": "m", "resources": {"requests": {"cpu": f"{cpu}m"}}}
        document = {
            "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": {"app": app}},
            "spec": {"priority": priority, "containers": [container]},
        }
        step = {"name": name, "uid": uid, "priority": priority, "app": app, "cpu": cpu}
        return step, self._shapes.pod_info(decode_as(Pod, document))

    # -- steps ------------------------------------------------------------------------------------

    def _add(self) -> None:
        name = self._chance.choice(NAMES)
        if name not in self._pods:
            self._tick()
            self._uids += 1
            step, pod = self._pod(name, f"uid-{self._uids}")
            self._pods[name] = pod
            self._queue.add(pod)
            self._note({"op": "add", **step})

    def _update(self) -> None:
        name = self._chance.choice(NAMES)
        if name in self._pods:
            self._tick()
            old = self._pods[name]
            step, new = self._pod(name, old.uid)
            self._pods[name] = new
            self._queue.update(old, new)
            self._note({"op": "update", **step})

    def _delete(self) -> None:
        name = self._chance.choice(NAMES)
        pod = self._pods.pop(name, None)
        if pod is not None:
            self._queue.delete(pod)
            if self._under_way.pop(name, None) is not None:
                self._queue.done(pod.uid)
            self._note({"op": "delete", "name": name})

    def _pop(self) -> None:
        queued = self._queue.pop()
        if queued is not None:
            self._under_way[queued.pod.name] = queued
        popped = "-" if queued is None else f"{queued.pod.name}:{queued.attempts}"
        self._note({"op": "pop"}, popped)

    def _fail(self) -> None:
        if self._under_way:
            self._tick()
            name = self._chance.choice(sorted(self._under_way))
            queued = self._under_way.pop(name)
            plugins = self._chance.sample(sorted(PLUGINS), self._chance.randrange(3))
            pending = self._chance.sample(sorted(PLUGINS), self._chance.choice([0, 0, 1]))
            queued.gating_plugin, queued.gating_plugin_events = "", ()
            queued.unschedulable_plugins, queued.pending_plugins = set(plugins), set(pending)
            queued.pod = self._pods[name]
            self._queue.add_unschedulable_if_not_present(queued)
            self._note({"op": "fail", "name": name, "plugins": plugins, "pending": pending})

    def _bind(self) -> None:
        if self._under_way:
            name = self._chance.choice(sorted(self._under_way))
            self._queue.done(self._under_way.pop(name).pod.uid)
            del self._pods[name]
            self._note({"op": "bind", "name": name})

    def _occur(self) -> None:
        event, number = self._chance.choice(sorted(EVENTS)), self._chance.randrange(4)
        self._queue.move_all_to_active_or_backoff_queue(EVENTS[event], None, number)
        self._note({"op": "happen", "event": event, "number": number})

    def _remove_nomination(self) -> None:
        pod = self._pods.get(self._chance.choice(NAMES))
        if pod is not None:
            priority_max = self._chance.randrange(3)
            self._queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= priority_max
            )
            self._note({"op": "lose", "name": pod.name, "most": priority_max})

    def _activate(self) -> None:
        pod = self._pods.get(self._chance.choice(NAMES))
        if pod is not None:
            self._tick()
            self._queue.activate([pod])
            self._note({"op": "activate", "name": pod.name})

    def _toggle_gate(self) -> None:
        name = self._chance.choice(NAMES)
        # Only one gate at a time: a Go map decides which of two runs first.
        gate = self._held.pop(name, None)
        if gate is None:
            gate = self._held[name] = self._chance.choice(GATES)
        self._note({"op": "gate", "name": name, "gate": gate})

    def _wait(self) -> None:
        seconds = self._chance.choice(WAITS_S)
        self._clock.time_s += seconds
        self._note({"op": "wait", "seconds": seconds})

    def _flush(self) -> None:
        self._queue.flush_backoff_queue_completed()
        self._note({"op": "flush"})

    def _flush_left_over(self) -> None:
        self._queue.flush_unschedulable_pods_left_over()
        self._note({"op": "flush left over"})
