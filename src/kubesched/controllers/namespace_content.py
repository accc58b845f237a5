"""The content of a namespace that is being deleted.

Owns one look at it: everything of every kind is deleted, pods first, and what is left is counted.
Never touches the namespace itself: namespaces does.
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
from kubesched.controllers.namespace_conditions import Progress
from kubesched.controllers.served_kinds import ServedKind, ServedKinds

_OPTIONS: Final = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    # Whatever depends on something here is in the namespace as well, or is collected.
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
class _Left:
    """What is left of one kind."""

    count: int = 0
    finalizers: dict[str, int] = field(default_factory=dict)
    wait_s: int = 0


class NamespaceContent:
    """Deletes what is in one namespace."""

    def __init__(self, client: Client, namespace: str, age_s: float) -> None:
        """Make one; nothing is asked yet.

        Args:
            client: Who asks.
            namespace: Which namespace.
            age_s: For how long it has been going.
        """
        self._client = client
        self._namespace = namespace
        self._age_s = age_s

    async def delete(self, kinds: ServedKinds) -> tuple[Progress, bool]:
        """Delete everything; return what is left, and whether the look ended at the pods."""
        progress = Progress(discovery_failures=dict(kinds.failures))
        wanted = [one for one in kinds.preferred if one.resource.namespaced and one.can("delete")]
        pods = next((one for one in wanted if one.resource == PODS), None)
        if pods is not None:
            await self._delete_kind(pods, progress)
            if progress.remaining:
                return progress, True
        for kind in wanted:
            if kind is not pods:
                await self._delete_kind(kind, progress)
        return progress, False

    async def _delete_kind(self, kind: ServedKind, progress: Progress) -> None:
        resource = kind.resource
        try:
            left = await self._left_after_deletion(kind)
        except ApiError as error:
            progress.content_failures.append(error.message)
            return
        progress.wait_s = max(progress.wait_s, left.wait_s)
        if not left.count:
            return
        progress.remaining[resource] = left.count
        for finalizer, number in left.finalizers.items():
            progress.finalizers[finalizer] = progress.finalizers.get(finalizer, 0) + number
        if not left.wait_s:
            # Nothing holds it and nothing is expected of it: something is wrong.
            gvr = (
                f'schema.GroupVersionResource{{Group:"{resource.group}", '
                f'Version:"{resource.version}", Resource:"{resource.plural}"}}'
            )
            progress.content_failures.append(
                f"unexpected items still remain in namespace: {self._namespace} for gvr: {gvr}"
            )

    async def _left_after_deletion(self, kind: ServedKind) -> _Left:
        # Differs: upstream deletes first and looks afterwards; most kinds have nothing here.
        items = await self._list(kind)
        if not items:
            return _Left()
        grace_s = _grace_s(items) if kind.resource == PODS else 0
        if grace_s <= self._age_s:
            grace_s = 0
        await self._delete_items(kind, items)
        items = await self._list(kind)
        left = _Left(len(items), wait_s=grace_s if items else 0)
        for item in items:
            for finalizer in item.metadata.finalizers:
                left.finalizers[finalizer] = left.finalizers.get(finalizer, 0) + 1
        if not left.wait_s and left.finalizers:
            left.wait_s = _FINALIZER_S
        return left

    async def _delete_items(self, kind: ServedKind, items: list[_Item]) -> None:
        resource, namespace = kind.resource, self._namespace
        if kind.can("deletecollection"):
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

    async def _list(self, kind: ServedKind) -> list[_Item]:
        if not kind.can("list"):
            return []
        found: list[_Item] = []
        query: dict[str, str | int | bool] = {"limit": _PAGE}
        while True:
            page = await self._page(kind.resource, query)
            found += page.items or []
            if not page.metadata.continue_token:
                return found
            query["continue"] = page.metadata.continue_token

    async def _page(self, resource: Resource, query: Mapping[str, str | int | bool]) -> _Items:
        try:
            answer = await self._client.get(resource, namespace=self._namespace, query=query)
        except ApiError as error:
            if not _is_unsupported(error):
                raise
            return _Items()
        return msgspec.json.decode(answer, type=_Items)


def _grace_s(pods: list[_Item]) -> int:
    """Return how long the slowest of the pods that still run may take to end."""
    longest_s = 0
    for pod in pods:
        if msgspec.convert(pod.status or {}, _PodStatus).phase in ("Succeeded", "Failed"):
            continue
        spec = msgspec.convert(pod.spec or {}, _PodSpec)
        longest_s = max(longest_s, spec.termination_grace_period_seconds or 0)
    return longest_s


def _is_unsupported(error: ApiError) -> bool:
    return isinstance(error, NotFoundError) or error.code == _METHOD_NOT_ALLOWED
