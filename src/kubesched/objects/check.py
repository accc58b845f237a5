"""What a struct's types cannot say about an object.

Owns the reading of every quantity and time of an object that a user wrote, and of every word on
which a decision turns and which has few values: a mistyped one would count as none of them. Never
changes or defaults anything, and never repeats the whole validation of an API server.
Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, Self

import msgspec

from kubesched.objects import affinity
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.field_errors import go_quote
from kubesched.objects.meta import KubeResource, LabelSelectorRequirement
from kubesched.objects.node import Taint
from kubesched.objects.paths import at_key
from kubesched.objects.pod import Container, ContainerPort, PodSpec
from kubesched.objects.quantity import parse_quantity
from kubesched.objects.scheduling import PriorityClass
from kubesched.objects.shapes import Shape, shape_of
from kubesched.objects.storage import StorageClass
from kubesched.objects.times import parse_time
from kubesched.objects.wire import QUANTITY, TIME

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")

_READERS: Final[dict[str, Callable[[Any], object]]] = {QUANTITY: parse_quantity, TIME: parse_time}


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES: Final = (None, "Honor", "Ignore")
_PREEMPTION: Final = (None, "PreemptLowerPriority", "Never")

_WORDS: Final[dict[type[msgspec.Struct], dict[str, tuple[str | None, ...]]]] = {
    LabelSelectorRequirement: {"operator": _LABEL_OPERATORS},
    Taint: {"effect": _EFFECTS},
    affinity.Toleration: {
        "operator": ("", "Equal", "Exists", "Lt", "Gt"),
        "effect": ("", *_EFFECTS),
    },
    affinity.TopologySpreadConstraint: {
        "when_unsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
        "node_affinity_policy": _POLICIES,
        "node_taints_policy": _POLICIES,
    },
    PodSpec: {"preemption_policy": _PREEMPTION},
    Container: {"restart_policy": (None, "Always", "OnFailure", "Never")},
    ContainerPort: {"protocol": ("", "TCP", "UDP", "SCTP")},
    PriorityClass: {"preemption_policy": _PREEMPTION},
    StorageClass: {"volume_binding_mode": (None, "Immediate", "WaitForFirstConsumer")},
}
"""By struct and attribute, the values there are; an empty one or None stands for a default."""


_OPERATED: Final = (LabelSelectorRequirement, affinity.NodeSelectorTerm)
"""Operators nobody can do without, whoever wrote them."""


class _Wrong(Exception):  # noqa: N818  # Never leaves this module.
    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.field, self.value, self.problem = field, value, problem

    def under(self, step: str) -> Self:
        """Return this with a path that begins one step further out."""
        self.field = step + self.field
        return self


def check_object(obj: KubeResource, *, is_stored: bool = False) -> None:
    """Raise MalformedObject for the first text in the object that does not parse.

    Args:
        obj: the object.
        is_stored: an API server has it: a word that is not known here may be one of a newer one.
    """
    try:
        if not obj.metadata.name:
            raise _Wrong(".metadata.name", obj.metadata.name, "Required value: name is required")
        _check_struct(obj, shape_of(type(obj)), is_stored)
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


class _Words:
    """The fields of a struct that have few values."""

    def __init__(self, cls: type[msgspec.Struct], known: dict[str, tuple[str | None, ...]]) -> None:
        names = {attribute: name for name, (attribute, _) in shape_of(cls).fields.items()}
        self._known = {names[attribute]: values for attribute, values in known.items()}
        self._values_of = attrgetter(*known)
        # A cluster has the same few everywhere: whatever was found right is not looked at again.
        self._right: set[object] = set()

    def check(self, struct: msgspec.Struct) -> None:
        """Raise _Wrong for the first that has none of its values."""
        values = self._values_of(struct)
        if values in self._right:
            return
        given = (values,) if len(self._known) == 1 else values
        for (name, known), value in zip(self._known.items(), given, strict=True):
            _check_word(name, value, known)
        self._right.add(values)


@cache
def _words(cls: type[msgspec.Struct]) -> _Words | None:
    known = _WORDS.get(cls)
    return None if known is None else _Words(cls, known)


def _is_checked(shape: Shape) -> bool:
    if shape.cls is not None:
        return shape.cls in _WORDS or shape.cls in _RULES or bool(_parts(shape.cls))
    return bool(shape.mark) or (shape.item is not None and _is_checked(shape.item))


def _check(value: Any, shape: Shape, is_stored: bool) -> None:
    if shape.mark:
        _check_text(value, shape.mark)
    elif shape.cls is not None:
        _check_struct(value, shape, is_stored)
    elif shape.item is not None:
        steps = value.items() if shape.is_map else enumerate(value)
        for step, part in steps:
            if part is None:
                continue
            try:
                _check(part, shape.item, is_stored)
            except _Wrong as wrong:
                where = at_key("", str(step)) if shape.is_map else f"[{step}]"
                raise wrong.under(where) from None


def _check_struct(struct: msgspec.Struct, shape: Shape, is_stored: bool) -> None:
    assert shape.cls is not None, "only structs have fields"
    if not is_stored or shape.cls in _OPERATED:
        words = _words(shape.cls)
        if words is not None:
            words.check(struct)
        rule = _RULES.get(shape.cls)
        if rule is not None:
            rule(struct)
    for name, attribute, part_shape in _parts(shape.cls):
        value = getattr(struct, attribute)
        if value is None:
            continue
        try:
            _check(value, part_shape, is_stored)
        except _Wrong as wrong:
            raise wrong.under(f".{name}") from None


def _check_node_term(term: affinity.NodeSelectorTerm) -> None:
    for name, requirements, known in (
        ("matchExpressions", term.match_expressions, _NODE_OPERATORS),
        ("matchFields", term.match_fields, _FIELD_OPERATORS),
    ):
        for index, one in enumerate(requirements):
            try:
                _check_word("operator", one.operator, known)
            except _Wrong as wrong:
                raise wrong.under(f".{name}[{index}]") from None


def _check_constraint(constraint: affinity.TopologySpreadConstraint) -> None:
    if constraint.max_skew < 1:
        raise _Wrong(".maxSkew", constraint.max_skew, "must be greater than zero")


_RULES: Final[dict[type[msgspec.Struct], Callable[[Any], None]]] = {
    affinity.NodeSelectorTerm: _check_node_term,
    affinity.TopologySpreadConstraint: _check_constraint,
}


def _check_word(name: str, value: str | None, known: tuple[str | None, ...]) -> None:
    if value not in known:
        supported = ", ".join(go_quote(word) for word in known if word)
        raise _Wrong(f".{name}", value, f"Unsupported value: supported values: {supported}")


def _check_text(value: Any, mark: str) -> None:
    try:
        _READERS[mark](value)
    except ValueError as error:
        raise _Wrong("", value, str(error)) from None
