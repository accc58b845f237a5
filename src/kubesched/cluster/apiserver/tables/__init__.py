"""Tables for `kubectl get`, and PartialObjectMetadata.

The columns are data recorded from a real server; the row modules format the cells.
Upstream: pkg/printers/tablegenerator.go, staging/src/k8s.io/apiserver/pkg/registry/rest/table.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asTable
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.data import read_data
from kubesched.cluster.apiserver.documents import Document, metadata_of, name_of
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.tables.custom_rows import Columns, custom_definitions, custom_row
from kubesched.cluster.apiserver.tables.pod_rows import pod_row_conditions
from kubesched.cluster.apiserver.tables.rows import ROWS

_META: Final = "meta.k8s.io/v1"
_AGE_COLUMN: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def table_of(
    resource: Resource, documents: list[Document], *, include_object: str, now_s: float
) -> Document:
    """Return objects as a Table without metadata; `include_object` is the query parameter."""
    if (resource.group, resource.resource) == ("flowcontrol.apiserver.k8s.io", "flowschemas"):
        documents = sorted(documents, key=_flow_order)
    rows = [_row(resource, document, include_object, now_s) for document in documents]
    has_own = resource.is_custom or _has_columns(resource)
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": {},
        "columnDefinitions": _definitions(resource),
        # Parity: the table of a kind without its own columns has null, not an empty list.
        "rows": rows if rows or has_own else None,
    }


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def partial_metadata(document: Document) -> Document:
    """Return an object with only its metadata."""
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if document.get("kind") == "DaemonSet" and _TEMPLATE_GENERATION in annotations:
        # Parity: upstream converts the internal object, where this is a field of the spec.
        kept = {key: value for key, value in annotations.items() if key != _TEMPLATE_GENERATION}
        metadata = {key: value for key, value in metadata.items() if key != "annotations"}
        if kept:
            metadata["annotations"] = kept
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": metadata}


@lru_cache(maxsize=1)
def _columns() -> dict[str, list[Document]]:
    """Return column definitions by `group/resource`; the key `""` has the default columns."""
    columns: dict[str, list[Document]] = msgspec.json.decode(read_data("columns.json.gz"))
    return columns


def _has_columns(resource: Resource) -> bool:
    return f"{resource.group}/{resource.resource}" in _columns()


def _definitions(resource: Resource) -> list[Document]:
    columns = _columns()
    name, created = columns[""]
    if resource.is_custom:
        own = _custom_columns(resource)
        if own:
            return custom_definitions(name, own)
        age = {**created, "name": "Age"}
        return [name, age]
    return columns.get(f"{resource.group}/{resource.resource}", columns[""])


def _custom_columns(resource: Resource) -> Columns:
    return resource.printer_columns


def _row(resource: Resource, document: Document, include_object: str, now_s: float) -> Document:
    row: Document = {"cells": _cells(resource, document, now_s)}
    if (resource.group, resource.resource) == ("", "pods"):
        conditions = pod_row_conditions(document)
        if conditions:
            row["conditions"] = conditions
    if include_object == "None":
        row["object"] = None
    elif include_object == "Object":
        row["object"] = document
    else:
        row["object"] = partial_metadata(document)
    return row


def _cells(resource: Resource, document: Document, now_s: float) -> list[Any]:
    if resource.is_custom:
        return custom_row(document, _custom_columns(resource) or (_AGE_COLUMN,), now_s)
    own = ROWS.get((resource.group, resource.resource))
    if own is not None and _has_columns(resource):
        return own(document, now_s)
    # Parity: a missing time is Go's zero time.
    created = metadata_of(document).get("creationTimestamp") or "0001-01-01T00:00:00Z"
    return [name_of(document), created]


def _flow_order(document: Document) -> tuple[int, str]:
    precedence = (document.get("spec") or {}).get("matchingPrecedence") or 0
    return (precedence, name_of(document))
