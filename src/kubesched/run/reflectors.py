"""The reflectors of a scheduler: one per watched kind, and whether all have synced.

Owns the reflectors and their state; a kind may be added or dropped while others are watched. Never
looks at an object: changes go into the inbox.
Upstream: cmd/kube-scheduler/app/server.go Run (informers), pkg/scheduler/eventhandlers.go
WaitForHandlersSync
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kubesched.api.decode import STRUCTS
from kubesched.api.pod import Pod
from kubesched.client.errors import ApiError
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.watch.reflector import OnForbidden, Reflector
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from kubesched.run.settings import Environment
from kubesched.scheduler.scheduler import Inbox

# Terminal pods use no resources and are left out, as by upstream's informer.
POD_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
SYNC_S: Final = 0.02
"""The interval at which syncing is checked."""


Forget: TypeAlias = Callable[[Resource], None]
"""Drops all objects of a kind."""


class WatchError(Exception):
    """A kind cannot be watched."""


class Watching:
    """The reflectors of a scheduler."""

    def __init__(
        self, resources: Sequence[Resource], *, environment: Environment, inbox: Inbox, seed: int
    ) -> None:
        """Prepare to watch some kinds; no request is sent before `start`."""
        self.resources = list(resources)
        self.reflectors: list[Reflector] = []
        self.unsynced: set[Resource] = set(resources)
        self.forbidden: dict[Resource, str] = {}
        self.keeps_bound_json = False
        """Whether the JSON of bound pods is kept, for extenders that receive it."""
        self._environment = environment
        self._inbox = inbox
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        self._rng = RandomStream(seed, "reflectors")

    @property
    def has_synced(self) -> bool:
        """Return whether every kind was listed and applied."""
        return not self.unsynced and bool(self.reflectors)

    def start(self, tasks: Tasks) -> None:
        """Start the reflectors."""
        # The listed objects stay alive: collecting garbage meanwhile would double the time.
        gc.disable()
        for resource in self.resources:
            reflector = self._reflector(
                self._environment.client, resource, self._initial_done, self._is_forbidden
            )
            self.reflectors.append(reflector)
        for reflector in self.reflectors:
            self._run(reflector, tasks)

    def _run(self, reflector: Reflector, tasks: Tasks) -> None:
        resource = reflector.resource
        task = tasks.start(reflector.run(), name=f"watch {resource.plural}")
        self._tasks[resource] = task

    def _reflector(
        self,
        client: Client,
        resource: Resource,
        initial_done: Callable[[Resource], None],
        on_forbidden: OnForbidden,
    ) -> Reflector:
        return Reflector(
            client,
            resource,
            self._inbox.put,
            decode=STRUCTS.get((resource.api_version, resource.kind), dict),
            field_selector=POD_SELECTOR if resource == PODS else "",
            keep_raw=self._keeps_raw(resource),
            clock=self._environment.clock,
            rng=self._rng,
            log=self._environment.log,
            initial_done=initial_done,
            on_forbidden=on_forbidden,
        )

    def _keeps_raw(self, resource: Resource) -> Callable[[Any], bool] | bool:
        return self._keeps_pod if resource == PODS else resource == NODES

    def _keeps_pod(self, pod: Pod) -> bool:
        return not pod.spec.node_name or self.keeps_bound_json

    def _initial_done(self, resource: Resource) -> None:
        # Through the inbox, behind all changes that came before.
        self._inbox.put(lambda: self._synced(resource))

    def _synced(self, resource: Resource) -> None:
        is_last = self.unsynced == {resource}
        self.unsynced.discard(resource)
        self.forbidden.pop(resource, None)
        if is_last:
            gc.enable()
            gc.freeze()

    def _is_forbidden(self, resource: Resource, verb: str, error: ApiError) -> None:
        # The client's owner reports the missing permission.
        self.forbidden[resource] = str(error)

    async def wait_until_synced(self) -> None:
        """Wait until every kind has synced."""
        while not self.has_synced:
            await self._environment.clock.sleep(SYNC_S)

    # -- more kinds -------------------------------------------------------------------------------

    async def add(
        self,
        resources: Sequence[Resource],
        tasks: Tasks,
        *,
        timeout_s: float,
        forget: Forget,
    ) -> None:
        """Watch more kinds; return when all their objects have been applied.

        Args:
            resources: Kinds, of which some may be watched already.
            tasks: Where the reflectors run.
            timeout_s: How long syncing may take.
            forget: Drops the objects of a kind if that fails.

        Raises:
            WatchError: A permission is missing, or syncing takes too long; nothing has changed.
        """
        async with self._changing:
            more = [kind for kind in resources if kind not in self.resources]
            if not more:
                return
            trial = _Trial(self._environment.client)
            self.resources += more
            for resource in more:
                reflector = self._reflector(
                    trial.client, resource, self._synced_in(trial), trial.reject
                )
                self.reflectors.append(reflector)
                self._run(reflector, tasks)
            try:
                await self._until_synced(trial, more, timeout_s)
            except BaseException:
                await self._drop(more, forget)
                raise
            trial.is_over = True

    async def drop(self, which: Callable[[], Collection[Resource]], *, forget: Forget) -> None:
        """Stop watching some kinds.

        Args:
            which: Returns the kinds; called while no others are being added.
            forget: Drops the objects of a kind.
        """
        async with self._changing:
            await self._drop(which(), forget)

    async def _drop(self, resources: Collection[Resource], forget: Forget) -> None:
        tasks = [self._tasks.pop(kind) for kind in resources if kind in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.resources = [kind for kind in self.resources if kind not in resources]
        self.reflectors = [r for r in self.reflectors if r.resource not in resources]
        for resource in resources:
            # Through the inbox, behind all of its changes.
            self._inbox.put(partial(forget, resource))
            # It counts as synced: nothing waits for it any more.
            self._inbox.put(partial(self._synced, resource))

    def _synced_in(self, trial: _Trial) -> Callable[[Resource], None]:
        return lambda resource: self._inbox.put(lambda: trial.synced.add(resource))

    async def _until_synced(
        self, trial: _Trial, resources: Sequence[Resource], timeout_s: float
    ) -> None:
        clock = self._environment.clock
        deadline_s = clock.monotonic_s() + timeout_s
        while not trial.synced.issuperset(resources):
            if trial.problem:
                raise WatchError(trial.problem)
            if clock.monotonic_s() >= deadline_s:
                missing = [kind.group_resource for kind in resources if kind not in trial.synced]
                raise WatchError(
                    f"not all objects of {', '.join(missing)} were read within {timeout_s:.0f} s"
                )
            await clock.sleep(SYNC_S)


class _Trial:
    """The first list of kinds that may fail; until it ends, missing permissions raise no alarm."""

    def __init__(self, client: Client) -> None:
        self.synced: set[Resource] = set()
        self.problem = ""
        self.is_over = False
        self._report = client.on_forbidden
        self.client = client.sibling(user_agent=client.user_agent, on_forbidden=self._report_later)

    def reject(self, resource: Resource, verb: str, error: ApiError) -> None:
        """Record that reading a kind is forbidden."""
        self.problem = f"{resource.group_resource} cannot be watched: {error}"

    def _report_later(self, method: str, path: str, error: ApiError) -> None:
        if self.is_over and self._report is not None:
            self._report(method, path, error)
