"""What the garbage collector asks of the API server.

Owns the bodies of its patches and deletions, and what is done where the first try meets a change.
Never decides what is garbage: garbage_collector does.
Upstream: pkg/controller/garbagecollector/{operations,patch}.go,
pkg/controller/controller_ref_manager.go GenerateDeleteOwnerRefStrategicMergeBytes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from kubesched.client.cached.documents import Document
from kubesched.client.errors import ApiError, ConflictError, NotFoundError
from kubesched.client.rest import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from kubesched.controllers.owner_graph import FOREGROUND, ORPHAN, Node

_UNSUPPORTED: Final = 415


class GarbageRequests:
    """Changes to any kind of object."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def metadata_of(self, node: Node) -> Document:
        """Return an object's metadata as it is now; NotFoundError if it is another's by now."""
        answer = await self._client.get(node.resource, node.name, namespace=node.namespace)
        metadata: Document = msgspec.json.decode(answer)["metadata"]
        if metadata.get("uid") != node.uid:
            raise NotFoundError(f"{node} is gone", code=404, reason="NotFound")
        return metadata

    async def delete(self, node: Node, policy: str) -> None:
        """Delete an object unless its owners have changed; ConflictError if they have."""
        try:
            await self._delete(node, policy, str(node.metadata.get("resourceVersion", "")))
        except ConflictError:
            # Parity: operations.go deleteObject, v1.36: whoever changes an object without end must
            # not keep it alive, as long as its owners stay the same.
            now = await self.metadata_of(node)
            if (now.get("ownerReferences") or []) != list(node.owners):
                raise
            await self._delete(node, policy, "")

    async def remove_owners(self, node: Node, uids: Collection[str]) -> None:
        """Take references to owners from an object."""
        await self._patch(
            node,
            [{"$patch": "delete", "uid": uid} for uid in uids],
            lambda owners: [one for one in owners if one.get("uid") not in uids],
        )

    async def unblock_owners(self, node: Node) -> None:
        """Let the owners of an object be gone before it is."""
        blocking = [dict(one) for one in node.owners if one.get("blockOwnerDeletion")]
        await self._patch(
            node,
            [{**one, "blockOwnerDeletion": False} for one in blocking],
            lambda owners: [{**one, "blockOwnerDeletion": False} for one in owners],
        )

    async def remove_finalizer(self, node: Node, finalizer: str) -> None:
        """Let an object go, as far as a finalizer is concerned; ConflictError if it changed."""
        now = await self.metadata_of(node)
        finalizers = now.get("finalizers") or []
        if finalizer not in finalizers:
            return
        left = [one for one in finalizers if one != finalizer]
        patch = {"metadata": {"resourceVersion": now["resourceVersion"], "finalizers": left}}
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
        whole: Callable[[list[Document]], list[Document]],
    ) -> None:
        """Patch the references by their uids or, where the kind cannot do that, all of them."""
        try:
            patch = {"metadata": {"uid": node.uid, "ownerReferences": strategic}}
            await self._send_patch(node, patch)
        except ApiError as error:
            if error.code != _UNSUPPORTED:
                raise
            now = await self.metadata_of(node)
            owners = whole(now.get("ownerReferences") or [])
            version = now["resourceVersion"]
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


def policy_for(node: Node) -> str:
    """Return what becomes of the dependents of an object that nobody owns any more."""
    # Parity: garbagecollector.go attemptToDeleteItem, v1.36: what the object itself asks for.
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
