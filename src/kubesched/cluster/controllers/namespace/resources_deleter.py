"""Deletes the content of a terminating namespace.

One pass deletes all objects of every namespaced resource, pods first, and counts what remains.
Never writes the namespace itself: the controller does.
Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.client.errors import ApiError, NotFoundError
from kubesched.client.resources import PODS, Resource
from kubesched.client.rest import Client
from kubesched.cluster.controllers.discovery import ServedResource, ServedResources
from kubesched.cluster.controllers.namespace.conditions import DeletionProgress

_OPTIONS: Final = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    # Dependents are in the namespace as well, or are garbage collected.
    "propagationPolicy": "Background",
}
# Parity: namespaced_resources_deleter.go finalizerEstimateSeconds, v1.36.
_FINALIZER_S: Final = 15
_PAGE: Final = 500
_METHOD_NOT_ALLOWED: Final = 405


class _Metadata(msgspec.Struct):
    name: str = ""
    finalizers: list[str] = []


class _PodSpec(msgspec.Struct, rename="camel"):
    termination_grace_period_seconds: int | None = None


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata
    spec: Any = None
    status: Any = None


class _ListMeta(msgspec.Struct, rename={"continue_token": "continue"}):
    continue_token: str = ""


class _Items(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[_Item] | None = None


@dataclass(slots=True)
class _Remaining:
    """Remaining objects of one resource."""

    count: int = 0
    finalizers: dict[str, int] = field(default_factory=dict)
    wait_s: int = 0


class NamespacedResourcesDeleter:
    """Deletes the objects in one namespace."""

    def __init__(self, client: Client, namespace: str, age_s: float) -> None:
        """Create the deleter of a namespace; `age_s` is the time since its deletion."""
        self._client = client
        self._namespace = namespace
        self._age_s = age_s

    async def delete(self, resources: ServedResources) -> tuple[DeletionProgress, bool]:
        """Delete everything; return what remains, and whether only pods were deleted."""
        progress = DeletionProgress(discovery_failures=dict(resources.failures))
        deletable = [
            one for one in resources.preferred if one.resource.namespaced and one.supports("delete")
        ]
        pods = next((one for one in deletable if one.resource == PODS), None)
        if pods is not None:
            await self._delete_kind(pods, progress)
            if progress.remaining:
                return progress, True
        for served in deletable:
            if served is not pods:
                await self._delete_kind(served, progress)
        return progress, False

    async def _delete_kind(self, served: ServedResource, progress: DeletionProgress) -> None:
        resource = served.resource
        try:
            remaining = await self._remaining_after_deletion(served)
        except ApiError as error:
            progress.content_failures.append(error.message)
            return
        progress.wait_s = max(progress.wait_s, remaining.wait_s)
        if not remaining.count:
            return
        progress.remaining[resource] = remaining.count
        for finalizer, count in remaining.finalizers.items():
            progress.finalizers[finalizer] = progress.finalizers.get(finalizer, 0) + count
        if not remaining.wait_s:
            # Neither finalizers nor a grace period explain why these objects remain.
            gvr = (
                f'schema.GroupVersionResource{{Group:"{resource.group}", '
                f'Version:"{resource.version}", Resource:"{resource.plural}"}}'
            )
            progress.content_failures.append(
                f"unexpected items still remain in namespace: {self._namespace} for gvr: {gvr}"
            )

    async def _remaining_after_deletion(self, served: ServedResource) -> _Remaining:
        # Differs: upstream deletes before it lists; most resources have no objects here.
        items = await self._list(served)
        if not items:
            return _Remaining()
        grace_s = _grace_s(items) if served.resource == PODS else 0
        if grace_s <= self._age_s:
            grace_s = 0
        await self._delete_items(served, items)
        items = await self._list(served)
        remaining = _Remaining(len(items), wait_s=grace_s if items else 0)
        for item in items:
            for finalizer in item.metadata.finalizers:
                remaining.finalizers[finalizer] = remaining.finalizers.get(finalizer, 0) + 1
        if not remaining.wait_s and remaining.finalizers:
            remaining.wait_s = _FINALIZER_S
        return remaining

    async def _delete_items(self, served: ServedResource, items: list[_Item]) -> None:
        resource, namespace = served.resource, self._namespace
        if served.supports("deletecollection"):
            try:
                await self._client.delete(resource, "", namespace=namespace, body=_OPTIONS)
            except ApiError as error:
                if not _is_unsupported(error):
                    raise
            else:
                return
        for item in items:
            try:
                await self._client.delete(
                    resource, item.metadata.name, namespace=namespace, body=_OPTIONS
                )
            except ApiError as error:
                if not _is_unsupported(error):
                    raise

    async def _list(self, served: ServedResource) -> list[_Item]:
        if not served.supports("list"):
            return []
        found: list[_Item] = []
        query: dict[str, str | int | bool] = {"limit": _PAGE}
        while True:
            page = await self._page(served.resource, query)
            found += page.items or []
            if not page.metadata.continue_token:
                return found
            query["continue"] = page.metadata.continue_token

    async def _page(self, resource: Resource, query: Mapping[str, str | int | bool]) -> _Items:
        try:
            response = await self._client.get(resource, namespace=self._namespace, query=query)
        except ApiError as error:
            if not _is_unsupported(error):
                raise
            return _Items()
        return msgspec.json.decode(response, type=_Items)


def _grace_s(pods: list[_Item]) -> int:
    """Return the longest grace period of unfinished pods."""
    longest_s = 0
    for pod in pods:
        if msgspec.convert(pod.status or {}, _PodStatus).phase in ("Succeeded", "Failed"):
            continue
        spec = msgspec.convert(pod.spec or {}, _PodSpec)
        longest_s = max(longest_s, spec.termination_grace_period_seconds or 0)
    return longest_s


def _is_unsupported(error: ApiError) -> bool:
    return isinstance(error, NotFoundError) or error.code == _METHOD_NOT_ALLOWED
