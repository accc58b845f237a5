"""What the kubelets share.

Owns the parts that are handed around, and how their workers are named. What the work is, pods,
nodes and static_pods say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesched.client.cached.api import Api
from kubesched.client.cached.informers import Informers
from kubesched.client.cached.workers import Workers
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks
from kubesched.kubelet.settings import KubeletSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """What the kubelets share."""

    api: Api
    informers: Informers
    events: EventBroadcaster
    clock: Clock
    log: Log
    tasks: Tasks
    settings: KubeletSettings


def workers(name: str, work: Callable[[str], Awaitable[None]], parts: Parts) -> Workers:
    """Return workers of the kubelets."""
    return Workers(f"kubelet {name}", work, tasks=parts.tasks, log=parts.log)
