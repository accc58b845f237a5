"""Discovery documents of /api and /apis, aggregated and legacy.

Built from the registry, so that custom resources appear when they are served.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Final

from kubesched.cluster.apiserver.crd.definition import version_order
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.http.negotiation import clauses
from kubesched.cluster.apiserver.resources import Registry, Resource

AGGREGATED_TYPE: Final = (
    "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
)
_AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"


def aggregated_version(accept: str) -> str:
    """Return the preferred version of aggregated discovery; empty for legacy discovery."""
    for clause in clauses(accept):
        parameters = clause.parameters
        if clause.media_type not in {"application/json", "*/*"}:
            continue
        if parameters.get("g") == _AGGREGATED_GROUP and parameters.get("v") in {"v2", "v2beta1"}:
            return parameters["v"]
        if "as" not in parameters:
            return ""
    return ""


class Discovery:
    """The documents of /api and /apis."""

    def __init__(self, registry: Registry, address: str) -> None:
        self._registry = registry
        self._address = address

    def document(self, parts: list[str], accept: str) -> tuple[Document, str] | None:
        """Return the document of a path and its content type; None if there is none."""
        version = aggregated_version(accept) if len(parts) == 1 else ""
        if version:
            core_only = parts[0] == "api"
            return self._aggregated(version, core_only=core_only), AGGREGATED_TYPE.format(
                version=version
            )
        found = self._core(parts[1:]) if parts[0] == "api" else self._group(parts[1:])
        return None if found is None else (found, "application/json")

    def _core(self, parts: list[str]) -> Document | None:
        if not parts:
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}
                ],
            }
        return self._resources("", parts[0]) if len(parts) == 1 else None

    def _group(self, parts: list[str]) -> Document | None:
        groups = self.groups()
        if not parts:
            listed = [_group_document(name, versions) for name, versions in groups.items()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        name = parts[0]
        if name not in groups:
            return None
        if len(parts) == 1:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group_document(name, groups[name])}
        return self._resources(name, parts[1]) if len(parts) == 2 else None

    def groups(self) -> dict[str, list[str]]:
        """Return the named groups with their versions, the preferred one first."""
        found: dict[str, list[str]] = {}
        for resource in self._registry:
            versions = found.setdefault(resource.group, []) if resource.group else []
            if resource.version not in versions:
                versions.append(resource.version)
                if resource.is_custom:
                    versions.sort(key=version_order)
        return found

    def _resources(self, group: str, version: str) -> Document | None:
        served = self._served(group, version)
        if not served:
            return None
        listed: list[Document] = []
        for resource in sorted(served, key=lambda one: one.resource):
            listed.append(_resource_document(resource))
            listed.extend(_subresource_documents(resource))
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            # Upstream lists the subresources of custom kinds in another order.
            "resources": listed
            if served[0].is_custom
            else sorted(listed, key=lambda one: str(one["name"])),
        }

    def _served(self, group: str, version: str) -> list[Resource]:
        return [one for one in self._registry if (one.group, one.version) == (group, version)]

    def _aggregated(self, version: str, *, core_only: bool) -> Document:
        groups = {"": ["v1"]} if core_only else self.groups()
        items = [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [
                            _aggregated_resource(resource)
                            for resource in sorted(
                                self._served(name, version), key=lambda served: served.resource
                            )
                        ],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
            for name, versions in groups.items()
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"{_AGGREGATED_GROUP}/{version}",
            "metadata": {},
            "items": items,
        }


def _group_document(name: str, versions: list[str]) -> Document:
    documents = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": documents, "preferredVersion": documents[0]}


def _resource_document(resource: Resource) -> Document:
    document: Document = {
        "name": resource.resource,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    if "list" in resource.verbs and "watch" in resource.verbs:
        document["storageVersionHash"] = _storage_version_hash(resource)
    return document


def _storage_version_hash(resource: Resource) -> str:
    # Parity: endpoints/discovery/storageversionhash.go StorageVersionHash, v1.36
    text = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def subresources(resource: Resource) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """Yield name, group, version, kind and verbs of subresources.

    Group and version are empty if they equal those of the resource.
    """
    for view in resource.views.values():
        yield view.name, "", "", resource.kind, view.verbs
    if resource.scale is not None:
        yield resource.scale.name, "autoscaling", "v1", "Scale", resource.scale.verbs
    for name, action in resource.actions.items():
        is_own = (action.group, action.version) == (resource.group, resource.version)
        group, version = ("", "") if is_own else (action.group, action.version)
        yield name, group, version, action.kind, ("create",)
    for name, one in resource.unserved.items():
        if name not in resource.actions:
            yield name, one.group, one.version, one.kind, one.verbs


def _subresource_documents(resource: Resource) -> Iterator[Document]:
    for name, group, version, kind, verbs in subresources(resource):
        document: Document = {
            "name": f"{resource.resource}/{name}",
            "singularName": "",
            "namespaced": resource.is_namespaced,
        }
        if version and (group, version) != (resource.group, resource.version):
            document |= {"group": group, "version": version}
        yield {**document, "kind": kind, "verbs": list(verbs)}


def _aggregated_resource(resource: Resource) -> Document:
    document: Document = {
        "resource": resource.resource,
        "responseKind": {**_own_names(resource), "kind": resource.kind},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    below = [
        {
            "subresource": name,
            "responseKind": {
                **({"group": group, "version": version} if version else _own_names(resource)),
                "kind": kind,
            },
            "verbs": list(verbs),
        }
        for name, group, version, kind, verbs in subresources(resource)
    ]
    if below and not resource.is_custom:
        below.sort(key=lambda one: str(one["subresource"]))
    if below:
        document["subresources"] = below
    return document


def _own_names(resource: Resource) -> Document:
    """Return group and version of a resource, which discovery shows for custom kinds only."""
    if not resource.is_custom:
        return {"group": "", "version": ""}
    return {"group": resource.group, "version": resource.version}
