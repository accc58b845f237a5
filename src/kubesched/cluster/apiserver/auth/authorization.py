"""Authorization modes: AlwaysAllow, or RBAC.

Upstream: pkg/kubeapiserver/authorizer/config.go,
staging/src/k8s.io/apiserver/pkg/authorization/authorizerfactory/builtin.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.auth.attributes import Attributes, rejection
from kubesched.cluster.apiserver.auth.rbac import RuleBook
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.strategy import Request, User

PRIVILEGED_GROUP = "system:masters"
_EVERYTHING: list[Document] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


class Authorizer:
    """Authorizes requests; without RBAC everything is allowed."""

    def __init__(self, rules: RuleBook | None = None) -> None:
        self._rules = rules

    def allows(self, requested: Attributes) -> tuple[bool, str]:
        """Return whether a request is allowed, and the reason, which may be empty."""
        if self._rules is None or PRIVILEGED_GROUP in requested.user.groups:
            return True, ""
        return self._rules.decide(requested)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Document], str]:
        """Return a user's rules in a namespace, and the errors of their evaluation."""
        if self._rules is None:
            return _EVERYTHING, ""
        return self._rules.rules_for(user, namespace)


def check_create(authorizer: Authorizer, request: Request) -> None:
    """Reject an update that creates an object if the user may not create it."""
    requested = Attributes(
        request.user,
        "create",
        group=request.group,
        resource=request.resource,
        namespace=request.namespace,
        name=request.name,
    )
    is_allowed, reason = authorizer.allows(requested)
    if not is_allowed:
        raise rejection(requested, reason)
