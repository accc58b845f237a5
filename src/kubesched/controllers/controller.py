"""What every controller has: a queue of keys, workers, and a way to try again.

Owns the loop around `sync`. What an object should come to is each controller's.
Upstream: the processNextWorkItem of every controller in pkg/controller
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.work_queue import WorkQueue
from kubesched.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    TransportError,
)
from kubesched.client.event_recorder import CoreEventRecorder, EventBroadcaster
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

# Somebody was quicker: what to do follows from how things are when the key comes up again.
_EXPECTED = (ConflictError, AlreadyExistsError, NotFoundError)


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How controllers behave."""

    speed: float = 1.0
    """How much faster than upstream's they wait where waiting has no meaning to a user."""
    node_grace_s: float = 50.0
    """How long a node may be silent before it counts as lost."""
    root_ca_pem: str = ""
    """What is published to pods as kube-root-ca.crt."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a controller is made of."""

    api: Api
    informers: Informers
    events: EventBroadcaster
    clock: Clock
    log: Log
    rng: Generator
    tasks: Tasks
    settings: ControllerSettings

    def recorder(self, component: str) -> CoreEventRecorder:
        """Return who writes events in the name of a component."""
        return self.events.core_recorder(component)


class Controller:
    """Brings objects of one kind to where they should be."""

    name: ClassVar[str]
    """What logs call it."""
    component: ClassVar[str] = ""
    """Who its events are from; the name if empty."""
    workers: ClassVar[int] = 4
    """How many keys are worked on at a time."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.api = parts.api
        self.informers = parts.informers
        self.clock = parts.clock
        self.log = parts.log
        self.queue = WorkQueue()
        self._recorder = parts.recorder(self.component or self.name)

    async def sync(self, key: str) -> None:
        """Bring one object a step closer to where it should be; whatever is raised is retried."""
        raise NotImplementedError

    async def run_beside(self) -> None:
        """Do what is not about one key, as long as the controller runs."""

    def event(self, document: Mapping[str, Any], kind: str, reason: str, note: str) -> None:
        """Write an event about an object; kind is Normal or Warning."""
        self._recorder.event(document, kind=kind, reason=reason, note=note)

    def start(self) -> None:
        """Work from now on; the informers have synced."""
        tasks = self.parts.tasks
        for number in range(self.workers):
            tasks.start(self._work(), name=f"{self.name} {number}")
        tasks.start(self.run_beside(), name=f"{self.name} beside")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self.sync(key)
            except Exception as error:  # noqa: BLE001  # One object must not stop the others.
                self._failed(key, error)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def _failed(self, key: str, error: Exception) -> None:
        self.queue.retry(key)
        if isinstance(error, _EXPECTED):
            self.log.info("Trying again", level=4, controller=self.name, key=key, err=str(error))
            return
        told = str(error)
        if not isinstance(error, ApiError | TransportError):
            told = "".join(traceback.format_exception(error))
        self.log.error("Unable to sync", err=told, controller=self.name, key=key)
