"""What has to be written down to use an extender: the caller's stanza, and the rights it needs.

Owns these texts: `extenders:` as kube-scheduler's configuration has it, and the smallest RBAC. The
verbs are those that the plugins have something to say to. Never starts anything.
Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go Extender
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kubesched.app.extender_build import BuiltExtender
from kubesched.app.rights import READ, Right, Subject, rbac_yaml
from kubesched.client.resources import NAMESPACES, NODES, PODS
from kubesched.config.encode import dump_yaml

NAME: Final = "kubesched-extender"
_READ_BY_ALL: Final = (PODS, NODES, NAMESPACES)
_FIRST: Final = """\
# To be put into the configuration file of your kube-scheduler, the KubeSchedulerConfiguration that
# its --config names. As long as the extender does not answer, no pod is placed; with
# `ignorable: true` pods are placed without it. With `nodeCacheCapable: false` the scheduler sends
# whole nodes in place of their names, which is slower and serves as well.
"""
_SECOND: Final = """\
# What the extender may do, for `kubectl apply -f -` from here on.
"""


@dataclass(frozen=True, slots=True)
class Stanza:
    """How an extender is to be called."""

    url: str
    binds: bool = False
    is_secure: bool = False
    wants_certificates: bool = False
    weight: int = 1


def print_config(extender: BuiltExtender, stanza: Stanza, subject: Subject) -> str:
    """Return the caller's stanza and, as documents behind it, the rights."""
    rights = extender_rights(extender, binds=stanza.binds)
    rbac = rbac_yaml(rights, subject, name=NAME)
    called = dump_yaml({"extenders": [stanza_of(extender, stanza)]}, sort_keys=False)
    return f"{_FIRST}{called}---\n{_SECOND}{rbac}"


def stanza_of(extender: BuiltExtender, stanza: Stanza) -> dict[str, Any]:
    """Return an entry of `extenders`."""
    entry: dict[str, Any] = {"urlPrefix": stanza.url}
    if extender.filters:
        entry |= {"filterVerb": "filter", "preemptVerb": "preempt"}
    if extender.scores:
        entry |= {"prioritizeVerb": "prioritize", "weight": stanza.weight}
    if stanza.binds:
        entry["bindVerb"] = "bind"
    if stanza.is_secure:
        entry["enableHTTPS"] = True
        tls = {"caFile": "/etc/kubernetes/extender/ca.crt"}
        if stanza.wants_certificates:
            tls["certFile"] = "/etc/kubernetes/extender/client.crt"
            tls["keyFile"] = "/etc/kubernetes/extender/client.key"
        entry["tlsConfig"] = tls
    return entry | {"nodeCacheCapable": True, "httpTimeout": "5s", "ignorable": False}


def extender_rights(extender: BuiltExtender, *, binds: bool) -> list[Right]:
    """Return every right that is used: reading, and binding if that is on."""
    rights = [
        Right(
            resource.group,
            resource.plural,
            READ,
            "what plugins see" if resource in _READ_BY_ALL else "read by plugins",
        )
        for resource in extender.resources
    ]
    if binds:
        rights.append(Right("", "pods/binding", ("create",), "binding pods to nodes"))
    return rights
