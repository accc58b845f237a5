"""Error messages of admission plugins.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/errors.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import ApiError, forbidden
from kubesched.cluster.apiserver.strategy import Request


def rejection(document: Document | None, request: Request, why: str) -> ApiError:
    """Return Forbidden about the object of a request."""
    metadata = (document or {}).get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or request.name or "Unknown"
    return forbidden(request.group, request.resource, name, why)


def is_about(request: Request, resource: str, *, group: str = "", subresource: str = "") -> bool:
    """Return whether a request is for a resource, or for one of its subresources."""
    return (
        request.resource == resource
        and request.group == group
        and request.subresource == subresource
    )


class Plugin:
    """Base class of admission plugins, which does nothing."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Mutate, or reject."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Validate, after all mutations."""
