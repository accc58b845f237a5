"""Documents brought into canonical form, as Go's decoder and encoder would.

In canonical form, unknown fields are dropped, zero values are omitted or always present as in Go,
and scalars are canonical. Errors have Go's text. Defaults are applied by the kinds, not here.
Upstream: sigs.k8s.io/json (a fork of Go's encoding/json),
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.api.documents import Document
from kubesched.api.schema.load import named_schema
from kubesched.api.schema.scalars import Malformed, Unfit, reader_of, zero_of
from kubesched.api.schema.types import Field, ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.golang.json import json_type
from kubesched.golang.strconv import go_quote

# Upstream stops counting strict errors here.
_PROBLEMS_MAX: Final = 100


@dataclass(slots=True)
class Conformed:
    """A document in canonical form, and messages about dropped fields."""

    document: Document
    problems: list[str] = field(default_factory=list)
    is_custom: bool = False
    """Whether it is an instance of a custom kind."""


class WrongTypeError(Exception):
    """A value that its Go type cannot hold; the text is the decoder's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def conform_or_raise(schema: Struct, raw: Document) -> Conformed:
    """Return a document in canonical form; WrongTypeError if a type is wrong."""
    conformer = schema.conformer
    if conformer is None:
        conformer = schema.conformer = _whole(schema)
    try:
        conformed: Conformed = conformer(raw)
    except RecursionError as error:
        raise WrongTypeError("exceeded max depth") from error
    _keep_reset(raw, conformed.document)
    return conformed


def _keep_reset(raw: Document, document: Document) -> None:
    """Keep an empty list of managers: Go distinguishes it from null, and it resets the managers."""
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        document["metadata"]["managedFields"] = []


def strict_decoding_error(problems: list[str]) -> str:
    """Return the error text of problems under strict validation."""
    return f"strict decoding error: {', '.join(problems)}"


class _Reading:
    """One pass over a document: its position and its findings."""

    __slots__ = ("first_error", "is_muted", "path", "problems", "root", "seen")

    def __init__(self, root: Struct) -> None:
        self.root = root
        # Names of fields as str, indexes as int, keys of maps as a tuple of one.
        self.path: list[Any] = []
        self.problems: list[str] = []
        self.seen: set[str] = set()
        self.first_error: str | None = None
        self.is_muted = 0

    def unknown(self, name: str) -> None:
        """Record a field that the type lacks."""
        if self.is_muted or len(self.problems) >= _PROBLEMS_MAX:
            return
        text = f"unknown field {go_quote(self._shown_path(name))}"
        if text not in self.seen:
            self.seen.add(text)
            self.problems.append(text)

    def _shown_path(self, name: str) -> str:
        shown = ""
        for step in [*self.path, name]:
            if isinstance(step, int):
                shown += f"[{step}]"
            else:
                part = step[0] if isinstance(step, tuple) else step
                shown += f".{part}" if shown else part
        return shown

    def unfit(self, unfit: Unfit | Malformed) -> None:
        """Record a value of the wrong type, and stop where the decoder would."""
        if isinstance(unfit, Malformed):
            text = unfit.text
        else:
            place = _go_place(self.root, self.path)
            text = f"json: cannot unmarshal {unfit.value} into Go {place} of type {unfit.go}"
        if unfit.is_final:
            raise WrongTypeError(text)
        if self.first_error is None:
            self.first_error = text


def _go_place(root: Struct, path: list[Any]) -> str:
    """Return Go's name of a place: the struct of the last field, and the path of fields."""
    owner = ""
    names: list[str] = []
    at: Type = root
    for step in path:
        if isinstance(at, Scalar):
            at = named_schema("apiextensions/v1.JSONSchemaProps")
        if isinstance(at, Struct):
            field_ = at.fields[step]
            owner = at.name
            names += [field_.via, step] if field_.via else [step]
            at = field_.type
        else:
            at = at.element if isinstance(at, ListOf) else at.value
    return f"struct field {owner}.{'.'.join(names)}" if names else "value"


Shaper = Callable[[Any, _Reading], Any]
"""Shapes a value that is not null."""


def _whole(schema: Struct) -> Callable[[Document], Conformed]:
    shape = _shaper(schema, {})

    def run(raw: Document) -> Conformed:
        reading = _Reading(schema)
        document = shape(raw, reading)
        if reading.first_error is not None:
            raise WrongTypeError(reading.first_error)
        return Conformed(document, reading.problems)

    return run


_NOTHING: Final = object()
"""Marks an omitted value; as a comparison value, equals nothing."""


Members = dict[str, tuple[Shaper, Any, Any]]
"""By field name: the shaper, the result for null, and the result to omit."""
Always = list[tuple[str, Any, Shaper | None]]
"""Fields that are written even if absent: their zero, or the shaper of an empty struct."""


def _shaper(schema: Type, shapers: dict[int, Shaper]) -> Shaper:
    if isinstance(schema, Struct):
        return shapers.get(id(schema)) or _struct_shaper(schema, shapers)
    if isinstance(schema, ListOf):
        return _list_shaper(schema, shapers)
    if isinstance(schema, MapOf):
        return _map_shaper(schema, shapers)
    return _schema_shaper(schema, shapers) if schema.go in _SCHEMA_OR else _leaf_shaper(schema)


def _struct_shaper(schema: Struct, shapers: dict[int, Shaper]) -> Shaper:
    members: Members = {}
    always: Always = []

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not dict:
            reading.unfit(Unfit(json_type(raw), schema.go))
            return {}
        shaped: Document = {}
        path = reading.path
        for key, value in raw.items():
            member = members.get(key)
            if member is None:
                reading.unknown(key)
                continue
            shape_member, result, left_out = member
            if value is not None:
                path.append(key)
                result = shape_member(value, reading)
                path.pop()
            if result is not _NOTHING and result != left_out:
                shaped[key] = result
        for name, zero, make in always:
            if name not in shaped:
                shaped[name] = zero if make is None else make({}, reading)
        return shaped

    shapers[id(schema)] = shape
    for name, member in schema.fields.items():
        members[name] = _planned(name, member, always, shapers)
    return shape


def _planned(
    name: str, member: Field, always: Always, shapers: dict[int, Shaper]
) -> tuple[Shaper, Any, Any]:
    """Return how Go treats a field that is set, null, empty or absent."""
    schema = member.type
    shape = _shaper(schema, shapers)
    is_omitted, left_out, null = member.omit_empty, None, _NOTHING
    zero, make = None, None
    if member.is_pointer:
        null, left_out = (_NOTHING if is_omitted else None), _NOTHING
    elif isinstance(schema, Struct):
        # Go writes a struct regardless of omitempty, unless omitzero drops it.
        is_omitted, left_out, make = member.omit_zero, {}, shape
    elif isinstance(schema, Scalar) and schema.go not in _SCHEMA_OR:
        zero = zero_of(schema)
        # omitempty applies to strings, numbers, booleans and lists; other scalars are structs.
        is_omitted = member.omit_zero or (member.omit_empty and schema.kind in _OMITTED)
        left_out = "" if schema.kind is ScalarKind.BYTES else zero
    if not is_omitted:
        left_out = _NOTHING
        always.append((name, zero, make))
    return shape, null, left_out


_OMITTED: Final = {
    ScalarKind.STRING, ScalarKind.BOOL, ScalarKind.INT32, ScalarKind.INT64, ScalarKind.FLOAT,
    ScalarKind.BYTES,
}  # fmt: skip


def _leaf_shaper(schema: Scalar) -> Shaper:
    read = reader_of(schema)

    def shape(raw: Any, reading: _Reading) -> Any:
        try:
            return read(raw)
        except (Unfit, Malformed) as unfit:
            reading.unfit(unfit)
            return _NOTHING

    return shape


def _list_shaper(schema: ListOf, shapers: dict[int, Shaper]) -> Shaper:
    shape_element = _shaper(schema.element, shapers)
    is_struct = isinstance(schema.element, Struct)
    zero = zero_of(schema.element) if isinstance(schema.element, Scalar) else None

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not list:
            reading.unfit(Unfit(json_type(raw), schema.go))
            return None
        shaped = []
        path = reading.path
        for index, value in enumerate(raw):
            result = zero
            if value is not None or is_struct:
                path.append(index)
                result = shape_element({} if value is None else value, reading)
                path.pop()
            if result is not _NOTHING:
                shaped.append(result)
        # The API server's storage does not keep empty lists.
        return shaped or None

    return shape


def _map_shaper(schema: MapOf, shapers: dict[int, Shaper]) -> Shaper:
    shape_value = _shaper(schema.value, shapers)
    is_struct = isinstance(schema.value, Struct)
    zero: Any = []
    if isinstance(schema.value, Scalar):
        zero = "" if schema.value.kind is ScalarKind.BYTES else zero_of(schema.value)

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not dict:
            reading.unfit(Unfit(json_type(raw), schema.go))
            return None
        shaped = {}
        path = reading.path
        for key, value in raw.items():
            result = None
            if value is not None or is_struct:
                path.append((key,))
                result = shape_value({} if value is None else value, reading)
                path.pop()
            if result is not _NOTHING:
                shaped[key] = zero if result is None else result
        return shaped or None

    return shape


_SCHEMA_OR: Final = {
    "v1.JSONSchemaPropsOrArray",
    "v1.JSONSchemaPropsOrBool",
    "v1.JSONSchemaPropsOrStringArray",
}


def _schema_shaper(schema: Scalar, shapers: dict[int, Shaper]) -> Shaper:
    """Return the shaper of a leaf of a CustomResourceDefinition that holds schemas."""
    shape_schema = _shaper(named_schema("apiextensions/v1.JSONSchemaProps"), shapers)
    takes_bool = schema.go == "v1.JSONSchemaPropsOrBool"
    takes_schemas = schema.go == "v1.JSONSchemaPropsOrArray"

    def shape(raw: Any, reading: _Reading) -> Any:
        if takes_bool and type(raw) is bool:
            return raw
        if takes_bool and type(raw) is not dict:
            raise WrongTypeError("boolean or JSON schema expected")
        # These types have decoders of their own, which report no unknown fields.
        reading.is_muted += 1
        try:
            if type(raw) is dict:
                return shape_schema(raw, reading)
            if type(raw) is list and takes_schemas:
                return [shape_schema(item, reading) for item in raw] or None
            return raw if type(raw) is list else None
        finally:
            reading.is_muted -= 1

    return shape
