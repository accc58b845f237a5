"""A parsed CustomResourceDefinition.

Validation is in crd.rules.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kubesched.cluster.apiserver.documents import Document, dig, name_of
from kubesched.cluster.apiserver.resources import ScaleSubresource

GROUP = "apiextensions.k8s.io"
RESOURCE = "customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a custom kind."""

    name: str
    is_served: bool
    is_storage: bool
    schema: dict[str, Any]
    """Its openAPIV3Schema."""
    has_status: bool = False
    scale: ScaleSubresource | None = None
    columns: tuple[dict[str, Any], ...] = ()
    """additionalPrinterColumns."""
    selectable_fields: list[dict[str, str]] = field(default_factory=list)
    warning: str = ""
    """The deprecation warning."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A custom kind in all its versions."""

    name: str
    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    scope: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    versions: tuple[Version, ...]

    @property
    def storage_version(self) -> Version:
        """Return the storage version."""
        return next(version for version in self.versions if version.is_storage)

    @property
    def is_namespaced(self) -> bool:
        """Return whether instances are namespaced."""
        return self.scope == "Namespaced"


def definition_of(document: Document) -> Definition:
    """Parse a valid CustomResourceDefinition."""
    spec = document["spec"]
    names = dig(document, "status", "acceptedNames") or {}
    if not names.get("plural"):
        names = spec["names"]
    return Definition(
        name=name_of(document),
        group=spec["group"],
        plural=spec["names"]["plural"],
        singular=names.get("singular") or "",
        kind=names["kind"],
        list_kind=names.get("listKind") or "",
        scope=spec["scope"],
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        versions=tuple(_version_of(spec, raw) for raw in spec["versions"]),
    )


def _version_of(spec: Document, raw: Document) -> Version:
    subresources = raw.get("subresources") or {}
    return Version(
        name=raw["name"],
        is_served=bool(raw.get("served")),
        is_storage=bool(raw.get("storage")),
        schema=dig(raw, "schema", "openAPIV3Schema") or {},
        has_status="status" in subresources,
        scale=_scale_of(subresources.get("scale")),
        columns=tuple(raw.get("additionalPrinterColumns") or ()),
        selectable_fields=list(raw.get("selectableFields") or ()),
        warning=_warning_of(spec, raw),
    )


def _scale_of(raw: Document | None) -> ScaleSubresource | None:
    if raw is None:
        return None
    return ScaleSubresource(
        _steps(raw["specReplicasPath"]),
        _steps(raw["statusReplicasPath"]),
        _steps(raw.get("labelSelectorPath") or ""),
        needs_replicas=True,
    )


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _warning_of(spec: Document, raw: Document) -> str:
    if not raw.get("deprecated"):
        return ""
    if raw.get("deprecationWarning"):
        return str(raw["deprecationWarning"])
    # Parity: apiserver/customresource_handler.go, v1.36
    kind = spec["names"]["kind"]
    text = f"{spec['group']}/{raw['name']} {kind} is deprecated"
    newer = _newer_version(spec, raw["name"])
    return f"{text}; use {spec['group']}/{newer} {kind}" if newer else text


def _newer_version(spec: Document, name: str) -> str:
    """Return the newer served version that replaces a deprecated one."""
    for version in sorted(
        (
            version
            for version in spec["versions"]
            if version.get("served") and not version.get("deprecated")
        ),
        key=lambda one: version_order(one["name"]),
    ):
        if version_order(version["name"]) < version_order(name):
            return str(version["name"])
    return ""


def version_order(name: str) -> tuple[int, int, int, str]:
    """Sort key of versions in discovery: v2 before v1 before v1beta2 before v1alpha1."""
    # Parity: staging/src/k8s.io/apimachinery/pkg/version/helpers.go CompareKubeAwareVersionStrings
    found = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", name)
    if found is None:
        return (3, 0, 0, name)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), "")
