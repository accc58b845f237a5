"""A definition as upstream holds it within, which shows in paths and values of its errors.

Owns what is lifted from versions to the top where all versions agree, and the names Go prints.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.apiserver.documents import Document

_LIFTED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_GO_NAMES: Final = (
    ("Name", "name", ""),
    ("Served", "served", False),
    ("Storage", "storage", False),
    ("Deprecated", "deprecated", False),
    ("DeprecationWarning", "deprecationWarning", None),
    ("Schema", "schema", None),
    ("Subresources", "subresources", None),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", None),
    ("SelectableFields", "selectableFields", None),
)


def to_internal(spec: Document) -> Document:
    """Return a spec with what all versions share at the top; the given one is left alone."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    made: Document = {**spec, "names": spec.get("names") or {}, "versions": versions}
    for name, top in _LIFTED.items():
        values = [version.get(name) for version in versions]
        is_shared = bool(values) and all(
            value not in (None, []) and value == values[0] for value in values
        )
        made[top] = values[0] if is_shared else None
        if is_shared:
            for version in versions:
                del version[name]
    return made


def internal_versions(versions: list[Document]) -> list[dict[str, Any]]:
    """Return versions as an error prints them."""
    return [{go: version.get(name, zero) for go, name, zero in _GO_NAMES} for version in versions]
