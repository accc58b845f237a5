"""Permissions that a configuration needs, and the smallest RBAC that grants them.

Reads follow from the watched kinds, writes from the records of the enabled plugins and from the
features that are switched on. Never talks to an API server.
Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,namespace_policy}.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.kinds import Resource
from kubesched.golang.yaml_output import dump_yaml
from kubesched.plugins.default_binder import BINDING
from kubesched.plugins.in_tree import IN_TREE
from kubesched.profile.build import Built
from kubesched.run.options.values import Options
from kubesched.run.watched_kinds import (
    always_watched,
    read_by,
    registered_resource,
    watched_resources,
)

READ: Final = ("get", "list", "watch")
AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
_READER: Final = "extension-apiserver-authentication-reader"
_NAME: Final = "kubesched"
_API: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """A permission: verbs on a resource, in all namespaces or in one."""

    group: str
    resource: str
    """The plural, with a slash and the subresource if it is one."""
    verbs: tuple[str, ...]
    purpose: str
    namespace: str = ""
    name: str = ""
    is_vital: bool = True
    """Whether scheduling fails without it."""

    @property
    def title(self) -> str:
        """Return the resource as kubectl names it."""
        plural, slash, rest = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        where = f" {self.namespace}/{self.name}" if self.name else ""
        return f"{plural}{group}{slash}{rest}{where}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of bindings: a service account, or a user if there is no namespace."""

    name: str = _NAME
    namespace: str = "kube-system"

    @property
    def role(self) -> str:
        """Return the name of its roles and bindings."""
        return self.name if self.namespace else _NAME

    def document(self) -> dict[str, Any]:
        """Return the subject as a document."""
        if self.namespace:
            return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"apiGroup": _API, "kind": "User", "name": self.name}


def needed_rights(built: Built, options: Options) -> list[Right]:
    """Return every permission that a configuration needs, reads first."""
    enabled = {name for profile in built.profiles.values() for name in profile.plugins}
    rights = [
        Right(resource.group, resource.plural, READ, _readers(resource, built))
        for resource in watched_resources(built.profiles.values())
    ]
    if not options.shadow:
        rights += _writes(enabled, options)
        rights += _election(options)
    return rights + _serving(options)


def _readers(resource: Resource, built: Built) -> str:
    """Return the purpose of reading a kind: the plugins that do."""
    if resource in always_watched():
        return "needed for every decision"
    readers = dict.fromkeys(
        name
        for profile in built.profiles.values()
        for name, entries in profile.event_registrations().items()
        if resource in read_by(name)
        or any(registered_resource(entry.event.resource) == resource for entry in entries or ())
    )
    return f"read by {', '.join(readers)}"


def _writes(enabled: set[str], options: Options) -> list[Right]:
    needed = [write for name in IN_TREE if name in enabled for write in IN_TREE[name].writes]
    if not any(extender.bind_verb for extender in options.config.extenders):
        needed.insert(0, BINDING)  # An out-of-tree bind plugin sends the same request.
    return [
        *(Right(*write) for write in dict.fromkeys(needed)),
        Right("", "pods/status", ("patch",), "conditions and nominated nodes of pods"),
        Right("events.k8s.io", "events", ("create", "patch"), "events about pods"),
    ]


def _election(options: Options) -> list[Right]:
    election = options.config.leader_election
    if not election.leader_elect:
        where = election.resource_namespace
        events = Right("", "events", ("create", "patch"), "events about reloading", where)
        return [events] if options.reload else []
    where, name, group = election.resource_namespace, election.resource_name, "coordination.k8s.io"
    return [
        Right(group, "leases", ("create",), "leader election", where),
        Right(group, "leases", ("get", "update"), "leader election", where, name),
        Right("", "events", ("create", "patch"), "events about the lease", where),
    ]


def _serving(options: Options) -> list[Right]:
    if options.serving.port == 0:
        return []
    rights = [
        Right(group, resource, ("create",), purpose, is_vital=False)
        for group, resource, purpose in (
            ("authentication.k8s.io", "tokenreviews", "authenticating requests for /metrics"),
            ("authorization.k8s.io", "subjectaccessreviews", "authorizing requests for /metrics"),
        )
    ]
    if not options.serving.authentication.skip_lookup:
        rights.append(
            Right(
                "",
                "configmaps",
                ("get",),
                "authorities of clients' certificates",
                AUTHENTICATION_NAMESPACE,
                AUTHENTICATION_CONFIG,
                is_vital=False,
            )
        )
    return rights


def rbac_yaml(rights: Sequence[Right], subject: Subject) -> str:
    """Return the smallest roles and their bindings, for `kubectl apply -f -`."""
    documents: list[dict[str, Any]] = []
    if subject.namespace:
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": subject.name, "namespace": subject.namespace},
            }
        )
    everywhere = [right for right in rights if not right.namespace]
    documents += _role("ClusterRole", subject.role, "", everywhere, subject)
    for namespace in dict.fromkeys(right.namespace for right in rights if right.namespace):
        namespaced = [
            right
            for right in rights
            if right.namespace == namespace and right.name != AUTHENTICATION_CONFIG
        ]
        if namespaced:
            documents += _role("Role", subject.role, namespace, namespaced, subject)
    if any(right.name == AUTHENTICATION_CONFIG for right in rights):
        documents.append(
            _binding(
                "RoleBinding",
                f"{subject.role}-authentication-reader",
                AUTHENTICATION_NAMESPACE,
                ("Role", _READER),
                subject,
            )
        )
    return "---\n".join(dump_yaml(document, sort_keys=False) for document in documents)


def _role(
    kind: str, name: str, namespace: str, rights: Iterable[Right], subject: Subject
) -> list[dict[str, Any]]:
    role = {**_head(kind, name, namespace), "rules": rules(rights)}
    return [role, _binding(f"{kind}Binding", name, namespace, (kind, name), subject)]


def _binding(
    kind: str, name: str, namespace: str, role: tuple[str, str], subject: Subject
) -> dict[str, Any]:
    return {
        **_head(kind, name, namespace),
        "roleRef": {"apiGroup": _API, "kind": role[0], "name": role[1]},
        "subjects": [subject.document()],
    }


def _head(kind: str, name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata}


def rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """Return RBAC rules, resources with the same verbs in one."""
    verbs: dict[tuple[str, str, str], dict[str, None]] = {}
    for right in rights:
        key = (right.group, right.resource, right.name)
        verbs.setdefault(key, {}).update(dict.fromkeys(right.verbs))
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), allowed in verbs.items():
        merged.setdefault((group, name, tuple(allowed)), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": plurals,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(allowed),
        }
        for (group, name, allowed), plurals in merged.items()
    ]
