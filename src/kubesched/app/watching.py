"""Reading the cluster: one reader for each kind, and whether all of it is known.

Owns the reflectors and what they have come to; a kind may be added or dropped while others are
watched. Never looks at an object: what is read goes into the inbox.
Upstream: cmd/kube-scheduler/app/server.go Run (informers), pkg/scheduler/eventhandlers.go
WaitForHandlersSync
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kubesched.app.live_settings import Outside
from kubesched.client.errors import ApiError
from kubesched.client.reflector import OnForbidden, Reflector
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.objects.decode import KINDS
from kubesched.objects.pod import Pod
from kubesched.scheduler.scheduler import Inbox

# Terminal pods take nothing and are left out, as by upstream's informer.
POD_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
SYNC_S: Final = 0.02
"""How often it is looked whether everything is known."""


Forget: TypeAlias = Callable[[Resource], None]
"""Drops what is known of a kind."""


class WatchError(Exception):
    """A kind that cannot be watched, and why."""


class Watching:
    """The readers of a scheduler."""

    def __init__(
        self, resources: Sequence[Resource], *, outside: Outside, inbox: Inbox, seed: int
    ) -> None:
        """Be ready to read some kinds; nothing is asked before `start`."""
        self.resources = list(resources)
        self.reflectors: list[Reflector] = []
        self.unsynced: set[Resource] = set(resources)
        self.forbidden: dict[Resource, str] = {}
        self.keeps_bound_json = False
        """Whether the JSON of bound pods is kept as it came, for extenders that are shown it."""
        self._outside = outside
        self._inbox = inbox
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        self._rng = Generator(seed, "reflectors")

    @property
    def has_synced(self) -> bool:
        """Return whether every kind was read to the end, and taken over."""
        return not self.unsynced and bool(self.reflectors)

    def start(self, tasks: Tasks) -> None:
        """Begin to read."""
        # Nothing that is read now is garbage soon: looking for some would double the time.
        gc.disable()
        for resource in self.resources:
            reflector = self._reflector(
                self._outside.client, resource, self._initial_done, self._is_forbidden
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
            decode=KINDS.get((resource.api_version, resource.kind), dict),
            field_selector=POD_SELECTOR if resource == PODS else "",
            keep_raw=self._keeps_raw(resource),
            clock=self._outside.clock,
            rng=self._rng,
            log=self._outside.log,
            initial_done=initial_done,
            on_forbidden=on_forbidden,
        )

    def _keeps_raw(self, resource: Resource) -> Callable[[Any], bool] | bool:
        return self._keeps_pod if resource == PODS else resource == NODES

    def _keeps_pod(self, pod: Pod) -> bool:
        return not pod.spec.node_name or self.keeps_bound_json

    def _initial_done(self, resource: Resource) -> None:
        # Through the inbox: only then has everything before it been taken over.
        self._inbox.put(lambda: self._synced(resource))

    def _synced(self, resource: Resource) -> None:
        is_last = self.unsynced == {resource}
        self.unsynced.discard(resource)
        self.forbidden.pop(resource, None)
        if is_last:
            gc.enable()
            gc.freeze()

    def _is_forbidden(self, resource: Resource, verb: str, error: ApiError) -> None:
        # The client's owner says which right is missing.
        self.forbidden[resource] = str(error)

    async def wait_until_synced(self) -> None:
        """Wait until every kind is known."""
        while not self.has_synced:
            await self._outside.clock.sleep(SYNC_S)

    # -- more kinds -------------------------------------------------------------------------------

    async def add(
        self,
        resources: Sequence[Resource],
        tasks: Tasks,
        *,
        timeout_s: float,
        forget: Forget,
    ) -> None:
        """Watch some kinds more; return when all that there is of them has been taken over.

        Args:
            resources: Kinds, of which some may be watched already.
            tasks: Where the readers run.
            timeout_s: How long it may take.
            forget: Drops what was read of a kind, if it comes to nothing.

        Raises:
            WatchError: A right is missing, or it takes too long; all is as it was before.
        """
        async with self._changing:
            more = [one for one in resources if one not in self.resources]
            if not more:
                return
            trial = _Trial(self._outside.client)
            self.resources += more
            for resource in more:
                reflector = self._reflector(trial.client, resource, self._tell(trial), trial.refuse)
                self.reflectors.append(reflector)
                self._run(reflector, tasks)
            try:
                await self._until_known(trial, more, timeout_s)
            except BaseException:
                await self._drop(more, forget)
                raise
            trial.is_over = True

    async def drop(self, which: Callable[[], Collection[Resource]], *, forget: Forget) -> None:
        """Watch some kinds no more.

        Args:
            which: Says which, at a moment when no other kinds are being added.
            forget: Drops what was read of a kind.
        """
        async with self._changing:
            await self._drop(which(), forget)

    async def _drop(self, resources: Collection[Resource], forget: Forget) -> None:
        tasks = [self._tasks.pop(one) for one in resources if one in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.resources = [one for one in self.resources if one not in resources]
        self.reflectors = [one for one in self.reflectors if one.resource not in resources]
        for resource in resources:
            # Through the inbox: after all that has come of it.
            self._inbox.put(partial(forget, resource))
            # It counts as known: nobody waits for it any more.
            self._inbox.put(partial(self._synced, resource))

    def _tell(self, trial: _Trial) -> Callable[[Resource], None]:
        return lambda resource: self._inbox.put(lambda: trial.known.add(resource))

    async def _until_known(
        self, trial: _Trial, resources: Sequence[Resource], timeout_s: float
    ) -> None:
        clock = self._outside.clock
        deadline_s = clock.monotonic_s() + timeout_s
        while not trial.known.issuperset(resources):
            if trial.problem:
                raise WatchError(trial.problem)
            if clock.monotonic_s() >= deadline_s:
                missing = [one.group_resource for one in resources if one not in trial.known]
                raise WatchError(
                    f"not all objects of {', '.join(missing)} were read within {timeout_s:.0f} s"
                )
            await clock.sleep(SYNC_S)


class _Trial:
    """The first reading of kinds that may come to nothing: until it is over, nobody is alarmed."""

    def __init__(self, client: Client) -> None:
        self.known: set[Resource] = set()
        self.problem = ""
        self.is_over = False
        self._note = client.on_forbidden
        self.client = client.sibling(user_agent=client.user_agent, on_forbidden=self._noted)

    def refuse(self, resource: Resource, verb: str, error: ApiError) -> None:
        """Note that there is no right to a kind."""
        self.problem = f"{resource.group_resource} cannot be watched: {error}"

    def _noted(self, method: str, path: str, error: ApiError) -> None:
        if self.is_over and self._note is not None:
            self._note(method, path, error)
