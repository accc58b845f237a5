"""Whoever creates must have the right to create, also by PUT or apply.

Owns the question that is asked when a change turns out to be a creation.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go withAuthorization
"""

from __future__ import annotations

from kubesched.apiserver.auth.attributes import Attributes, refusal
from kubesched.apiserver.auth.authorization import Authorizer
from kubesched.apiserver.strategy import Request


def check_create(authorizer: Authorizer, request: Request) -> None:
    """Refuse a creation by somebody who may only change."""
    asked = Attributes(
        request.user,
        "create",
        group=request.group,
        resource=request.resource,
        namespace=request.namespace,
        name=request.name,
    )
    is_allowed, reason = authorizer.allows(asked)
    if not is_allowed:
        raise refusal(asked, reason)
