"""Base class and settings of all controllers.

Owns a controller's queue, workers and event recorder. What a controller reconciles is its own.
Upstream: cmd/kube-controller-manager/app/controllermanager.go ControllerContext
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kubesched.api.documents import Document, key_of
from kubesched.client.errors import ApiError
from kubesched.cluster.informers.context import ControllerContext


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of all controllers."""

    speed: float = 1.0
    """Divides waits that mean nothing to a user."""
    node_grace_s: float = 50.0
    """How long a node may be silent before it is unhealthy (node-monitor-grace-period)."""
    root_ca_pem: str = ""
    """CA bundle published as kube-root-ca.crt."""


Context: TypeAlias = ControllerContext[ControllerSettings]


class Controller:
    """Reconciles objects of one kind."""

    name: ClassVar[str]
    """Name in logs."""
    component: ClassVar[str] = ""
    """Source of its events; the name if empty."""
    workers: ClassVar[int] = 4
    """Number of keys processed at the same time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.api = context.api
        self.informers = context.informers
        self.clock = context.clock
        self.log = context.log
        self._workers = context.workers(self.name, self.sync)
        self.queue = self._workers.queue
        self._recorder = context.recorder(self.component or self.name)

    async def sync(self, key: str) -> None:
        """Reconcile one object; any exception is retried."""
        raise NotImplementedError

    async def run_background(self) -> None:
        """Do periodic work that concerns no single key."""

    def enqueue(self, _old: Document | None, new: Document | None) -> None:
        """Enqueue an object that was added or changed; a change handler for informers."""
        if new is not None:
            self.queue.add(key_of(new))

    def event(self, document: Mapping[str, Any], kind: str, reason: str, note: str) -> None:
        """Record an event about an object; kind is Normal or Warning."""
        self._recorder.event(document, kind=kind, reason=reason, note=note)

    def start(self) -> None:
        """Start working; the informers have synced."""
        self._workers.start(self.workers)
        self.context.tasks.start(self.run_background(), name=f"{self.name} background")


def is_namespace_terminating(error: Exception) -> bool:
    """Return whether the API server rejected a request because the namespace is being deleted.

    Upstream: apimachinery/pkg/api/errors/errors.go HasStatusCause, NamespaceTerminatingCause
    """
    if not isinstance(error, ApiError):
        return False
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
