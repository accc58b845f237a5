"""RBAC authorizer: the rules of a user, and the requests that a rule allows.

Compiles bindings to rules; recompiles them after a role or binding changes.
Upstream: plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go,
pkg/apis/rbac/v1/evaluation_helpers.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.cluster.apiserver.auth.attributes import Attributes
from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.strategy import Reader, User
from kubesched.golang.strconv import go_quote

GROUP = "rbac.authorization.k8s.io"
KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: tuple[str, ...]
    document: Document
    """The rule as in the role."""

    def allows(self, request: Attributes) -> bool:
        """Return whether the rule covers a request."""
        if request.verb not in self.verbs and _ALL not in self.verbs:
            return False
        if not request.is_resource:
            return any(url_matches(url, request.path) for url in self.urls)
        if request.group not in self.groups and _ALL not in self.groups:
            return False
        if self.names and request.name not in self.names:
            return False
        return (
            _ALL in self.resources
            or request.combined_resource in self.resources
            or (bool(request.subresource) and f"*/{request.subresource}" in self.resources)
        )


@dataclass(frozen=True, slots=True)
class _Binding:
    """The subjects and rules of a binding."""

    namespace: str
    description: str
    users: dict[str, str]
    """Description of the subject by user name."""
    groups: dict[str, str]
    rules: Sequence[Rule]
    problem: str
    """Error if the role is missing."""

    def subject_of(self, user: User) -> str | None:
        """Return the description of the subject that matches a user; None if none does."""
        found = self.users.get(user.name)
        if found is not None:
            return found
        return next((self.groups[name] for name in user.groups if name in self.groups), None)


class RuleBook:
    """The compiled bindings of the cluster, cached until a role or binding changes."""

    def __init__(self, reader: Reader, version: Callable[[], object]) -> None:
        self._reader = reader
        self._version = version
        self._seen: object = None
        self._cluster: list[_Binding] = []
        self._by_namespace: dict[str, list[_Binding]] = {}

    def decide(self, request: Attributes) -> tuple[bool, str]:
        """Return whether a rule allows a request, and upstream's reason."""
        problems = []
        for description, rule, problem in self._visit(request.user, request.namespace):
            if problem:
                problems.append(problem)
            elif rule is not None and rule.allows(request):
                return True, f"RBAC: allowed by {description}"
        if not problems:
            return False, ""
        texts = list(dict.fromkeys(problems))
        return False, f"RBAC: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"

    def rules_for(self, user: User, namespace: str) -> tuple[list[Document], str]:
        """Return a user's rules in a namespace, and the errors of their evaluation."""
        rules, problems = [], []
        for _, rule, problem in self._visit(user, namespace):
            if rule is not None:
                rules.append(rule.document)
            else:
                problems.append(problem)
        return rules, ", ".join(problems)

    def _visit(self, user: User, namespace: str) -> Iterator[tuple[str, Rule | None, str]]:
        self._follow()
        bindings = [*self._cluster, *(self._by_namespace.get(namespace, ()) if namespace else ())]
        for binding in bindings:
            subject = binding.subject_of(user)
            if subject is None:
                continue
            if binding.problem:
                yield "", None, binding.problem
            for rule in binding.rules:
                yield f"{binding.description} to {subject}", rule, ""

    def _follow(self) -> None:
        version = self._version()
        if version == self._seen and self._seen is not None:
            return
        self._seen = version
        read = self._reader
        roles: dict[tuple[str, str], list[Rule]] = {}
        for kind in ("clusterroles", "roles"):
            for role in read.list(GROUP, kind):
                roles[namespace_of(role), name_of(role)] = [
                    _rule_of(rule) for rule in role.get("rules") or ()
                ]
        self._cluster = [
            _binding_of(one, "ClusterRoleBinding", roles)
            for one in read.list(GROUP, "clusterrolebindings")
        ]
        self._by_namespace = {}
        for one in read.list(GROUP, "rolebindings"):
            binding = _binding_of(one, "RoleBinding", roles)
            self._by_namespace.setdefault(binding.namespace, []).append(binding)


def _rule_of(document: Document) -> Rule:
    def names(field: str) -> frozenset[str]:
        return frozenset(document.get(field) or ())

    return Rule(
        names("verbs"),
        names("apiGroups"),
        names("resources"),
        names("resourceNames"),
        tuple(document.get("nonResourceURLs") or ()),
        document,
    )


def _binding_of(
    document: Document, kind: str, roles: dict[tuple[str, str], list[Rule]]
) -> _Binding:
    namespace, name = namespace_of(document), name_of(document)
    ref: dict[str, Any] = document.get("roleRef") or {}
    role_kind, role_name = ref.get("kind", ""), ref.get("name", "")
    rules = roles.get(("" if role_kind == "ClusterRole" else namespace, role_name))
    problem = ""
    if rules is None:
        plural = f"{role_kind.lower()}.{GROUP}"
        problem = f"{plural} {go_quote(role_name)} not found"
    full_name = f"{name}/{namespace}" if kind == "RoleBinding" else name
    users, groups = _subjects_of(document.get("subjects") or (), namespace)
    return _Binding(
        namespace,
        f"{kind} {go_quote(full_name)} of {role_kind} {go_quote(role_name)}",
        users,
        groups,
        rules or (),
        problem,
    )


def _subjects_of(
    subjects: Sequence[Document], namespace: str
) -> tuple[dict[str, str], dict[str, str]]:
    users: dict[str, str] = {}
    groups: dict[str, str] = {}
    for subject in subjects:
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            if home:
                title = f"{kind} {go_quote(f'{name}/{home}')}"
                users.setdefault(f"system:serviceaccount:{home}:{name}", title)
        elif kind == "Group":
            groups.setdefault(name, f"{kind} {go_quote(name)}")
        elif kind == "User":
            users.setdefault(name, f"{kind} {go_quote(name)}")
    return users, groups


def url_matches(rule: str, path: str) -> bool:
    """Return whether the path of a rule, which may end in `*`, matches a path."""
    if rule in {_ALL, path}:
        return True
    return rule.endswith("*") and path.startswith(rule.rstrip("*"))
