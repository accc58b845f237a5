"""Prevents privilege escalation: users grant only permissions that they have.

Upstream: pkg/registry/rbac/escalation_check.go, pkg/registry/rbac/*/policybased/storage.go,
staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubesched.cluster.apiserver.auth.attributes import Attributes
from kubesched.cluster.apiserver.auth.authorization import PRIVILEGED_GROUP, Authorizer
from kubesched.cluster.apiserver.auth.rbac import GROUP, url_matches
from kubesched.cluster.apiserver.documents import Document, dig, name_of
from kubesched.cluster.apiserver.errors import forbidden
from kubesched.cluster.apiserver.strategy import Request
from kubesched.golang.strconv import go_quote

_PARTS = ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs")
_FIELDS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
_ROLES = {"roles", "clusterroles"}
_BINDINGS = {"rolebindings": "Role", "clusterrolebindings": "ClusterRole"}


@dataclass(frozen=True, slots=True)
class EscalationCheck:
    """Rejects roles and bindings that grant permissions which the user lacks."""

    authorizer: Authorizer

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Do nothing."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject a role or binding that escalates."""
        if new is None or request.group != GROUP or PRIVILEGED_GROUP in request.user.groups:
            return
        if request.resource in _ROLES:
            self._check_role(new, old, request)
        elif request.resource in _BINDINGS:
            self._check_binding(new, request)

    def _check_role(self, new: Document, old: Document | None, request: Request) -> None:
        if old is not None and old.get("rules") == new.get("rules"):
            return
        if self._may("escalate", request.resource, request.namespace, name_of(new), request):
            return
        self._confirm(new.get("rules") or [], name_of(new), request)

    def _check_binding(self, new: Document, request: Request) -> None:
        ref = new.get("roleRef") or {}
        is_cluster = ref.get("kind") == "ClusterRole"
        resource = "clusterroles" if is_cluster else "roles"
        name, place = ref.get("name", ""), request.namespace
        if self._may("bind", resource, place, name, request):
            return
        role = request.reader.get(GROUP, resource, "" if is_cluster else place, name)
        if role is None:
            text = f"{resource.removesuffix('s')}.{GROUP} {go_quote(name)} not found"
            raise forbidden(GROUP, request.resource, name_of(new), text)
        self._confirm(role.get("rules") or [], name_of(new), request)

    def _may(self, verb: str, resource: str, namespace: str, name: str, request: Request) -> bool:
        requested = Attributes(
            request.user, verb, group=GROUP, resource=resource, namespace=namespace, name=name
        )
        return self.authorizer.allows(requested)[0]

    def _confirm(self, rules: list[Document], name: str, request: Request) -> None:
        own, problem = self.authorizer.rules_for(request.user, request.namespace)
        missing = [atom for atom in _atoms(rules) if not any(_covers(rule, atom) for rule in own)]
        if not missing:
            return
        groups = " ".join(go_quote(group) for group in request.user.groups)
        described = sorted({_compact(one) for one in _joined(missing)})
        lines = "\n".join(described)
        text = (
            f"user {go_quote(request.user.name)} (groups=[{groups}]) is attempting to grant RBAC "
            f"permissions not currently held:\n{lines}"
        )
        if problem:
            text += f"; resolution errors: [{problem}]"
        raise forbidden(GROUP, request.resource, name, text)


def _atoms(rules: list[Document]) -> Iterator[Document]:
    """Yield the rules split into atoms: one verb, one resource and at most one name each."""
    for rule in rules:
        verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in verbs:
                    atom = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    if not names:
                        yield atom
                    for name in names:
                        yield {**atom, "resourceNames": [name]}
        for url in rule.get("nonResourceURLs") or ():
            for verb in verbs:
                yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(owner: Document, atom: Document) -> bool:
    """Return whether a rule covers an atom."""
    for field in ("verbs", "apiGroups"):
        have = owner.get(field) or ()
        if "*" not in have and not set(atom.get(field) or ()) <= set(have):
            return False
    have = owner.get("resources") or ()
    for resource in atom.get("resources") or ():
        _, slash, below = resource.partition("/")
        if not {"*", resource} & set(have) and not (slash and f"*/{below}" in have):
            return False
    for url in atom.get("nonResourceURLs") or ():
        if not any(url_matches(one, url) for one in owner.get("nonResourceURLs") or ()):
            return False
    limited = owner.get("resourceNames") or ()
    requested = atom.get("resourceNames") or ()
    return not limited or (bool(requested) and set(requested) <= set(limited))


def _joined(atoms: list[Document]) -> list[Document]:
    """Merge atoms that differ only in their verb."""
    found: dict[tuple[object, ...], Document] = {}
    for atom in atoms:
        key = tuple(tuple(atom.get(field) or ()) for field in _FIELDS[:-1])
        if key in found and not atom.get("nonResourceURLs"):
            found[key]["verbs"] += atom["verbs"]
        else:
            unique = (*key, *atom["verbs"]) if atom.get("nonResourceURLs") else key
            found[unique] = {**atom, "verbs": list(atom["verbs"])}
    return list(found.values())


def _compact(rule: Document) -> str:
    parts = []
    for name, field in zip(_PARTS, _FIELDS, strict=True):
        values = dig(rule, field) or ()
        if values:
            parts.append(f"{name}:[{' '.join(go_quote(value) for value in values)}]")
    return "{" + ", ".join(parts) + "}"
