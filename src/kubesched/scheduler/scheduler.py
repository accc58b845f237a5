"""The scheduling loop: applies changes, schedules one pod at a time, starts bindings.

Owns the order of all three. Reflectors and bindings put changes into the inbox; between two
attempts the loop applies them in order, to cache and queue together. It works for about two
milliseconds, then yields to other tasks. It stops placing pods while too many bindings are
outstanding.
Upstream: pkg/scheduler/scheduler.go Run, pkg/scheduler/schedule_one.go ScheduleOne
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kubesched.client.watch.changes import Change
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.binding_cycle import Binders, Outstanding
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.schedule_one import SchedulingCycle

SLICE_S: Final = 0.002
"""How long the loop works before it yields to other tasks."""
OUTSTANDING_MAX: Final = 256
"""Outstanding bindings at which the loop stops placing pods: the cache would become stale."""
OUTSTANDING_RESUME: Final = 192
"""Outstanding bindings at which the loop places pods again."""
IDLE_S_MAX: Final = 1.0


class Inbox:
    """Changes and callbacks to be applied between two attempts, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Change | Callable[[], None]] = deque()
        self.on_arrival: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, entry: Change | Callable[[], None]) -> None:
        """Add a change to apply, or a function to call."""
        self._waiting.append(entry)
        self.on_arrival()

    def take(self) -> Change | Callable[[], None]:
        """Remove and return the oldest entry."""
        return self._waiting.popleft()


@dataclass(slots=True)
class Scheduler:
    """Schedules pods until it is stopped."""

    inbox: Inbox
    handlers: EventHandlers
    queue: SchedulingQueue
    cycle: SchedulingCycle
    binders: Binders
    outstanding: Outstanding
    clock: Clock
    log: Log
    is_scheduling: bool = False
    """Whether pods may be placed: the caches are synced, and this scheduler leads."""
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
        self.is_scheduling = True
        self._wake.set()

    def stop_scheduling(self) -> None:
        """Stop placing pods and cancel an attempt that waits for extenders; changes still apply."""
        self.is_scheduling = False
        self.cycle.give_up()

    def stop(self) -> None:
        """End the loop after the current attempt."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Run the loop until it is stopped."""
        while not self._stopping:
            self._slice_end_s = self.clock.monotonic_s() + SLICE_S
            self._wake.clear()
            if await self._work():
                await self.clock.sleep(0)
            else:
                await self._rest()
        self.queue.close()

    async def _work(self) -> bool:
        """Work for one time slice; return whether there is more to do."""
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
        """Return the pod to be tried now; None if none is ready, or none may be placed."""
        try:
            if self.clock.now_s() >= self.queue.next_flush_at_s():
                self.queue.flush_due()
            if not self.is_scheduling or self._has_too_many_outstanding():
                return None
            return self.queue.pop()
        except Exception as problem:  # noqa: BLE001 - tried again later
            self.log.error("Failed to pop a pod from the queue", err=problem)
            return None

    def _binding_ended(self) -> None:
        if self._is_full and self.outstanding.count < OUTSTANDING_RESUME:
            self._wake.set()

    def _has_too_many_outstanding(self) -> bool:
        """Return whether too many bindings are outstanding.

        Once they are, many must end before the next pod is placed: a run of decisions costs half of
        what the same decisions cost between the ends of bindings.
        """
        self._is_full = self.outstanding.count >= (
            OUTSTANDING_RESUME if self._is_full else OUTSTANDING_MAX
        )
        return self._is_full

    async def _attempt(self, queued: QueuedPodInfo) -> None:
        try:
            assumed = await self.cycle.run(queued)
        except Exception as problem:  # noqa: BLE001 - one pod must not stop the loop
            pod = queued.pod
            ref = Ref(pod.namespace, pod.name)
            self.log.error("Failed to finish a scheduling attempt", err=problem, pod=ref)
            self.queue.done(pod.uid)
            return
        if assumed is not None:
            self.binders.put(assumed)

    def _apply(self, entry: Change | Callable[[], None]) -> None:
        try:
            if isinstance(entry, Change):
                self.handlers.apply(entry)
            else:
                entry()
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the loop
            name = entry.key if isinstance(entry, Change) else "end of a binding"
            self.log.error("Failed to apply a change", err=problem, object=name)

    async def _rest(self) -> None:
        """Wait for a change, a pod or a timer."""
        self.on_idle()
        left_s = self.queue.next_flush_at_s() - self.clock.now_s()
        loop = asyncio.get_running_loop()
        due = loop.call_later(max(min(left_s, IDLE_S_MAX), 0.001), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            due.cancel()
