"""Whoever creates must have the right to create, also by PUT or apply.

Owns the question that is asked when a change turns out to be a creation.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go withAuthorization
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.apiserver.auth.attributes import Attributes, refusal
from kubesched.apiserver.auth.authorization import Authorizer
from kubesched.apiserver.documents import Document
from kubesched.apiserver.strategy import Request


@dataclass(frozen=True, slots=True)
class CreateRight:
    """Refuses creations by people who may only change."""

    authorizer: Authorizer

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Refuse before anything is filled in."""
        if new is None or old is not None or request.verb != "create" or request.subresource:
            return
        asked = Attributes(
            request.user,
            "create",
            group=request.group,
            resource=request.resource,
            namespace=request.namespace,
            name=request.name,
        )
        is_allowed, reason = self.authorizer.allows(asked)
        if not is_allowed:
            raise refusal(asked, reason)

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Refuse nothing more."""
