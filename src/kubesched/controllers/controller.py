"""What every controller has: informers, workers over a queue of keys, and a voice.

Owns what is handed to a controller and how it starts. What an object should come to is each one's.
Upstream: cmd/kube-controller-manager/app/controllermanager.go ControllerContext
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kubesched.client.cached import parts as shared


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """How controllers behave."""

    speed: float = 1.0
    """How much faster than upstream's they wait where waiting has no meaning to a user."""
    node_grace_s: float = 50.0
    """How long a node may be silent before it counts as lost."""
    root_ca_pem: str = ""
    """What is published to pods as kube-root-ca.crt."""


Parts: TypeAlias = shared.Parts[ControllerSettings]


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
        self._pool = parts.workers(self.name, self.sync)
        self.queue = self._pool.queue
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
        self._pool.start(self.workers)
        self.parts.tasks.start(self.run_beside(), name=f"{self.name} beside")
