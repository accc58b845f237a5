"""EndpointSlices: the endpoints behind each service that selects pods, a hundred in each.

Owns the writing of slices that are labelled as its own. How they should be is slice_plan's.
Upstream: pkg/controller/endpointslice/endpointslice_controller.go
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import (
    Document,
    is_terminating,
    labels_of,
    namespace_of,
)
from kubesched.client.errors import ApiError, ConflictError, ForbiddenError
from kubesched.client.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.refusals import is_namespace_ending
from kubesched.controllers.service_pods import ServicePods, has_endpoints
from kubesched.controllers.slice_plan import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    SlicePlan,
    plan_slices,
)

_INDEX: Final = "service"
_MISSING_NODE_S: Final = 1.0
# Parity: endpointslice_controller.go endpointSliceChangeMinSyncDelay, v1.36.
_CHANGED_S: Final = 1.0


class EndpointSliceController(Controller):
    """Keeps the slices of services."""

    name = "endpointslice"
    component = "endpoint-slice-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._services = parts.informers.of(SERVICES)
        self._nodes = parts.informers.of(NODES)
        self._slices = parts.informers.of(ENDPOINT_SLICES)
        self._slices.add_index(_INDEX, _service_keys)
        self._pods = ServicePods(self._services, parts.informers.of(PODS), self.queue.add_after)
        self._slices.on_change(self._slice_changed)

    def _slice_changed(self, old: Document | None, new: Document | None) -> None:
        # Who else changes a slice is put right; our own changes find it as it should be.
        keys = dict.fromkeys(
            key for one in (old, new) if one is not None for key in _service_keys(one)
        )
        for key in keys:
            self.queue.add_after(key, _CHANGED_S)

    async def sync(self, key: str) -> None:
        """Bring the slices of one service to where it leads."""
        service = self._services.get(key)
        if service is None or not has_endpoints(service):
            return
        pods = self._pods.of(service)
        nodes = {
            name: self._nodes.get(name)
            for name in dict.fromkeys(pod["spec"].get("nodeName", "") for pod in pods)
        }
        slices = [one for one in self._slices.by(_INDEX, key) if not is_terminating(one)]
        plan = plan_slices(service, pods, slices, nodes)
        try:
            await self._write(service, plan)
        except ConflictError:
            raise
        except ApiError as error:
            if isinstance(error, ForbiddenError) and is_namespace_ending(error):
                return
            note = f"Error updating Endpoint Slices for Service {key}: {error.message}"
            self.event(service, "Warning", "FailedToUpdateEndpointSlices", note)
            raise
        if plan.missing_nodes:
            self.queue.add_after(key, _MISSING_NODE_S)

    async def _write(self, service: Document, plan: SlicePlan) -> None:
        # The collector deletes the slices of a service that goes: none are made meanwhile.
        if not is_terminating(service):
            for one in plan.create:
                await self.api.create(ENDPOINT_SLICES, one)
        for one in plan.update:
            await self.api.update(ENDPOINT_SLICES, one)
        for one in plan.delete:
            await self.api.delete(ENDPOINT_SLICES, one)


def _service_keys(one: Document) -> tuple[str, ...]:
    """Return the service whose slice it is, if we made it."""
    labels = labels_of(one)
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_NAME not in labels:
        return ()
    return (f"{namespace_of(one)}/{labels[SERVICE_NAME]}",)
