"""One request for a resource, and its answer.

Owns nothing but the two values. Never decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesched.apiserver.requests import RequestInfo
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.strategy import Request, User
from kubesched.apiserver.verbs.context import Context
from kubesched.apiserver.write_options import Query


@dataclass(slots=True)
class Asked:
    """One request for a resource."""

    info: RequestInfo
    user: User
    query: Query
    headers: Mapping[str, str]
    body: bytes = b""
    warnings: list[str] = field(default_factory=list)
    """Texts for headers; those of a request that is refused are sent too."""

    @property
    def content_type(self) -> str:
        """Return what the client says the body is."""
        return self.headers.get("Content-Type", "")

    @property
    def media_type(self) -> str:
        """Return the media type of the body without its parameters."""
        return self.content_type.partition(";")[0].strip()

    @property
    def user_agent(self) -> str:
        """Return what the client calls itself."""
        return self.headers.get("User-Agent", "")

    def namespace_for(self, resource: Resource) -> str:
        """Return the namespace of the path, none for resources without."""
        return self.info.namespace if resource.is_namespaced else ""


@dataclass(slots=True)
class Answer:
    """What a client gets, unless it watches."""

    data: bytes
    code: int = 200
    media_type: str = "application/json"


def request_of(context: Context, asked: Asked, resource: Resource, **details: Any) -> Request:
    """Return what rules may know about a request."""
    info = asked.info
    return context.request(
        asked.user,
        resource,
        namespace=asked.namespace_for(resource),
        name=info.name,
        subresource=info.subresource,
        verb=info.verb,
        warnings=asked.warnings,
        **details,
    )
