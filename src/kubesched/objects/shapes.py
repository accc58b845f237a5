"""The shape of a wire struct: its fields, lists, maps and marked texts.

Owns what `nulls` and `check` need to walk JSON beside a type. Never walks it.
Upstream: none; Go reflects on its types where this looks at ours.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect


@dataclass(frozen=True, slots=True)
class Shape:
    """A struct (with `fields`), a list or map (with `item`), or a leaf.

    `mark` says what the text of a leaf must parse as; `zero` is Go's zero value as JSON.
    """

    zero: Any
    cls: type[msgspec.Struct] | None = None
    fields: dict[str, tuple[str, "Shape"]] = field(default_factory=dict)
    item: "Shape | None" = None
    is_map: bool = False
    mark: str = ""


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape:
    """Return the shape of a struct type, worked out once."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    fields = {one.encode_name: (one.name, _shape(one.type)) for one in info.fields}
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
    present = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    # A union of several types is always one of plain texts and numbers here.
    return _shape(present[0], mark)
