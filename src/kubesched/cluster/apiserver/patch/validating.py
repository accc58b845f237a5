"""Validates the shape of an applied configuration before it is merged.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/{validate,helpers}.go
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.cluster.apiserver.patch.field_sets import FieldSetError, element_text
from kubesched.cluster.apiserver.patch.walkers import ListWalker
from kubesched.golang.fmt import go_syntax, go_type, go_value


class MisshapenError(ValueError):
    """A validation error, with upstream's message."""


def check_shape(
    of: Struct | None, document: dict[str, Any], *, allows_duplicates: bool = False
) -> None:
    """Raise MisshapenError if a document has fields or values its type does not know."""
    if of is None:
        return
    problems = _problems(of, document)
    if allows_duplicates:
        problems = [problem for problem in problems if not problem[1].startswith(_DUPLICATE)]
    if not problems:
        return
    texts = [f"{path}: {text}" if path else text for path, text in problems]
    raise MisshapenError(texts[0] if len(texts) == 1 else "\n  ".join(["errors:", *texts]))


_DUPLICATE: Final = "duplicate entries for key"
_Problems = list[tuple[str, str]]
_NUMBERS: Final = (ScalarKind.INT32, ScalarKind.INT64, ScalarKind.FLOAT)
_STRINGS: Final = (ScalarKind.STRING, ScalarKind.BYTES, ScalarKind.DURATION)


def _problems(of: Type, value: Any) -> _Problems:
    if value is None:
        return []
    if isinstance(of, Scalar):
        return _scalar_problems(of.kind, value)
    if isinstance(of, ListOf):
        return _list_problems(of, value)
    if not isinstance(value, dict):
        return [("", f"expected map, got {_value_text(value)}")]
    if isinstance(of, MapOf):
        return [
            (f".{name}{path}", text)
            for name, part in value.items()
            for path, text in _problems(of.value, part)
        ]
    return _struct_problems(of, value)


def _value_text(value: Any) -> str:
    """Format a value like upstream's value wrapper."""
    return f"&{{{go_value(value)}}}"


def _scalar_problems(kind: ScalarKind, value: Any) -> _Problems:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in _NUMBERS and not is_number:
        return [("", f"expected numeric (int or float), got {go_type(value)}")]
    if kind in _STRINGS and not isinstance(value, str):
        return [("", f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}")]
    if kind is ScalarKind.BOOL and not isinstance(value, bool):
        return [("", f"expected boolean, got {_value_text(value)}")]
    if kind is not ScalarKind.ANY and isinstance(value, dict | list):
        return [("", f"expected any scalar, got {_value_text(value)}")]
    return []


def _struct_problems(of: Struct, value: dict[str, Any]) -> _Problems:
    problems: _Problems = []
    for name, part in value.items():
        field = of.fields.get(name)
        if field is not None:
            problems += [(f".{name}{path}", text) for path, text in _problems(field.type, part)]
        elif not of.keeps_unknown:
            return [*problems, (f".{name}", "field not declared in schema")]
    return problems


def _list_problems(of: ListOf, value: Any) -> _Problems:
    if not isinstance(value, list):
        return [("", f"expected list, got {_value_text(value)}")]
    walker = None if of.list_type == "atomic" else ListWalker(of)
    seen: set[str] = set()
    problems: _Problems = []
    for index, part in enumerate(value):
        name = f"[{index}]"
        if walker is not None:
            try:
                element = walker.element_of(part)
            except FieldSetError as error:
                return [*problems, ("", f"element {index}: {error}")]
            name = element_text(element)
            if element in seen:
                problems.append(("", f"{_DUPLICATE} {name}"))
            seen.add(element)
        problems += [(f"{name}{path}", text) for path, text in _problems(of.element, part)]
    return problems
