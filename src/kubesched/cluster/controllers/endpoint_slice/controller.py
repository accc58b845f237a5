"""EndpointSlices: the endpoints behind each service with a selector, up to 100 per slice.

Owns the writes of slices labelled as managed by it. Their contents are `reconciler`'s.
Upstream: pkg/controller/endpointslice/endpointslice_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import Document, is_terminating, labels_of, namespace_of
from kubesched.client.errors import ApiError, ConflictError, ForbiddenError
from kubesched.client.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.endpoint_slice.reconciler import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    SlicePlan,
    plan_slices,
)
from kubesched.cluster.controllers.endpoints.service_pods import ServicePods, has_endpoints

_SERVICE_INDEX: Final = "service"
_MISSING_NODE_S: Final = 1.0
# Parity: endpointslice_controller.go endpointSliceChangeMinSyncDelay, v1.36.
_CHANGED_S: Final = 1.0


class EndpointSliceController(Controller):
    """Reconciles the EndpointSlices of services."""

    name = "endpointslice"
    component = "endpoint-slice-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services = context.informers.of(SERVICES)
        self._nodes = context.informers.of(NODES)
        self._slices = context.informers.of(ENDPOINT_SLICES)
        self._slices.add_index(_SERVICE_INDEX, _service_index_keys)
        self._pods = ServicePods(self._services, context.informers.of(PODS), self.queue.add_after)
        self._slices.on_change(self._slice_changed)

    def _slice_changed(self, old: Document | None, new: Document | None) -> None:
        # Reverts changes by other clients; after our own changes the sync finds nothing to do.
        keys = dict.fromkeys(
            key
            for endpoint_slice in (old, new)
            if endpoint_slice is not None
            for key in _service_index_keys(endpoint_slice)
        )
        for key in keys:
            self.queue.add_after(key, _CHANGED_S)

    async def sync(self, key: str) -> None:
        """Reconcile the slices of one service."""
        service = self._services.get(key)
        if service is None or not has_endpoints(service):
            return
        pods = self._pods.of(service)
        nodes = {
            name: self._nodes.get(name)
            for name in dict.fromkeys(pod["spec"].get("nodeName", "") for pod in pods)
        }
        slices = [
            endpoint_slice
            for endpoint_slice in self._slices.by_index(_SERVICE_INDEX, key)
            if not is_terminating(endpoint_slice)
        ]
        plan = plan_slices(service, pods, slices, nodes)
        try:
            await self._write(service, plan)
        except ConflictError:
            raise
        except ApiError as error:
            if isinstance(error, ForbiddenError) and is_namespace_terminating(error):
                return
            note = f"Error updating Endpoint Slices for Service {key}: {error.message}"
            self.event(service, "Warning", "FailedToUpdateEndpointSlices", note)
            raise
        if plan.missing_nodes:
            self.queue.add_after(key, _MISSING_NODE_S)

    async def _write(self, service: Document, plan: SlicePlan) -> None:
        # The garbage collector deletes the slices of a terminating service; create none meanwhile.
        if not is_terminating(service):
            for endpoint_slice in plan.create:
                await self.api.create(ENDPOINT_SLICES, endpoint_slice)
        for endpoint_slice in plan.update:
            await self.api.update(ENDPOINT_SLICES, endpoint_slice)
        for endpoint_slice in plan.delete:
            await self.api.delete(ENDPOINT_SLICES, endpoint_slice)


def _service_index_keys(endpoint_slice: Document) -> tuple[str, ...]:
    """Return the key of the service that a managed slice belongs to."""
    labels = labels_of(endpoint_slice)
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{namespace_of(endpoint_slice)}/{labels[SERVICE_NAME]}",)
