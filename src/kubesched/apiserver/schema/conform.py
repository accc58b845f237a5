"""Giving a document the shape of its type, as Go's decoder and encoder would.

Owns the canonical form (unknown fields gone, zero values left out or always there, leaves
canonical) and the texts of what does not fit. Never fills in a default: that is the kind's.
Upstream: sigs.k8s.io/json (a fork of Go's encoding/json),
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.apiserver.documents import Document
from kubesched.apiserver.errors import bad_request
from kubesched.apiserver.schema.load import named_schema
from kubesched.apiserver.schema.scalars import Malformed, Unfit, json_name, reader_of, zero_of
from kubesched.apiserver.schema.types import Field, ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.objects.field_errors import go_quote

# Upstream stops counting strict errors here.
_PROBLEMS_MAX: Final = 100


@dataclass(slots=True)
class Conformed:
    """A document in canonical form, and the texts of what was left out of it."""

    document: Document
    problems: list[str] = field(default_factory=list)
    is_custom: bool = False
    """Whether it is an instance of a custom kind."""


class WrongTypeError(Exception):
    """A value that its Go type cannot hold; the text is the decoder's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def conform(schema: Struct, raw: Document) -> Conformed:
    """Return a document of a request in canonical form; BadRequest if a type is wrong."""
    try:
        return conform_or_raise(schema, raw)
    except WrongTypeError as wrong:
        raise cannot_be_handled(schema.name, raw, wrong.text) from wrong


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
    """Keep an empty list of managers: to Go it is not null, and asks to forget them."""
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        document["metadata"]["managedFields"] = []


def cannot_be_handled(kind: str, raw: Document, why: str) -> Exception:
    """Return the BadRequest for a body that was understood, and is not what it should be."""
    given = raw.get("kind") or kind
    version = str(raw.get("apiVersion") or "v1").rpartition("/")[2]
    message = f"{given} in version {go_quote(version)} cannot be handled as a {kind}: {why}"
    return bad_request(message)


def strict_decoding_error(problems: list[str]) -> str:
    """Return the text of problems that are taken for an error."""
    return f"strict decoding error: {', '.join(problems)}"


class _Reading:
    """One reading of one document: where it is, and what it found."""

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
        """Note a field that the type does not have."""
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

    def unfit(self, unfit: Unfit | Malformed, name: str | None = None) -> None:
        """Note a value that does not fit, and stop where the decoder would."""
        if isinstance(unfit, Malformed):
            text = unfit.text
        else:
            path = self.path if name is None else [*self.path, name]
            place = _go_place(self.root, path)
            text = f"json: cannot unmarshal {unfit.value} into Go {place} of type {unfit.go}"
        if unfit.is_final:
            raise WrongTypeError(text)
        if self.first_error is None:
            self.first_error = text


def _go_place(root: Struct, path: list[Any]) -> str:
    """Return how Go names a place: the struct with the last field, and all fields to it."""
    owner = ""
    names: list[str] = []
    at: Type = root
    for step in path:
        if isinstance(at, Scalar):
            at = named_schema("apiextensions/v1.JSONSchemaProps")
        if isinstance(at, Struct):
            found = at.fields[step]
            owner = at.name
            names += [found.via, step] if found.via else [step]
            at = found.type
        else:
            at = at.element if isinstance(at, ListOf) else at.value
    return f"struct field {owner}.{'.'.join(names)}" if names else "value"


Shaper = Callable[[Any, _Reading], Any]
"""Shapes a value that is not null."""
Member = Callable[[str, Any, _Reading], Any]
"""Shapes the value of the named field."""


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
"""Stands for a value that is left out, and where it is compared, for one that nothing equals."""


class _Plan:
    """What is to be done with the fields of one struct."""

    __slots__ = ("always", "members")

    def __init__(self) -> None:
        # By name: how to shape a value, what null becomes, which result is left out.
        self.members: dict[str, tuple[Member, Any, Any]] = {}
        # What is there even if the document does not have it; a shaper makes an empty struct.
        self.always: list[tuple[str, Any, Shaper | None]] = []


def _shaper(schema: Type, made: dict[int, Shaper]) -> Shaper:
    if isinstance(schema, Struct):
        return _struct_shaper(schema, made)
    if isinstance(schema, ListOf):
        return _list_shaper(schema, made)
    if isinstance(schema, MapOf):
        return _map_shaper(schema, made)
    return _scalar_shaper(schema, made)


def _struct_shaper(schema: Struct, made: dict[int, Shaper]) -> Shaper:
    known = made.get(id(schema))
    if known is not None:
        return known
    plan = _Plan()

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not dict:
            reading.unfit(Unfit(json_name(raw), schema.go))
            return {}
        shaped: Document = {}
        members = plan.members
        for key, value in raw.items():
            member = members.get(key)
            if member is None:
                reading.unknown(key)
                continue
            shape_member, null, left_out = member
            result = null if value is None else shape_member(key, value, reading)
            if result is not _NOTHING and result != left_out:
                shaped[key] = result
        for name, zero, make in plan.always:
            if name not in shaped:
                shaped[name] = zero if make is None else make({}, reading)
        return shaped

    made[id(schema)] = shape
    for name, member in schema.fields.items():
        _plan_field(plan, name, member, made)
    return shape


def _plan_field(plan: _Plan, name: str, member: Field, made: dict[int, Shaper]) -> None:
    """Work out what Go does with a field that is there, null, empty or absent."""
    schema = member.type
    leaf = schema if isinstance(schema, Scalar) and not _is_schema_or_other(schema) else None
    if leaf is not None and not member.is_pointer:
        _plan_leaf(plan, name, member, leaf)
        return
    shape = _shaper(schema, made)
    shape_member = _leaf_member(reader_of(leaf)) if leaf is not None else _nested_member(shape)
    if member.is_pointer:
        null, left_out = (_NOTHING if member.omit_empty else None), _NOTHING
    elif isinstance(schema, Struct):
        # A struct is always written, whatever the tag says, unless it is left out for its zero.
        null, left_out = _NOTHING, ({} if member.omit_zero else _NOTHING)
        if not member.omit_zero:
            plan.always.append((name, None, shape))
    else:
        null, left_out = _NOTHING, (None if member.omit_empty else _NOTHING)
    plan.members[name] = (shape_member, null, left_out)
    if not member.omit_empty and (member.is_pointer or not isinstance(schema, Struct)):
        plan.always.append((name, None, None))


def _plan_leaf(plan: _Plan, name: str, member: Field, schema: Scalar) -> None:
    zero = zero_of(schema)
    # Go leaves out an empty string, number, bool or list; the others are structs to it.
    is_omitted = member.omit_zero or (member.omit_empty and schema.kind in _OMITTED)
    left_out: Any = _NOTHING
    if is_omitted:
        left_out = "" if schema.kind is ScalarKind.BYTES else zero
    else:
        plan.always.append((name, zero, None))
    plan.members[name] = (_leaf_member(reader_of(schema)), _NOTHING, left_out)


def _leaf_member(read: Callable[[Any], Any]) -> Member:
    def shape(name: str, value: Any, reading: _Reading) -> Any:
        try:
            return read(value)
        except (Unfit, Malformed) as unfit:
            reading.unfit(unfit, name)
            return _NOTHING

    return shape


def _nested_member(shape_value: Shaper) -> Member:
    def shape(name: str, value: Any, reading: _Reading) -> Any:
        reading.path.append(name)
        result = shape_value(value, reading)
        reading.path.pop()
        return result

    return shape


_OMITTED: Final = {
    ScalarKind.STRING, ScalarKind.BOOL, ScalarKind.INT32, ScalarKind.INT64, ScalarKind.FLOAT,
    ScalarKind.BYTES,
}  # fmt: skip


def _list_shaper(schema: ListOf, made: dict[int, Shaper]) -> Shaper:
    element = schema.element
    go = schema.go
    if isinstance(element, Scalar):
        return _leaf_list_shaper(go, reader_of(element), zero_of(element))
    shape_element = _shaper(element, made)
    empty: Any = {} if isinstance(element, Struct) else None

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not list:
            reading.unfit(Unfit(json_name(raw), go))
            return None
        shaped = []
        path = reading.path
        for index, value in enumerate(raw):
            path.append(index)
            shaped.append(shape_element(empty if value is None else value, reading))
            path.pop()
        # An empty list does not come back from where the real server stores it.
        return shaped or None

    return shape


def _leaf_list_shaper(go: str, read: Callable[[Any], Any], zero: Any) -> Shaper:
    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not list:
            reading.unfit(Unfit(json_name(raw), go))
            return None
        shaped = []
        for value in raw:
            try:
                shaped.append(zero if value is None else read(value))
            except (Unfit, Malformed) as unfit:
                reading.unfit(unfit)
        return shaped or None

    return shape


def _map_shaper(schema: MapOf, made: dict[int, Shaper]) -> Shaper:
    value_type = schema.value
    go = schema.go
    if isinstance(value_type, Scalar):
        zero = "" if value_type.kind is ScalarKind.BYTES else zero_of(value_type)
        return _leaf_map_shaper(go, reader_of(value_type), zero)
    shape_value = _shaper(value_type, made)
    empty: Any = {} if isinstance(value_type, Struct) else []

    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not dict:
            reading.unfit(Unfit(json_name(raw), go))
            return None
        shaped = {}
        path = reading.path
        for key, value in raw.items():
            path.append((key,))
            result = shape_value(empty if value is None else value, reading)
            shaped[key] = empty if result is None else result
            path.pop()
        return shaped or None

    return shape


def _leaf_map_shaper(go: str, read: Callable[[Any], Any], zero: Any) -> Shaper:
    def shape(raw: Any, reading: _Reading) -> Any:
        if type(raw) is not dict:
            reading.unfit(Unfit(json_name(raw), go))
            return None
        shaped = {}
        for key, value in raw.items():
            try:
                shaped[key] = zero if value is None else read(value)
            except (Unfit, Malformed) as unfit:
                reading.unfit(unfit)
        return shaped or None

    return shape


_SCHEMA_OR: Final = {
    "v1.JSONSchemaPropsOrArray",
    "v1.JSONSchemaPropsOrBool",
    "v1.JSONSchemaPropsOrStringArray",
}


def _is_schema_or_other(schema: Scalar) -> bool:
    return schema.go in _SCHEMA_OR


def _scalar_shaper(schema: Scalar, made: dict[int, Shaper]) -> Shaper:
    """Return the shaper of a leaf, or of those of a CustomResourceDefinition that hold schemas."""
    if not _is_schema_or_other(schema):
        read = reader_of(schema)
        return lambda raw, reading: read(raw)
    shape_schema = _shaper(named_schema("apiextensions/v1.JSONSchemaProps"), made)
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
                return [shape_schema(one, reading) for one in raw] or None
            return raw if type(raw) is list else None
        finally:
            reading.is_muted -= 1

    return shape
