"""What a struct's types cannot say about an object.

Owns the reading of every quantity, time and operator of an object that a user wrote. Never changes
or defaults anything, and never repeats the whole validation of an API server.
Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Self

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


_OPERATED: Final = (LabelSelectorRequirement, affinity.NodeSelectorTerm)


class _Wrong(Exception):  # noqa: N818  # Never leaves this module.
    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.field, self.value, self.problem = field, value, problem

    def under(self, step: str) -> Self:
        """Return this with a path that begins one step further out."""
        self.field = step + self.field
        return self


def check_object(obj: KubeResource) -> None:
    """Raise MalformedObject for the first text in the object that does not parse."""
    try:
        if not obj.metadata.name:
            raise _Wrong(".metadata.name", obj.metadata.name, "Required value: name is required")
        _check_struct(obj, shape_of(type(obj)))
    except _Wrong as wrong:
        raise MalformedObject(
            kind=obj.kind,
            key=obj.key,
            field=wrong.field.removeprefix("."),
            value=short_repr(wrong.value),
            problem=wrong.problem,
        ) from None


@cache
def _parts(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, Shape], ...]:
    """Return the fields of a struct that hold something to check: name, attribute and shape."""
    fields = shape_of(cls).fields.items()
    return tuple((name, attr, shape) for name, (attr, shape) in fields if _is_checked(shape))


def _is_checked(shape: Shape) -> bool:
    if shape.cls is not None:
        return issubclass(shape.cls, _OPERATED) or bool(_parts(shape.cls))
    return bool(shape.mark) or (shape.item is not None and _is_checked(shape.item))


def _check(value: Any, shape: Shape) -> None:
    if shape.mark:
        _check_text(value, shape.mark)
    elif shape.cls is not None:
        _check_struct(value, shape)
    elif shape.item is not None:
        steps = value.items() if shape.is_map else enumerate(value)
        for step, part in steps:
            if part is None:
                continue
            try:
                _check(part, shape.item)
            except _Wrong as wrong:
                where = at_key("", str(step)) if shape.is_map else f"[{step}]"
                raise wrong.under(where) from None


def _check_struct(struct: msgspec.Struct, shape: Shape) -> None:
    if isinstance(struct, LabelSelectorRequirement):
        _check_operator(struct.operator, _LABEL_OPERATORS)
    elif isinstance(struct, affinity.NodeSelectorTerm):
        _check_node_term(struct)
    assert shape.cls is not None, "only structs have fields"
    for name, attribute, part_shape in _parts(shape.cls):
        value = getattr(struct, attribute)
        if value is None:
            continue
        try:
            _check(value, part_shape)
        except _Wrong as wrong:
            raise wrong.under(f".{name}") from None


def _check_node_term(term: affinity.NodeSelectorTerm) -> None:
    for name, requirements, known in (
        ("matchExpressions", term.match_expressions, _NODE_OPERATORS),
        ("matchFields", term.match_fields, _FIELD_OPERATORS),
    ):
        for index, one in enumerate(requirements):
            try:
                _check_operator(one.operator, known)
            except _Wrong as wrong:
                raise wrong.under(f".{name}[{index}]") from None


def _check_operator(operator: str, known: tuple[str, ...]) -> None:
    if operator not in known:
        supported = ", ".join(go_quote(name) for name in known)
        raise _Wrong(".operator", operator, f"Unsupported value: supported values: {supported}")


def _check_text(value: Any, mark: str) -> None:
    try:
        _READERS[mark](value)
    except ValueError as error:
        raise _Wrong("", value, str(error)) from None
