"""Conversion errors of patched objects, with the messages of upstream's converter.

Strategic merge patch and apply report them; other patches report errors of the JSON decoder.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/converter.go fromUnstructured
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.golang.fmt import go_type

_GO_KINDS: Final = {
    ScalarKind.STRING: "string",
    ScalarKind.BOOL: "bool",
    ScalarKind.INT32: "int32",
    ScalarKind.INT64: "int64",
    ScalarKind.FLOAT: "float64",
}
_PYTHON_TYPES: Final[dict[ScalarKind, tuple[type, ...]]] = {
    ScalarKind.STRING: (str,),
    ScalarKind.BOOL: (bool,),
    ScalarKind.INT32: (int,),
    ScalarKind.INT64: (int,),
    ScalarKind.FLOAT: (int, float),
}


def conversion_problem(of: Type, value: Any) -> str | None:
    """Return the first error, or None; types with custom unmarshalers are not checked."""
    if value is None:
        return None
    if isinstance(of, Scalar):
        return _scalar_problem(of, value)
    if isinstance(of, ListOf):
        if not isinstance(value, list):
            return f"cannot restore slice from {_kind(value)}"
        return _first(of.element, value)
    if isinstance(of, MapOf):
        if not isinstance(value, dict):
            return f"cannot restore map from {_kind(value)}"
        return _first(of.value, list(value.values()))
    return _struct_problem(of, value)


def _first(of: Type, values: list[Any]) -> str | None:
    found = (conversion_problem(of, value) for value in values)
    return next((problem for problem in found if problem is not None), None)


def _struct_problem(of: Struct, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"cannot restore struct from: {_kind(value)}"
    for name, field in of.fields.items():
        if name in value:
            problem = conversion_problem(field.type, value[name])
            if problem is not None:
                return problem
    return None


def _kind(value: Any) -> str:
    """Return the kind of the Go type of decoded JSON."""
    if isinstance(value, dict):
        return "map"
    return "slice" if isinstance(value, list) else go_type(value)


def _scalar_problem(of: Scalar, value: Any) -> str | None:
    if of.kind is ScalarKind.BYTES:
        return _bytes_problem(value)
    go_kind = _GO_KINDS.get(of.kind)
    if go_kind is None or _fits(of.kind, value):
        return None
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    # Go could convert integers to strings and floats to integers; the converter forbids both.
    convertible = is_integer if of.kind is ScalarKind.STRING else isinstance(value, float)
    if convertible and of.kind is not ScalarKind.BOOL:
        return f"cannot convert {go_type(value)} to {of.go or go_kind}"
    return f"unrecognized type: {go_kind}"


def _fits(kind: ScalarKind, value: Any) -> bool:
    if isinstance(value, bool) and kind is not ScalarKind.BOOL:
        return False
    if isinstance(value, float) and value.is_integer() and int in _PYTHON_TYPES[kind]:
        return True
    return isinstance(value, _PYTHON_TYPES[kind])


def _bytes_problem(value: Any) -> str | None:
    if isinstance(value, str | list):
        return None
    return f"cannot restore slice from {_kind(value)}"
