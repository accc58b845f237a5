"""Whether a user may do what they ask for.

Owns the two modes: everybody may do everything, or what RBAC allows.
Upstream: pkg/kubeapiserver/authorizer/config.go,
staging/src/k8s.io/apiserver/pkg/authorization/authorizerfactory/builtin.go
"""

from __future__ import annotations

from kubesched.apiserver.auth.attributes import Attributes
from kubesched.apiserver.auth.rbac import RuleBook
from kubesched.apiserver.documents import Document
from kubesched.apiserver.strategy import User

PRIVILEGED_GROUP = "system:masters"
_EVERYTHING: list[Document] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


class Authorizer:
    """Answers for every request; without a rule book everybody may do everything."""

    def __init__(self, rules: RuleBook | None = None) -> None:
        self._rules = rules

    def allows(self, asked: Attributes) -> tuple[bool, str]:
        """Return whether it is allowed, and the reason if there is one to give."""
        if self._rules is None or PRIVILEGED_GROUP in asked.user.groups:
            return True, ""
        return self._rules.decide(asked)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Document], str]:
        """Return the rules a user has in a namespace, and what went wrong on the way."""
        if self._rules is None:
            return _EVERYTHING, ""
        return self._rules.rules_for(user, namespace)
