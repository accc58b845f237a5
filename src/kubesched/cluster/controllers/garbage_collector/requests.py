"""API requests of the garbage collector.

Owns the bodies of patches and deletions, and the retry after a conflict. Never decides what is
garbage: the controller does.
Upstream: pkg/controller/garbagecollector/{operations,patch}.go,
pkg/controller/controller_ref_manager.go GenerateDeleteOwnerRefStrategicMergeBytes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from kubesched.api.documents import Document
from kubesched.client.errors import ApiError, ConflictError, NotFoundError
from kubesched.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from kubesched.cluster.controllers.garbage_collector.owner_graph import FOREGROUND, ORPHAN, Node

_UNSUPPORTED: Final = 415


class GarbageRequests:
    """Deletes and patches objects of any kind."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def metadata_of(self, node: Node) -> Document:
        """Return the current metadata of an object; NotFoundError if its uid changed."""
        response = await self._client.get(node.resource, node.name, namespace=node.namespace)
        metadata: Document = msgspec.json.decode(response)["metadata"]
        if metadata.get("uid") != node.uid:
            raise NotFoundError(f"{node} is gone", code=404, reason="NotFound")
        return metadata

    async def delete(self, node: Node, policy: str) -> None:
        """Delete an object unless its owners have changed; ConflictError if they have."""
        try:
            await self._delete(node, policy, str(node.metadata.get("resourceVersion", "")))
        except ConflictError:
            # Parity: operations.go deleteObject, v1.36: continuous updates must not keep an object
            # alive as long as its owners stay the same.
            current = await self.metadata_of(node)
            if (current.get("ownerReferences") or []) != list(node.owners):
                raise
            await self._delete(node, policy, "")

    async def remove_owners(self, node: Node, uids: Collection[str]) -> None:
        """Remove owner references from an object."""
        await self._patch(
            node,
            [{"$patch": "delete", "uid": uid} for uid in uids],
            lambda owners: [owner for owner in owners if owner.get("uid") not in uids],
        )

    async def unblock_owners(self, node: Node) -> None:
        """Set blockOwnerDeletion of an object's owner references to false."""
        blocking = [dict(owner) for owner in node.owners if owner.get("blockOwnerDeletion")]
        await self._patch(
            node,
            [{**one, "blockOwnerDeletion": False} for one in blocking],
            lambda owners: [{**owner, "blockOwnerDeletion": False} for owner in owners],
        )

    async def remove_finalizer(self, node: Node, finalizer: str) -> None:
        """Remove a finalizer; ConflictError if the object changed meanwhile."""
        current = await self.metadata_of(node)
        finalizers = current.get("finalizers") or []
        if finalizer not in finalizers:
            return
        remaining = [one for one in finalizers if one != finalizer]
        patch = {
            "metadata": {"resourceVersion": current["resourceVersion"], "finalizers": remaining}
        }
        await self._send_patch(node, patch, MERGE_PATCH)

    async def _delete(self, node: Node, policy: str, version: str) -> None:
        preconditions = {"uid": node.uid}
        if version:
            preconditions["resourceVersion"] = version
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": policy,
        }
        await self._client.delete(node.resource, node.name, namespace=node.namespace, body=options)

    async def _patch(
        self,
        node: Node,
        strategic: list[Document],
        replace: Callable[[list[Document]], list[Document]],
    ) -> None:
        """Patch owner references by uid or, if strategic merge is unsupported, all of them."""
        try:
            patch = {"metadata": {"uid": node.uid, "ownerReferences": strategic}}
            await self._send_patch(node, patch)
        except ApiError as error:
            if error.code != _UNSUPPORTED:
                raise
            current = await self.metadata_of(node)
            owners = replace(current.get("ownerReferences") or [])
            version = current["resourceVersion"]
            await self._send_patch(
                node,
                {"metadata": {"resourceVersion": version, "ownerReferences": owners}},
                MERGE_PATCH,
            )

    async def _send_patch(
        self, node: Node, patch: Mapping[str, Any], content_type: str = STRATEGIC_MERGE_PATCH
    ) -> None:
        await self._client.patch(
            node.resource, node.name, patch, namespace=node.namespace, content_type=content_type
        )


def default_propagation_policy(node: Node) -> str:
    """Return the propagation policy for deleting an object, from its finalizers."""
    # Parity: garbagecollector.go attemptToDeleteItem, v1.36.
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
