"""The loop: changes in, one decision at a time, bindings out.

Owns when what happens. Watch readers and bindings leave what they found in the inbox; between two
attempts the loop applies it, to cache and queue together, in order. It decides for about two
milliseconds, then lets others run, and it never decides far ahead of the API server.
Upstream: pkg/scheduler/scheduler.go Run, pkg/scheduler/schedule_one.go ScheduleOne
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kubesched.client.change import Change
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.binders import Binders
from kubesched.scheduler.binding_cycle import Outstanding
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.schedule_one import SchedulingCycle

SLICE_S: Final = 0.002
"""How long the loop works before it lets others run."""
OUTSTANDING_MAX: Final = 256
"""How many bindings may be under way: with more, pods would be placed on stale facts."""
OUTSTANDING_RESUME: Final = 192
"""To how many they must fall before more pods are placed."""
IDLE_S_MAX: Final = 1.0


class Inbox:
    """What is to be applied between two attempts, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Change | Callable[[], None]] = deque()
        self.on_arrival: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, entry: Change | Callable[[], None]) -> None:
        """Have a change applied, or something done."""
        self._waiting.append(entry)
        self.on_arrival()

    def take(self) -> Change | Callable[[], None]:
        """Return what came first."""
        return self._waiting.popleft()


@dataclass(slots=True)
class Scheduler:
    """Schedules until it is told to stop."""

    inbox: Inbox
    handlers: EventHandlers
    queue: SchedulingQueue
    cycle: SchedulingCycle
    binders: Binders
    outstanding: Outstanding
    clock: Clock
    log: Log
    is_scheduling: bool = False
    """Whether pods may be placed: all kinds are known, and nobody else leads."""
    attempts: int = 0
    on_idle: Callable[[], None] = field(default=lambda: None)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _stopping: bool = False
    _is_full: bool = False
    _slice_end_s: float = 0.0

    def __post_init__(self) -> None:
        self.inbox.on_arrival = self._wake.set
        self.queue.on_ready = self._wake.set
        self.outstanding.on_change = self._binding_ended

    def start_scheduling(self) -> None:
        """Begin to place pods."""
        self.is_scheduling = True
        self._wake.set()

    def stop_scheduling(self) -> None:
        """Place no further pod, nor one that waits for extenders; changes are still applied."""
        self.is_scheduling = False
        self.cycle.give_up()

    def stop(self) -> None:
        """End the loop after the attempt that is under way."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped."""
        while not self._stopping:
            self._slice_end_s = self.clock.monotonic_s() + SLICE_S
            self._wake.clear()
            if await self._work():
                await self.clock.sleep(0)
            else:
                await self._rest()
        self.queue.close()

    async def _work(self) -> bool:
        """Work for one slice; return whether there is more to do."""
        while self.clock.monotonic_s() < self._slice_end_s:
            if self.inbox:
                self._apply(self.inbox.take())
                continue
            queued = self._next()
            if queued is None:
                return False
            self.attempts += 1
            await self._attempt(queued)
        return True

    def _next(self) -> QueuedPodInfo | None:
        """Return the pod to be tried now; None if there is none, or none may be."""
        try:
            self._flush()
            if not self.is_scheduling or self._is_far_ahead():
                return None
            return self.queue.pop()
        except Exception as problem:  # noqa: BLE001 - tried again after a rest
            self.log.error("Error taking a pod from the queue", err=problem)
            return None

    def _binding_ended(self) -> None:
        if self._is_full and self.outstanding.count < OUTSTANDING_RESUME:
            self._wake.set()

    def _is_far_ahead(self) -> bool:
        """Return whether enough bindings are under way.

        Once they are, many must end before the next pods are placed: decisions one after the other
        cost half of what they cost between bindings that end.
        """
        self._is_full = self.outstanding.count >= (
            OUTSTANDING_RESUME if self._is_full else OUTSTANDING_MAX
        )
        return self._is_full

    async def _attempt(self, queued: QueuedPodInfo) -> None:
        try:
            attempted = await self.cycle.run(queued)
        except Exception as problem:  # noqa: BLE001 - the other pods are still to be placed
            pod = queued.pod
            ref = Ref(pod.namespace, pod.name)
            self.log.error("Error handling the end of an attempt", err=problem, pod=ref)
            self.queue.done(pod.uid)
            return
        if attempted is not None:
            self.binders.put(attempted)

    def _apply(self, entry: Change | Callable[[], None]) -> None:
        try:
            if isinstance(entry, Change):
                self.handlers.apply(entry)
            else:
                entry()
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the loop
            what = entry.key if isinstance(entry, Change) else "a binding's end"
            self.log.error("Error applying a change", err=problem, object=what)

    def _flush(self) -> None:
        if self.clock.now_s() >= self.queue.next_flush_at_s():
            self.queue.flush_due()

    async def _rest(self) -> None:
        """Wait for something to do."""
        self.on_idle()
        left_s = self.queue.next_flush_at_s() - self.clock.now_s()
        loop = asyncio.get_running_loop()
        due = loop.call_later(max(min(left_s, IDLE_S_MAX), 0.001), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            due.cancel()
