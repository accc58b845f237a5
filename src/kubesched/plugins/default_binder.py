"""Binds pods through the API server.

Owns what a binding says. Never retries: the scheduler tries the pod again.
Upstream: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
"""

from __future__ import annotations

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo


class DefaultBinder:
    """Writes the binding with the scheduler's client."""

    name = "DefaultBinder"

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Have the pod bound; an error of the client is the verdict of this plugin."""
        await self._handle.client.bind_pod(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=node_name
        )
        return None
