"""Shapes of wire structs, and documents brought into their shape.

Go's meaning of null, and the keys and dates of YAML, are resolved along the shape of a struct;
values of the wrong type stay in place, for `decode` to report.
Upstream: sigs.k8s.io/json and sigs.k8s.io/yaml, as used by the API machinery
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect


@dataclass(frozen=True, slots=True)
class Shape:
    """A struct (with `fields`), a list or map (with `item`), or a leaf.

    `mark` is the format of a text leaf; `zero` is Go's zero value as JSON.
    """

    zero: Any
    cls: type[msgspec.Struct] | None = None
    fields: dict[str, tuple[str, "Shape"]] = field(default_factory=dict)
    item: "Shape | None" = None
    is_map: bool = False
    mark: str = ""


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape:
    """Return the shape of a struct type, cached."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    fields = {
        info_field.encode_name: (info_field.name, _shape(info_field.type))
        for info_field in info.fields
    }
    return Shape(zero={}, cls=cls, fields=fields)


_ZEROS: dict[type[inspect.Type], Any] = {
    inspect.StrType: "",
    inspect.IntType: 0,
    inspect.FloatType: 0,
    inspect.BoolType: False,
}
_MARKED_ZEROS = {"quantity": "0", "time": "0001-01-01T00:00:00Z"}


def _shape(info: inspect.Type, mark: str = "") -> Shape:
    if isinstance(info, inspect.Metadata):
        return _shape(info.type, (info.extra or {}).get("text", mark))
    if isinstance(info, inspect.UnionType):
        return _union_shape(info, mark)
    if isinstance(info, inspect.StructType):
        return shape_of(info.cls)
    if isinstance(info, inspect.VarTupleType):
        return Shape(zero=[], item=_shape(info.item_type))
    if isinstance(info, inspect.DictType):
        return Shape(zero={}, item=_shape(info.value_type), is_map=True)
    return Shape(zero=_MARKED_ZEROS.get(mark, _ZEROS.get(type(info))), mark=mark)


def _union_shape(info: inspect.UnionType, mark: str) -> Shape:
    present = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    # A union of several types is always one of plain texts and numbers here.
    return _shape(present[0], mark)


def without_nulls(value: Any, shape: Shape) -> Any:
    """Return the value without nulls: a field is absent, an element or entry is zero."""
    if shape.fields and isinstance(value, Mapping):
        return {
            name: without_nulls(part, shape.fields[name][1])
            for name, part in value.items()
            if part is not None and isinstance(name, str) and name in shape.fields
        }
    if shape.item is not None and shape.is_map and isinstance(value, Mapping):
        return {_key_text(key): _element(part, shape.item) for key, part in value.items()}
    if shape.item is not None and isinstance(value, list | tuple):
        return [_element(part, shape.item) for part in value]
    if shape.mark and isinstance(value, date):
        return _time_text(value)
    return value


def _element(part: Any, shape: Shape) -> Any:
    return shape.zero if part is None else without_nulls(part, shape)


def _key_text(key: Any) -> Any:
    """Return a key as JSON has it: YAML reads `1: a` with a number as the key."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def _time_text(value: date) -> str:
    """Return the text of a date that a YAML reader has parsed."""
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.tzinfo is None:
        return value.isoformat() + "Z"
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
