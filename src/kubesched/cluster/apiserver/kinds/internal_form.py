"""Documents in kube-apiserver's internal form, as shown in some error messages.

Go's field names and zero values, and diffs of two documents.
Upstream: pkg/apis/core/types.go, staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go,
staging/src/k8s.io/apimachinery/pkg/api/equality/semantic.go
"""

from __future__ import annotations

import difflib
import gzip
import json
from functools import cache
from importlib import resources
from typing import Any

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import InOrder

_ESCAPES = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip
# Parity: pkg/apis/core/v1/conversion.go Convert_v1_PodSpec_To_core_PodSpec, v1.36
_OF_SECURITY_CONTEXT = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS = {"string": "", "bool": False, "int": 0, "quantity": "0", "any": 0, "time": None}

Shape = list[tuple[str, str, str, bool]]


@cache
def _shapes() -> dict[str, Shape]:
    packed = resources.files("kubesched.cluster.apiserver").joinpath("data/internal_types.json.gz")
    shapes: dict[str, Shape] = json.loads(gzip.decompress(packed.read_bytes()))
    return shapes


def internal_form(type_name: str, document: Document) -> InOrder:
    """Return a document with the field names, field order and zero values of the internal type."""
    if type_name == "PodSpec":
        document = _with_security_context(document)
    result = InOrder()
    for name, key, kind, omits_empty in _shapes()[type_name]:
        value = document.get(key)
        if omits_empty and not value:
            continue
        result[name] = _form(kind, value)
    return result


def _with_security_context(spec: Document) -> Document:
    context = dict(spec.get("securityContext") or {})
    for name in _OF_SECURITY_CONTEXT:
        if spec.get(name) is not None:
            context[name] = spec[name]
    return {**spec, "securityContext": context}


def _form(kind: str, value: Any) -> Any:
    if kind[0] == "*":
        return None if value is None else _form(kind[1:], value)
    if kind.startswith("[]"):
        return [_form(kind[2:], one) for one in value] if value else None
    if kind.startswith("{}"):
        return {key: _form(kind[2:], value[key]) for key in sorted(value)} if value else None
    if kind in _ZEROS:
        return _ZEROS[kind] if value is None else value
    return internal_form(kind, value or {})


def internal_diff(type_name: str, old: Document, new: Document) -> str:
    """Return the unified diff of two documents in their internal form."""
    lines = difflib.unified_diff(
        _lines(internal_form(type_name, old)), _lines(internal_form(type_name, new)), n=3
    )
    return "".join(line for line in lines if line not in {"--- \n", "+++ \n"})


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False).translate(_ESCAPES)
    return [f"{line}\n" for line in text.split("\n")]


def is_same(type_name: str, first: Document | None, second: Document | None) -> bool:
    """Return whether two documents are semantically equal: absent is empty, 1000m is 1."""
    if first == second:
        return True
    if first is None or second is None:
        return not first and not second
    return _is_same_struct(type_name, first, second)


def _is_same_struct(type_name: str, first: Document, second: Document) -> bool:
    if type_name == "PodSpec":
        first, second = _with_security_context(first), _with_security_context(second)
    return all(
        _is_same(kind, first.get(key), second.get(key)) for _, key, kind, _ in _shapes()[type_name]
    )


def _is_same(kind: str, first: Any, second: Any) -> bool:
    if first == second:
        return True
    if kind[0] == "*":
        if first is None or second is None:
            return False
        return _is_same(kind[1:], first, second)
    if kind.startswith("[]"):
        first, second = first or [], second or []
        return len(first) == len(second) and all(
            _is_same(kind[2:], *pair) for pair in zip(first, second, strict=True)
        )
    if kind.startswith("{}"):
        first, second = first or {}, second or {}
        return first.keys() == second.keys() and all(
            _is_same(kind[2:], first[key], second[key]) for key in first
        )
    if kind == "quantity":
        return parse_quantity(first or "0") == parse_quantity(second or "0")
    if kind in _ZEROS:
        return not first and not second
    return _is_same_struct(kind, first or {}, second or {})
