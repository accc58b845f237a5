"""DefaultBinder: binds pods through the API server. The scheduler retries.

Upstream: pkg/scheduler/framework/plugins/defaultbinder/default_binder.go
"""

from __future__ import annotations

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ApiCallError, Handle
from kubesched.framework.status import Status, error
from kubesched.kit.log import Ref
from kubesched.plugins.record import InTreePlugin, Write
from kubesched.snapshot.pod_info import PodInfo

BINDING = Write("", "pods/binding", ("create",), "binding pods to nodes")


class DefaultBinder:
    """Writes the binding with the scheduler's client."""

    name = "DefaultBinder"
    binds_at_once = True
    """A binding is one request, so a pool of tasks can run many bindings."""

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the pod; return the API server's error as the status."""
        self._handle.log.info(
            "Attempting to bind pod to node",
            level=3,
            pod=Ref(pod.namespace, pod.name),
            node=Ref("", node_name),
        )
        try:
            await self._handle.client.bind_pod(
                namespace=pod.namespace, name=pod.name, uid=pod.uid, node_name=node_name
            )
        except ApiCallError as rejection:
            return error(rejection.message)
        return None


PLUGIN = InTreePlugin(plugin=DefaultBinder, writes=(BINDING,))
