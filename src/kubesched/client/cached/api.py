"""Writes of those who hold the cluster in memory: seen by their own informers at once.

Owns the calls and what is noted of their answers. Never retries: a controller's queue does.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubesched.client.cached.documents import (
    Document,
    key_of,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.client.cached.informers import Informers
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import Resource
from kubesched.client.rest import Client

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


class Api:
    """The API server, for documents."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self.client = client
        self.informers = informers

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        """Return an object as it is now, whatever the informer knows."""
        return self._noted(resource, await self.client.get(resource, name, namespace=namespace))

    async def create(
        self, resource: Resource, document: Document, namespace: str | None = None
    ) -> Document:
        """Create an object in its own namespace, or in one that is named."""
        place = namespace_of(document) if namespace is None else namespace
        return self._noted(resource, await self.client.create(resource, document, namespace=place))

    async def update(self, resource: Resource, document: Document, below: str = "") -> Document:
        """Replace an object, or what is below it; ConflictError if it has changed meanwhile."""
        answer = await self.client.update(
            resource,
            name_of(document),
            document,
            namespace=namespace_of(document),
            subresource=below,
        )
        return self._noted(resource, answer)

    async def update_status(self, resource: Resource, document: Document) -> Document:
        """Replace an object's status."""
        return await self.update(resource, document, "status")

    async def patch(
        self,
        resource: Resource,
        document: Document,
        patch: Any,
        below: str = "",
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
    ) -> Document:
        """Change a part of an object that is there; NotFoundError if it is gone.

        Put `{"metadata": {"uid": ...}}` into the patch to mean this very object.
        """
        try:
            answer = await self.client.patch(
                resource,
                name_of(document),
                patch,
                namespace=namespace_of(document),
                subresource=below,
                content_type=content_type,
            )
        except NotFoundError:
            self._forget(resource, document)
            raise
        return self._noted(resource, answer)

    async def patch_status(self, resource: Resource, document: Document, patch: Any) -> Document:
        """Change a part of an object's status."""
        return await self.patch(resource, document, patch, "status")

    async def delete(
        self,
        resource: Resource,
        document: Document,
        *,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete this very object; nothing happens if it is gone already."""
        options: Document = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid_of(document)},
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            answer = await self.client.delete(
                resource, name_of(document), namespace=namespace_of(document), body=options
            )
        except (NotFoundError, ConflictError):
            # Nobody has its name, or somebody else.
            self._forget(resource, document)
            return
        left = msgspec.json.decode(answer)
        # A Status says that it is gone; the object itself, that it is on its way.
        if left.get("kind") == "Status" or _is_gone(left):
            self._forget(resource, document)
        else:
            self._noted(resource, answer)

    def _noted(self, resource: Resource, answer: bytes) -> Document:
        document: Document = msgspec.json.decode(answer)
        # A subresource may answer with a kind of its own.
        if document.get("kind") == resource.kind and resource in self.informers:
            self.informers.of(resource).noted(document)
        return document

    def _forget(self, resource: Resource, document: Document) -> None:
        if resource in self.informers:
            self.informers.of(resource).forget(key_of(document), uid_of(document))


def _is_gone(document: Document) -> bool:
    """Return whether an object that a deletion answered is there no more."""
    metadata = document["metadata"]
    grace_s = metadata.get("deletionGracePeriodSeconds") or 0
    # An object that waits for nothing is removed at once, and shown as it was.
    waits = "deletionTimestamp" in metadata and (grace_s > 0 or metadata.get("finalizers"))
    return not waits
