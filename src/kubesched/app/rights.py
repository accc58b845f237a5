"""The rights that a configuration needs, and the smallest RBAC that grants them.

Owns the list of what is read and written: kinds by the plugins that read them, writes by what is
switched on. Never asks a server.
Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,namespace_policy}.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.app.build import Built
from kubesched.app.option_values import Options
from kubesched.app.watched import ALWAYS, BY_PLUGIN, registered_resource, watched_resources
from kubesched.client.resources import Resource
from kubesched.config.encode import dump_yaml

READ: Final = ("get", "list", "watch")
AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
_READER: Final = "extension-apiserver-authentication-reader"
_NAME: Final = "kubesched"
_API: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """Something that has to be allowed: verbs on a resource, everywhere or in one namespace."""

    group: str
    resource: str
    """The plural, with a slash and the subresource if it is one."""
    verbs: tuple[str, ...]
    purpose: str
    namespace: str = ""
    name: str = ""
    is_vital: bool = True
    """Whether scheduling suffers without it."""

    @property
    def title(self) -> str:
        """Return the resource as kubectl calls it."""
        plural, slash, rest = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        where = f" {self.namespace}/{self.name}" if self.name else ""
        return f"{plural}{group}{slash}{rest}{where}"


@dataclass(frozen=True, slots=True)
class Subject:
    """Who gets rights: a user, or a service account if there is a namespace."""

    name: str = _NAME
    namespace: str = "kube-system"

    @property
    def role(self) -> str:
        """Return what roles and bindings for it are called: a service account has its own."""
        return self.name if self.namespace else _NAME

    def document(self) -> dict[str, Any]:
        """Return the subject as bindings have it."""
        if self.namespace:
            return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {"apiGroup": _API, "kind": "User", "name": self.name}


def needed_rights(built: Built, options: Options) -> list[Right]:
    """Return every right that is used with a configuration, reading first."""
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
    """Say who reads a kind."""
    if resource in ALWAYS:
        return "what every decision is made from"
    readers = dict.fromkeys(
        name
        for profile in built.profiles.values()
        for name, registered in profile.event_registrations().items()
        if resource in BY_PLUGIN.get(name, ())
        or any(registered_resource(one.event.resource) == resource for one in registered or ())
    )
    return f"read by {', '.join(readers)}"


def _writes(enabled: set[str], options: Options) -> list[Right]:
    rights = [
        Right("", "pods/status", ("patch",), "conditions and nominated nodes of pods"),
        Right("events.k8s.io", "events", ("create", "patch"), "events about pods"),
    ]
    binds = any(extender.bind_verb for extender in options.config.extenders)
    if "DefaultBinder" in enabled or not binds:
        rights.insert(0, Right("", "pods/binding", ("create",), "binding pods to nodes"))
    if "DefaultPreemption" in enabled:
        rights.append(
            Right("", "pods", ("delete",), "evicting pods for others (DefaultPreemption)")
        )
    if "VolumeBinding" in enabled:
        rights += [
            Right("", plural, ("patch",), "binding volumes (VolumeBinding)")
            for plural in ("persistentvolumes", "persistentvolumeclaims")
        ]
    return rights


def _election(options: Options) -> list[Right]:
    election = options.config.leader_election
    if not election.leader_elect:
        where = election.resource_namespace
        told = Right("", "events", ("create", "patch"), "events about reloading", where)
        return [told] if options.reload else []
    where, name, group = election.resource_namespace, election.resource_name, "coordination.k8s.io"
    return [
        Right(group, "leases", ("create",), "leader election", where),
        Right(group, "leases", ("get", "update"), "leader election", where, name),
        Right("", "events", ("create", "patch"), "events about the lease", where),
    ]


def _serving(options: Options) -> list[Right]:
    if options.serving.secure_port == 0:
        return []
    rights = [
        Right(
            "authentication.k8s.io",
            "tokenreviews",
            ("create",),
            "knowing who asks for /metrics",
            is_vital=False,
        ),
        Right(
            "authorization.k8s.io",
            "subjectaccessreviews",
            ("create",),
            "knowing who may ask for /metrics",
            is_vital=False,
        ),
    ]
    if not options.authentication.skip_lookup:
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


def rbac_yaml(rights: Sequence[Right], subject: Subject, *, name: str = _NAME) -> str:
    """Return the smallest roles of a name with their bindings, for `kubectl apply -f -`."""
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
    looks_up = any(right.name == AUTHENTICATION_CONFIG for right in rights)
    for namespace in dict.fromkeys(right.namespace for right in rights if right.namespace):
        here = [
            right
            for right in rights
            if right.namespace == namespace and right.name != AUTHENTICATION_CONFIG
        ]
        if here:
            documents += _role("Role", subject.role, namespace, here, subject)
    if looks_up:
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
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    role = {
        "apiVersion": f"{_API}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": rules(rights),
    }
    return [role, _binding(f"{kind}Binding", name, namespace, (kind, name), subject)]


def _binding(
    kind: str, name: str, namespace: str, role: tuple[str, str], subject: Subject
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{_API}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _API, "kind": role[0], "name": role[1]},
        "subjects": [subject.document()],
    }


def rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """Return RBAC rules, resources with the same verbs in one."""
    verbs: dict[tuple[str, str, str], dict[str, None]] = {}
    for right in rights:
        key = (right.group, right.resource, right.name)
        verbs.setdefault(key, {}).update(dict.fromkeys(right.verbs))
    merged: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, resource, name), wanted in verbs.items():
        merged.setdefault((group, name, tuple(wanted)), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": plurals,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(wanted),
        }
        for (group, name, wanted), plurals in merged.items()
    ]
