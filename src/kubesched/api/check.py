"""Checks of an object beyond the types of its struct.

Checks all quantities and times, and the enumerations that decisions read: a mistyped value would
silently count as none of them. This is not the full validation of an API server.
Upstream: pkg/apis/core/validation/validation.go
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from kubesched.api import affinity
from kubesched.api.errors import MalformedObject, at_key, short_repr
from kubesched.api.meta import KubeResource, LabelSelectorRequirement
from kubesched.api.node import Taint
from kubesched.api.pod import Container, ContainerPort, PodSpec
from kubesched.api.quantity import parse_quantity
from kubesched.api.scheduling import PriorityClass
from kubesched.api.shapes import Shape, shape_of
from kubesched.api.storage import StorageClass
from kubesched.api.times import parse_time
from kubesched.api.wire import QUANTITY, TIME
from kubesched.golang.strconv import go_quote

_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")

_PARSERS: Final[dict[str, Callable[[Any], object]]] = {QUANTITY: parse_quantity, TIME: parse_time}

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES: Final = (None, "Honor", "Ignore")
_PREEMPTION: Final = (None, "PreemptLowerPriority", "Never")

_ENUMERATIONS: Final[dict[type[msgspec.Struct], dict[str, tuple[str | None, ...]]]] = {
    LabelSelectorRequirement: {"operator": _LABEL_OPERATORS},
    Taint: {"effect": _EFFECTS},
    affinity.Toleration: {
        "operator": ("", "Equal", "Exists", "Lt", "Gt"),
        "effect": ("", *_EFFECTS),
    },
    affinity.TopologySpreadConstraint: {
        "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
        "nodeAffinityPolicy": _POLICIES,
        "nodeTaintsPolicy": _POLICIES,
    },
    PodSpec: {"preemptionPolicy": _PREEMPTION},
    Container: {"restartPolicy": (None, "Always", "OnFailure", "Never")},
    ContainerPort: {"protocol": ("", "TCP", "UDP", "SCTP")},
    PriorityClass: {"preemptionPolicy": _PREEMPTION},
    StorageClass: {"volumeBindingMode": (None, "Immediate", "WaitForFirstConsumer")},
}
"""By struct and field, the supported values; an empty one or None stands for a default."""

_WITH_OPERATORS: Final = (LabelSelectorRequirement, affinity.NodeSelectorTerm)
"""Structs that are checked even in stored objects."""


class _InvalidValue(Exception):  # noqa: N818  # Never leaves this module.
    def __init__(self, path: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.path, self.value, self.problem = path, value, problem


def check_object(obj: KubeResource, *, is_stored: bool = False) -> None:
    """Raise MalformedObject for the first invalid value in an object.

    Args:
        obj: the object.
        is_stored: whether an API server has accepted it; a newer one may know more values.
    """
    try:
        if not obj.metadata.name:
            raise _InvalidValue(".metadata.name", "", "Required value: name is required")
        _check_struct(obj, "", is_stored)
    except _InvalidValue as invalid:
        raise MalformedObject(
            kind=obj.kind,
            key=obj.key,
            field=invalid.path.removeprefix("."),
            value=short_repr(invalid.value),
            problem=invalid.problem,
        ) from None


def _check_struct(struct: msgspec.Struct, path: str, is_stored: bool) -> None:
    cls = type(struct)
    if not is_stored or cls in _WITH_OPERATORS:
        fields = shape_of(cls).fields
        for name, supported in _ENUMERATIONS.get(cls, {}).items():
            _check_supported(getattr(struct, fields[name][0]), supported, f"{path}.{name}")
        if cls in _RULES:
            _RULES[cls](struct, path)
    for name, attribute, shape in _checked_fields(cls):
        value = getattr(struct, attribute)
        if value is not None:
            _check(value, shape, f"{path}.{name}", is_stored)


@cache
def _checked_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, Shape], ...]:
    """Return name, attribute and shape of the fields of a struct that are checked."""
    fields = shape_of(cls).fields.items()
    return tuple((name, attr, shape) for name, (attr, shape) in fields if _is_checked(shape))


def _is_checked(shape: Shape) -> bool:
    if shape.cls is not None:
        is_known = shape.cls in _ENUMERATIONS or shape.cls in _RULES
        return is_known or bool(_checked_fields(shape.cls))
    return bool(shape.mark) or (shape.item is not None and _is_checked(shape.item))


def _check(value: Any, shape: Shape, path: str, is_stored: bool) -> None:
    if shape.mark:
        try:
            _PARSERS[shape.mark](value)
        except ValueError as error:
            raise _InvalidValue(path, value, str(error)) from None
    elif shape.cls is not None:
        _check_struct(value, path, is_stored)
    elif shape.item is not None:
        for step, part in value.items() if shape.is_map else enumerate(value):
            if part is not None:
                where = at_key(path, str(step)) if shape.is_map else f"{path}[{step}]"
                _check(part, shape.item, where, is_stored)


def _check_supported(value: str | None, supported: tuple[str | None, ...], path: str) -> None:
    if value not in supported:
        listed = ", ".join(go_quote(choice) for choice in supported if choice)
        raise _InvalidValue(path, value, f"Unsupported value: supported values: {listed}")


def _check_node_term(term: affinity.NodeSelectorTerm, path: str) -> None:
    for name, requirements, supported in (
        ("matchExpressions", term.match_expressions, _NODE_OPERATORS),
        ("matchFields", term.match_fields, _FIELD_OPERATORS),
    ):
        for index, requirement in enumerate(requirements):
            where = f"{path}.{name}[{index}].operator"
            _check_supported(requirement.operator, supported, where)


def _check_constraint(constraint: affinity.TopologySpreadConstraint, path: str) -> None:
    if constraint.max_skew < 1:
        raise _InvalidValue(f"{path}.maxSkew", constraint.max_skew, "must be greater than zero")


_RULES: Final[dict[type[msgspec.Struct], Callable[[Any, str], None]]] = {
    affinity.NodeSelectorTerm: _check_node_term,
    affinity.TopologySpreadConstraint: _check_constraint,
}
