"""What a struct's types cannot say about an object.

Owns the reading of every quantity, time and operator of an object that a user wrote. Never changes
or defaults anything, and never repeats the whole validation of an API server.
Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kubesched.objects import affinity
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.field_errors import go_quote
from kubesched.objects.meta import KubeResource, LabelSelectorRequirement
from kubesched.objects.paths import at_key
from kubesched.objects.quantity import parse_quantity
from kubesched.objects.shapes import Shape, shape_of
from kubesched.objects.times import parse_time
from kubesched.objects.wire import QUANTITY, TIME

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")

_READERS: Final[dict[str, Callable[[Any], object]]] = {QUANTITY: parse_quantity, TIME: parse_time}


class _Wrong(Exception):  # noqa: N818  # Never leaves this module.
    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.field, self.value, self.problem = field, value, problem


def check_object(obj: KubeResource) -> None:
    """Raise MalformedObject for the first text in the object that does not parse."""
    try:
        if not obj.metadata.name:
            raise _Wrong("metadata.name", obj.metadata.name, "Required value: name is required")
        _check_struct(obj, shape_of(type(obj)), "")
    except _Wrong as wrong:
        raise MalformedObject(
            kind=obj.kind,
            key=obj.key,
            field=wrong.field,
            value=short_repr(wrong.value),
            problem=wrong.problem,
        ) from None


def _check(value: Any, shape: Shape, path: str) -> None:
    if value is None:
        return
    if shape.mark:
        _check_text(value, shape.mark, path)
    elif shape.cls is not None:
        _check_struct(value, shape, path)
    elif shape.item is not None and shape.is_map:
        for key, part in value.items():
            _check(part, shape.item, at_key(path, key))
    elif shape.item is not None:
        for index, part in enumerate(value):
            _check(part, shape.item, f"{path}[{index}]")


def _check_struct(struct: msgspec.Struct, shape: Shape, path: str) -> None:
    if isinstance(struct, LabelSelectorRequirement):
        _check_operator(struct.operator, _LABEL_OPERATORS, path)
    elif isinstance(struct, affinity.NodeSelectorTerm):
        _check_node_term(struct, path)
    for name, (attribute, part_shape) in shape.fields.items():
        _check(getattr(struct, attribute), part_shape, f"{path}.{name}" if path else name)


def _check_node_term(term: affinity.NodeSelectorTerm, path: str) -> None:
    for index, one in enumerate(term.match_expressions):
        _check_operator(one.operator, _NODE_OPERATORS, f"{path}.matchExpressions[{index}]")
    for index, one in enumerate(term.match_fields):
        _check_operator(one.operator, _FIELD_OPERATORS, f"{path}.matchFields[{index}]")


def _check_operator(operator: str, known: tuple[str, ...], path: str) -> None:
    if operator not in known:
        supported = ", ".join(go_quote(name) for name in known)
        raise _Wrong(
            f"{path}.operator", operator, f"Unsupported value: supported values: {supported}"
        )


def _check_text(value: Any, mark: str, path: str) -> None:
    try:
        _READERS[mark](value)
    except ValueError as error:
        raise _Wrong(path, value, str(error)) from None
