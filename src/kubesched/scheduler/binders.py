"""Who binds: a few tasks, each taking one pod after the other.

Owns how many bindings go to the API server at once, and in which order they begin. Never decides
what a binding is: binding_cycle does.
Upstream: pkg/scheduler/schedule_one.go scheduleOnePod, where each binding has a goroutine
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Final

from kubesched.framework.profile import Profile
from kubesched.kit.tasks import Tasks
from kubesched.scheduler.binding_cycle import BindingCycle, Outstanding
from kubesched.scheduler.schedule_one import Attempted

BINDERS_MAX: Final = 32
"""As many as the client lets bind at once: more would only wait there."""


class Binders:
    """Has pods bound.

    A task for every pod would cost as much as the binding's own steps. One that waits for a permit
    or for volumes makes room for another, and what extenders and other plugins bind has a task of
    its own, since nobody knows how long they take.
    """

    def __init__(self, cycle: BindingCycle, outstanding: Outstanding, tasks: Tasks) -> None:
        self._cycle = cycle
        self._outstanding = outstanding
        self._tasks = tasks
        self._queue: deque[Attempted] = deque()
        self._running = 0
        self._at_once: dict[Profile, bool] = {}
        self._under_way: Counter[Profile] = Counter()
        outstanding.on_park = self._start_one

    def put(self, attempted: Attempted) -> None:
        """Have a pod bound, in its turn."""
        self._outstanding.begin()
        self._under_way[attempted.profile] += 1
        if attempted.binding_extenders or not self._binds_at_once(attempted.profile):
            self._tasks.start(self._run(attempted), name="binding")
            return
        self._queue.append(attempted)
        self._start_one()

    def is_used(self, profile: Profile) -> bool:
        """Return whether pods are being bound, or wait for it, with the plugins of a profile."""
        return self._under_way[profile] > 0

    def forget(self, profile: Profile) -> None:
        """Forget a profile that is used no more, and never again."""
        self._at_once.pop(profile, None)
        self._under_way.pop(profile, None)

    async def _run(self, attempted: Attempted) -> None:
        try:
            await self._cycle.run(attempted)
        finally:
            self._under_way[attempted.profile] -= 1

    def _binds_at_once(self, profile: Profile) -> bool:
        known = self._at_once.get(profile)
        if known is None:
            plugins = (profile.plugins[name] for name in profile.plugin_names("bind"))
            known = all(getattr(plugin, "binds_at_once", False) for plugin in plugins)
            self._at_once[profile] = known
        return known

    def _start_one(self) -> None:
        if self._queue and self._running - self._outstanding.parked < BINDERS_MAX:
            self._running += 1
            self._tasks.start(self._bind(), name="binding")

    async def _bind(self) -> None:
        """Bind what waits, until nothing does or enough others do."""
        try:
            while self._queue and self._running - self._outstanding.parked <= BINDERS_MAX:
                await self._run(self._queue.popleft())
        except asyncio.CancelledError:
            # The process ends, and what was assumed ends with it.
            while self._queue:
                self._under_way[self._queue.popleft().profile] -= 1
                self._outstanding.end()
            raise
        finally:
            self._running -= 1
