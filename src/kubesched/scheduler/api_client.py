"""The API client as plugins see it.

Owns the names of kinds that plugins use, and the one error they know. Never decides anything:
requests, their order and their repetition are the client's.
Upstream: client-go's clientset, as framework.Handle hands it out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import Resource
from kubesched.client.rest import MERGE_PATCH, Client
from kubesched.framework.handle import ApiCallError
from kubesched.model.pod_info import PodInfo


class LiveApiClient:
    """Makes the requests of plugins over the scheduler's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind_pod(self, *, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Have a pod assigned to a node."""
        try:  # For every pod; a context manager would cost more than the rest of this.
            await self._client.bind_pod(
                namespace=namespace, name=name, uid=uid, node_name=node_name
            )
        except (ApiError, TransportError) as problem:
            raise _api_call_error(problem) from problem

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: Mapping[str, Any], uid: str = ""
    ) -> None:
        """Change a pod's status by a strategic merge patch of the whole pod."""
        with _one_error():
            await self._client.patch_pod_status(
                namespace=namespace, name=name, patch=patch, uid=uid
            )

    async def delete_pod(self, *, namespace: str, name: str) -> None:
        """Have a pod deleted, with the time it asks for to end."""
        with _one_error():
            await self._client.delete_pod(namespace=namespace, name=name)

    async def get_object(self, resource: str, namespace: str, name: str) -> dict[str, Any]:
        """Return an object as the API server has it now."""
        with _one_error():
            found = await self._client.get(
                resource_of(resource, namespace), name, namespace=namespace
            )
        return _document(found)

    async def node_of(self, pod: PodInfo) -> str:
        """Return the node that a pod has by now; empty for none, or if nobody can say."""
        try:
            found = await self.get_object("pods", pod.namespace, pod.name)
        except ApiCallError:
            return ""
        is_same = found.get("metadata", {}).get("uid") == pod.uid
        return str(found.get("spec", {}).get("nodeName", "")) if is_same else ""

    async def update_object(self, resource: str, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object if it still has the resourceVersion given; return what it is then."""
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        with _one_error():
            updated = await self._client.update(
                resource_of(resource, namespace), meta["name"], obj, namespace=namespace
            )
        return _document(updated)

    async def patch_object(
        self, resource: str, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Change an object by a JSON merge patch; return what it is then."""
        with _one_error():
            patched = await self._client.patch(
                resource_of(resource, namespace),
                name,
                patch,
                namespace=namespace,
                content_type=MERGE_PATCH,
            )
        return _document(patched)


def resource_of(name: str, namespace: str) -> Resource:
    """Return the kind that plugins call `<plural>` or `<plural>.<version>.<group>`."""
    plural, _, rest = name.partition(".")
    version, _, group = rest.partition(".")
    return Resource(group, version or "v1", plural, kind="", namespaced=bool(namespace))


@contextmanager
def _one_error() -> Iterator[None]:
    try:
        yield
    except (ApiError, TransportError) as problem:
        raise _api_call_error(problem) from problem


def _api_call_error(problem: ApiError | TransportError) -> ApiCallError:
    if isinstance(problem, TransportError):
        return ApiCallError(problem.message)
    return ApiCallError(problem.message, code=problem.code, reason=problem.reason)


def _document(answer: bytes) -> dict[str, Any]:
    return msgspec.json.decode(answer, type=dict[str, Any])
