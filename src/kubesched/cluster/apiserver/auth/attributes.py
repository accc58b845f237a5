"""Attributes of a request that authorizers evaluate.

Owns how a Forbidden message names them.
Upstream: staging/src/k8s.io/apiserver/pkg/authorization/authorizer/interfaces.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.cluster.apiserver.errors import ApiError, forbidden
from kubesched.cluster.apiserver.strategy import User
from kubesched.golang.strconv import go_quote


@dataclass(frozen=True, slots=True)
class Attributes:
    """A request to authorize: user, verb and resource or path."""

    user: User
    verb: str
    """`get`, `list`, `watch`, `create` and so on; the lowercase HTTP method for a path."""
    path: str = ""
    is_resource: bool = True
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def combined_resource(self) -> str:
        """Return the resource as rules name it, e.g. `pods` or `pods/binding`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def rejection(attributes: Attributes, reason: str) -> ApiError:
    """Return the Forbidden error of a denied request."""
    user = go_quote(attributes.user.name)
    why = f": {reason}" if reason else ""
    if not attributes.is_resource:
        text = f"User {user} cannot {attributes.verb} path {go_quote(attributes.path)}{why}"
        error = forbidden("", "", "", text)
        error.details = {}
        return error
    scope = (
        f"in the namespace {go_quote(attributes.namespace)}"
        if attributes.namespace
        else "at the cluster scope"
    )
    text = (
        f"User {user} cannot {attributes.verb} resource {go_quote(attributes.combined_resource)} "
        f"in API group {go_quote(attributes.group)} {scope}{why}"
    )
    return forbidden(attributes.group, attributes.resource, attributes.name, text)
