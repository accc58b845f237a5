"""Request for a resource and its response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesched.cluster.apiserver.http.request_info import RequestInfo
from kubesched.cluster.apiserver.http.write_options import Query
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request, User
from kubesched.cluster.apiserver.verbs.context import Context


@dataclass(slots=True)
class ResourceRequest:
    """One request for a resource."""

    info: RequestInfo
    user: User
    query: Query
    headers: Mapping[str, str]
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the response headers; also sent with errors."""

    @property
    def content_type(self) -> str:
        """Return the Content-Type."""
        return self.headers.get("Content-Type", "")

    @property
    def media_type(self) -> str:
        """Return the media type of the body without its parameters."""
        return self.content_type.partition(";")[0].strip()

    @property
    def user_agent(self) -> str:
        """Return the User-Agent."""
        return self.headers.get("User-Agent", "")

    def namespace_for(self, resource: Resource) -> str:
        """Return the namespace of the path; empty for a cluster-scoped resource."""
        return self.info.namespace if resource.is_namespaced else ""


@dataclass(slots=True)
class ResourceResponse:
    """Response to any request except a watch."""

    data: bytes
    code: int = 200
    media_type: str = "application/json"


def request_of(
    context: Context, resource_request: ResourceRequest, resource: Resource, **details: Any
) -> Request:
    """Return the request as strategies and admission plugins see it."""
    info = resource_request.info
    return context.request(
        resource_request.user,
        resource,
        namespace=resource_request.namespace_for(resource),
        name=info.name,
        subresource=info.subresource,
        verb=info.verb,
        warnings=resource_request.warnings,
        **details,
    )
