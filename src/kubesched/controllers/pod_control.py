"""Pods made of a template, and the events that tell of it.

Owns what a pod takes over from the template of its controller, and the four events about pods that
come and go. Never decides how many there should be.
Upstream: pkg/controller/controller_utils.go RealPodControl
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kubesched.client.cached.documents import Document, controller_ref, name_of, namespace_of
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS

if TYPE_CHECKING:
    # Who only asks what pods look like is spared the client.
    from kubesched.controllers.controller import Controller

NAMESPACE_TERMINATING: Final = "NamespaceTerminating"


class DeletePodError(Exception):
    """A pod could not be deleted."""


def has_cause(error: Exception, reason: str) -> bool:
    """Return whether a refusal names a cause."""
    if not isinstance(error, ApiError):
        return False
    return any(cause.get("reason") == reason for cause in error.details.get("causes") or ())


def pod_from_template(template: Mapping[str, Any], owner: Mapping[str, Any]) -> Document:
    """Return a pod of a template, to be named by the API server after its owner.

    Parity: controller_utils.go GetPodFromTemplate, v1.36.
    """
    told = template.get("metadata") or {}
    metadata: Document = {
        "generateName": f"{name_of(owner)}-",
        "namespace": namespace_of(owner),
        "ownerReferences": [controller_ref(owner)],
    }
    for field in ("labels", "annotations"):
        if told.get(field):
            metadata[field] = dict(told[field])
    if told.get("finalizers"):
        metadata["finalizers"] = list(told["finalizers"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }


async def create_pod(controller: Controller, pod: Document, owner: Mapping[str, Any]) -> Document:
    """Create a pod, and tell about it as the controller of its owner.

    Parity: controller_utils.go createPods, v1.36.
    """
    try:
        created = await controller.api.create(PODS, pod)
    except (ApiError, TransportError) as error:
        if not has_cause(error, NAMESPACE_TERMINATING):
            controller.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
        raise
    controller.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(created)}")
    return created


async def delete_pod(controller: Controller, pod: Document, owner: Mapping[str, Any]) -> None:
    """Delete a pod, and tell about it; DeletePodError with upstream's text.

    Parity: controller_utils.go DeletePod, v1.36.
    """
    try:
        await controller.api.delete(PODS, pod)
    except (ApiError, TransportError) as error:
        controller.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
        raise DeletePodError(f"unable to delete pods: {error}") from error
    controller.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
