"""Table columns and rows of custom resources (additionalPrinterColumns).

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/
tableconvertor.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.tables.cells import since
from kubesched.cluster.apiserver.tables.json_path import PathError, find

Columns = Sequence[Document]
"""additionalPrinterColumns."""


def custom_definitions(name: Document, columns: Columns) -> list[Document]:
    """Return the columns of a custom resource, the name first."""
    return [name, *(_definition(column) for column in columns)]


def _definition(column: Document) -> Document:
    path = column.get("jsonPath", "")
    described = f"Custom resource definition column (in JSONPath format): {path}"
    return {
        "name": column.get("name", ""),
        "type": column.get("type", ""),
        "format": column.get("format", ""),
        "description": column.get("description") or described,
        "priority": column.get("priority", 0),
    }


def custom_row(document: Document, columns: Columns, now_s: float) -> list[Any]:
    """Return the cells of a custom resource."""
    return [name_of(document), *(_cell(document, column, now_s) for column in columns)]


def _cell(document: Document, column: Document, now_s: float) -> Any:
    try:
        found = find(column.get("jsonPath", ""), document)
    except PathError:
        return None
    if not found:
        return None
    value, kind = found[0], column.get("type")
    if kind == "string":
        return _text(value)
    if value is None:
        return None
    return _typed(value, str(kind), now_s)


def _text(value: Any) -> str:
    if value is None:
        return "<no value>"
    if isinstance(value, dict | list):
        text = msgspec.json.encode(value, order="sorted").decode()
        for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
            text = text.replace(char, escaped)
        return text
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _typed(value: Any, kind: str, now_s: float) -> Any:
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in {"integer", "number"}:
        return (int(value) if kind == "integer" else value) if is_number else None
    if kind == "date" and isinstance(value, str):
        try:
            return since(value, now_s)
        except ValueError:
            return "<invalid>"
    return None
