"""Initial objects of a new cluster.

Namespaces, priority classes, the `kubernetes` service, the CA ConfigMap, and the roles and bindings
of RBAC.
Upstream: pkg/controlplane/controller/systemnamespaces/system_namespaces_controller.go,
pkg/registry/scheduling/rest/storage_scheduling.go,
pkg/controlplane/controller/kubernetesservice/controller.go,
pkg/controlplane/controller/clusterauthenticationtrust/cluster_authentication_trust_controller.go
"""

from __future__ import annotations

import gzip
from importlib import resources
from typing import Final

import msgspec

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.verbs.context import Context, WriteOptions
from kubesched.cluster.apiserver.verbs.create import create

NAMESPACES: Final = ("kube-system", "kube-public", "default", "kube-node-lease")
_PRIORITY_CLASSES: Final = (
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2000000000,
        (
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary."
        ),
    ),
)


def documents(service_ip: str, port: int) -> list[tuple[str, str, Document]]:
    """Return group, resource and document of each object, in the order of creation."""
    made: list[tuple[str, str, Document]] = [
        ("", "namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
        for name in NAMESPACES
    ]
    made += [
        (
            "scheduling.k8s.io",
            "priorityclasses",
            {
                "kind": "PriorityClass",
                "apiVersion": "scheduling.k8s.io/v1",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            },
        )
        for name, value, description in _PRIORITY_CLASSES
    ]
    made.append(("", "services", _service(service_ip, port)))
    return made


def _service(service_ip: str, port: int) -> Document:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": service_ip,
            "clusterIPs": [service_ip],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


def authentication_trust(client_ca_pem: bytes) -> tuple[str, str, Document]:
    """Return the ConfigMap extension-apiserver-authentication."""
    document: Document = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": client_ca_pem.decode()},
    }
    return "", "configmaps", document


def make_missing(context: Context, made: list[tuple[str, str, Document]]) -> None:
    """Create missing objects."""
    options = WriteOptions(field_manager="kube-apiserver")
    for group, name, document in made:
        resource = context.find(group, name)
        if resource is None:
            continue
        if context.entry(resource, namespace_of(document), name_of(document)) is not None:
            continue
        request = context.system_request(resource, "create")
        request.name, request.namespace = name_of(document), namespace_of(document)
        create(context, resource, document, request, options)


def bootstrap_objects() -> list[Document]:
    """Return the ClusterRoles, Roles and bindings, without uid and resourceVersion."""
    data = resources.files("kubesched.cluster.apiserver").joinpath("data/rbac.json.gz").read_bytes()
    found: list[Document] = msgspec.json.decode(gzip.decompress(data))
    return found
