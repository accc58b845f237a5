"""Creating, deleting and finding the pods of a controller.

Owns the events about pods created and deleted, the slow start of batches, and the index of pods by
node. Never decides how many pods there should be.
Upstream: pkg/controller/controller_utils.go RealPodControl, AddPodNodeNameIndexer;
pkg/controller/replicaset/replica_set.go slowStartBatch
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from kubesched.api.documents import Document, name_of, uid_of
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS
from kubesched.cluster.controllers.controller import Controller, is_namespace_terminating
from kubesched.cluster.informers.informer import Informer

INITIAL_BATCH: Final = 1
_NODE_INDEX: Final = "spec.nodeName"


class DeletePodError(Exception):
    """A pod could not be deleted."""


async def create_pod(controller: Controller, pod: Document, owner: Mapping[str, Any]) -> Document:
    """Create a pod and record an event about its owner.

    Parity: controller_utils.go createPods, v1.36.
    """
    try:
        created = await controller.api.create(PODS, pod)
    except (ApiError, TransportError) as error:
        if not is_namespace_terminating(error):
            controller.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
        raise
    controller.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name_of(created)}")
    return created


async def delete_pod(controller: Controller, pod: Document, owner: Mapping[str, Any]) -> None:
    """Delete a pod and record an event about its owner; DeletePodError on failure.

    Parity: controller_utils.go DeletePod, v1.36.
    """
    try:
        await controller.api.delete(PODS, pod)
    except (ApiError, TransportError) as error:
        controller.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
        raise DeletePodError(f"unable to delete pods: {error}") from error
    controller.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")


async def delete_pods(
    controller: Controller, pods: Iterable[Document], owner: Mapping[str, Any]
) -> None:
    """Delete pods concurrently; raise the first error after all deletions."""
    outcomes = await asyncio.gather(
        *(delete_pod(controller, pod, owner) for pod in pods), return_exceptions=True
    )
    raise_first(outcomes)


def raise_first(outcomes: Iterable[object]) -> None:
    """Raise the first exception among the results of `asyncio.gather`."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def condition_patch(pod: Document, condition: Document) -> Document:
    """Return the status patch that sets one condition; a uid precondition selects the pod."""
    return {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}


async def slow_start_batch(
    count: int, call: Callable[[], Awaitable[object]], *, initial: int = INITIAL_BATCH
) -> int:
    """Call a function `count` times in batches of 1, 2, 4, ...; return `count`.

    If a call of a batch fails, no further batch starts and the first error is raised. An error that
    affects every call thus causes few failed requests.

    Parity: replica_set.go slowStartBatch, v1.36.
    """
    remaining = count
    batch = min(remaining, initial)
    while batch > 0:
        outcomes = await asyncio.gather(*(call() for _ in range(batch)), return_exceptions=True)
        raise_first(outcomes)
        remaining -= batch
        batch = min(2 * batch, remaining)
    return count


def index_by_node(pods: Informer) -> None:
    """Index pods by node name."""
    pods.add_index(_NODE_INDEX, _node_index_keys)


def pods_on(pods: Informer, node_name: str) -> list[Document]:
    """Return the pods on a node; requires `index_by_node`."""
    return pods.by_index(_NODE_INDEX, node_name)


def node_of(pod: Document | None) -> str:
    """Return the node name of a pod; empty if it is not bound."""
    return "" if pod is None else pod["spec"].get("nodeName") or ""


def _node_index_keys(pod: Document) -> Iterable[str]:
    name = node_of(pod)
    return (name,) if name else ()
