"""API client whose writes are visible in the informers at once.

Owns the calls and the recording of their responses. Never retries: the work queue does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api.documents import Document, key_of, name_of, namespace_of, uid_of
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import Resource
from kubesched.client.rest import STRATEGIC_MERGE_PATCH, Client
from kubesched.cluster.informers.informer import Informers


class WriteThroughClient:
    """Reads and writes objects as JSON dicts."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self.client = client
        self.informers = informers

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        """Return the current object from the API server, not from the informer."""
        return self._record(resource, await self.client.get(resource, name, namespace=namespace))

    async def create(
        self, resource: Resource, document: Document, namespace: str | None = None
    ) -> Document:
        """Create an object in its own namespace, or in the one named."""
        target_namespace = namespace_of(document) if namespace is None else namespace
        return self._record(
            resource, await self.client.create(resource, document, namespace=target_namespace)
        )

    async def update(
        self, resource: Resource, document: Document, subresource: str = ""
    ) -> Document:
        """Replace an object or a subresource; ConflictError if it changed meanwhile."""
        response = await self.client.update(
            resource,
            name_of(document),
            document,
            namespace=namespace_of(document),
            subresource=subresource,
        )
        return self._record(resource, response)

    async def update_status(self, resource: Resource, document: Document) -> Document:
        """Replace an object's status."""
        return await self.update(resource, document, "status")

    async def patch(
        self,
        resource: Resource,
        document: Document,
        patch: Any,
        subresource: str = "",
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
    ) -> Document:
        """Patch an object or a subresource; NotFoundError if it is gone.

        A patch with `{"metadata": {"uid": ...}}` fails if the object was replaced.
        """
        try:
            response = await self.client.patch(
                resource,
                name_of(document),
                patch,
                namespace=namespace_of(document),
                subresource=subresource,
                content_type=content_type,
            )
        except NotFoundError:
            self._forget(resource, document)
            raise
        return self._record(resource, response)

    async def patch_status(self, resource: Resource, document: Document, patch: Any) -> Document:
        """Patch an object's status."""
        return await self.patch(resource, document, patch, "status")

    async def delete(
        self,
        resource: Resource,
        document: Document,
        *,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete an object by uid; do nothing if it is gone or was replaced."""
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
            response = await self.client.delete(
                resource, name_of(document), namespace=namespace_of(document), body=options
            )
        except (NotFoundError, ConflictError):
            # The object is gone, or another one has its name.
            self._forget(resource, document)
            return
        remaining = msgspec.json.decode(response)
        # A Status response means that it is gone; the object, that it is terminating.
        if remaining.get("kind") == "Status" or _is_gone(remaining):
            self._forget(resource, document)
        else:
            self._record(resource, response)

    def _record(self, resource: Resource, response: bytes) -> Document:
        document: Document = msgspec.json.decode(response)
        # A subresource may return a kind of its own.
        if document.get("kind") == resource.kind and resource in self.informers:
            self.informers.of(resource).record_write(document)
        return document

    def _forget(self, resource: Resource, document: Document) -> None:
        if resource in self.informers:
            self.informers.of(resource).forget(key_of(document), uid_of(document))


def _is_gone(document: Document) -> bool:
    """Return whether the object in a deletion's response no longer exists."""
    metadata = document["metadata"]
    grace_s = metadata.get("deletionGracePeriodSeconds") or 0
    # An object that nothing holds is removed at once, and returned as it was.
    is_pending = "deletionTimestamp" in metadata and (grace_s > 0 or metadata.get("finalizers"))
    return not is_pending
