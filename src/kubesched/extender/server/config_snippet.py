"""The configuration snippet and the RBAC manifests for using an extender.

Owns these texts: the `extenders:` entry for kube-scheduler's configuration, with the verbs that the
plugins implement, and the minimal rights of the extender. Never starts anything.
Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go Extender
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.resources import NAMESPACES, NODES, PODS
from kubesched.extender.server.build import BuiltExtender
from kubesched.golang.yaml_output import dump_yaml
from kubesched.run.rbac import READ, Right, Subject, rbac_yaml

NAME: Final = "kubesched-extender"
_READ_BY_ALL: Final = (PODS, NODES, NAMESPACES)
_FIRST: Final = """\
# Add this to the KubeSchedulerConfiguration that your kube-scheduler reads with --config. While the
# extender does not respond, no pod is scheduled; with `ignorable: true` pods are scheduled without
# it. With `nodeCacheCapable: false` the scheduler sends whole nodes instead of names, which works
# but is slower.
"""
_SECOND: Final = """\
# The rights of the extender. Apply the documents from here on with `kubectl apply -f -`.
"""


@dataclass(frozen=True, slots=True)
class SnippetOptions:
    """How a scheduler calls the extender."""

    url: str
    binds: bool = False
    is_secure: bool = False
    wants_certificates: bool = False
    weight: int = 1


def print_config(extender: BuiltExtender, options: SnippetOptions, subject: Subject) -> str:
    """Return the `extenders:` entry, followed by the RBAC documents."""
    rights = extender_rights(extender, binds=options.binds)
    rbac = rbac_yaml(rights, subject)
    snippet = dump_yaml({"extenders": [extender_entry(extender, options)]}, sort_keys=False)
    return f"{_FIRST}{snippet}---\n{_SECOND}{rbac}"


def extender_entry(extender: BuiltExtender, options: SnippetOptions) -> dict[str, Any]:
    """Return the entry of `extenders`."""
    entry: dict[str, Any] = {"urlPrefix": options.url}
    if extender.filters:
        entry |= {"filterVerb": "filter", "preemptVerb": "preempt"}
    if extender.scores:
        entry |= {"prioritizeVerb": "prioritize", "weight": options.weight}
    if options.binds:
        entry["bindVerb"] = "bind"
    if options.is_secure:
        entry["enableHTTPS"] = True
        tls = {"caFile": "/etc/kubernetes/extender/ca.crt"}
        if options.wants_certificates:
            tls["certFile"] = "/etc/kubernetes/extender/client.crt"
            tls["keyFile"] = "/etc/kubernetes/extender/client.key"
        entry["tlsConfig"] = tls
    return entry | {"nodeCacheCapable": True, "httpTimeout": "5s", "ignorable": False}


def extender_rights(extender: BuiltExtender, *, binds: bool) -> list[Right]:
    """Return every permission that the extender needs."""
    rights = [
        Right(
            resource.group,
            resource.plural,
            READ,
            "seen by plugins" if resource in _READ_BY_ALL else "read by plugins",
        )
        for resource in extender.resources
    ]
    if binds:
        rights.append(Right("", "pods/binding", ("create",), "binding pods to nodes"))
    return rights
