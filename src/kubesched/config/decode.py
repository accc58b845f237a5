"""Strict decoding of a JSON tree into a typed shape, with Go's messages.

Owns the walk along a schema: type errors, unknown and repeated fields. The result is nested
dicts holding only the fields that the document set. Never defaults and never validates.
Upstream: sigs.k8s.io/json internal/golang/encoding/json/decode.go, kubernetes_patch.go
"""

from typing import Any, NamedTuple, TypeAlias

from kubesched.config.errors import ConfigError
from kubesched.config.schema import Scalar, Slice, StringMap, Struct, Type
from kubesched.golang.encoding_base64 import decode_base64
from kubesched.golang.json import Json, Number, Object, json_type
from kubesched.golang.strconv import float32, go_quote
from kubesched.golang.time import parse_duration

Values: TypeAlias = dict[str, Any]

_STRICT_MAX = 100
_RANGES = {"int32": 1 << 31, "int64": 1 << 63}


class Decoded(NamedTuple):
    """The fields that a document sets, and the strict errors."""

    values: Values
    strict_errors: list[str]


class _Unset:
    """Marks a null that leaves its target as it was."""


_UNSET = _Unset()


def decode(tree: Json, shape: Struct) -> Decoded:
    """Return the fields that a JSON tree sets of a struct.

    Raises:
        ConfigError: At stage "decode", with the text of Go's decoder.
    """
    state = _State()
    values = state.value(tree, shape, pointer=False)
    if state.saved_error is not None:
        raise ConfigError("decode", state.saved_error)
    return Decoded(values if isinstance(values, dict) else {}, state.strict_errors)


class _State:
    """One run of the decoder: its position and the errors so far."""

    def __init__(self) -> None:
        self.saved_error: str | None = None
        self.strict_errors: list[str] = []
        self.struct_name = ""
        self.fields: list[str] = []
        self.path = ""

    def mismatch(self, value: str, go_type: str) -> str:
        if self.struct_name or self.fields:
            where = f"Go struct field {self.struct_name}.{'.'.join(self.fields)}"
        else:
            where = "Go value"
        return f"json: cannot unmarshal {value} into {where} of type {go_type}"

    def save(self, text: str) -> _Unset:
        """Keep the first error and continue, as Go does: a later one may take precedence."""
        if self.saved_error is None:
            self.saved_error = text
        return _UNSET

    def strict(self, kind: str, name: str) -> None:
        path = f"{self.path}.{name}" if self.path else name
        text = f"{kind} field {go_quote(path)}"
        if len(self.strict_errors) < _STRICT_MAX and text not in self.strict_errors:
            self.strict_errors.append(text)

    def value(self, tree: Json, kind: Type, *, pointer: bool) -> Any:
        if isinstance(kind, Scalar):
            return self.scalar(tree, kind, pointer=pointer)
        if tree is None:
            return None if pointer or not isinstance(kind, Struct) else _UNSET
        if isinstance(tree, Object):
            if isinstance(kind, Struct):
                return self.struct(tree, kind)
            if isinstance(kind, StringMap):
                return self.string_map(tree)
        if isinstance(tree, list) and isinstance(kind, Slice):
            return self.slice(tree, kind)
        return self.save(self.mismatch(json_type(tree), kind.go_type))

    def struct(self, tree: Object, kind: Struct) -> Values:
        values: Values = {}
        outer_struct, outer_fields, outer_path = self.struct_name, self.fields, self.path
        for name, item in tree.items:
            field = kind.fields.get(name)
            if field is None:
                self.strict("unknown", name)
                continue
            if name in values:
                self.strict("duplicate", name)
            self.struct_name = kind.name
            self.fields = [*outer_fields, *filter(None, (field.embedded,)), name]
            self.path = f"{outer_path}.{name}" if outer_path else name
            decoded = self.value(item, field.type, pointer=field.pointer)
            if not isinstance(decoded, _Unset) or name not in values:
                values[name] = decoded
            self.struct_name, self.fields, self.path = outer_struct, outer_fields, outer_path
        return {name: item for name, item in values.items() if not isinstance(item, _Unset)}

    def slice(self, tree: list[Json], kind: Slice) -> list[Any]:
        outer_path = self.path
        items: list[Any] = []
        for index, item in enumerate(tree):
            self.path = f"{outer_path}[{index}]"
            decoded = self.value(item, kind.elem, pointer=False)
            items.append(_zero(kind.elem) if isinstance(decoded, _Unset) else decoded)
        self.path = outer_path
        return items

    def string_map(self, tree: Object) -> dict[str, str]:
        out: dict[str, str] = {}
        for key, item in tree.items:
            if key in out:
                self.strict("duplicate", key)
            if item is not None and not isinstance(item, str):
                self.save(self.mismatch(json_type(item), "string"))
            out[key] = item if isinstance(item, str) else ""
        return out

    def scalar(self, tree: Json, kind: Scalar, *, pointer: bool) -> Any:
        if kind.kind == "raw":
            return _UNSET if tree is None else tree
        if tree is None and pointer:
            return None
        if kind.kind == "duration":
            return self.duration(tree)
        if tree is None:
            return None if kind.kind == "bytes" else _UNSET
        return self.literal(tree, kind)

    def literal(self, tree: Json, kind: Scalar) -> Any:
        if isinstance(tree, bool) and kind.kind == "bool":
            return tree
        if isinstance(tree, str) and kind.kind == "string":
            return tree
        if isinstance(tree, str) and kind.kind == "bytes":
            return self.bytes(tree)
        if isinstance(tree, list) and kind.kind == "bytes":
            return self.byte_list(tree)
        if isinstance(tree, Number) and kind.kind in ("int32", "int64", "float32"):
            return self.number(tree, kind)
        return self.save(self.mismatch(json_type(tree), kind.go_type))

    def number(self, tree: Number, kind: Scalar) -> Any:
        try:
            if kind.kind == "float32":
                return float32(float(tree.literal))
            value = _decimal_int(tree.literal)
        except (ValueError, OverflowError):
            return self.save(self.mismatch(f"number {tree.literal}", kind.go_type))
        if -_RANGES[kind.kind] <= value < _RANGES[kind.kind]:
            return value
        return self.save(self.mismatch(f"number {tree.literal}", kind.go_type))

    def bytes(self, text: str) -> Any:
        try:
            return decode_base64(text)
        except ValueError as error:
            return self.save(str(error))

    def byte_list(self, tree: list[Json]) -> Any:
        out = bytearray()
        for item in tree:
            if item is None:
                out.append(0)
            elif isinstance(item, Number) and item.literal.isdigit() and int(item.literal) < 256:
                out.append(int(item.literal))
            else:
                value = f"number {item.literal}" if isinstance(item, Number) else json_type(item)
                self.save(self.mismatch(value, "uint8"))
        return bytes(out)

    def duration(self, tree: Json) -> int:
        # The type decodes itself, so its errors end the decoding at once.
        if tree is not None and not isinstance(tree, str):
            raise ConfigError("decode", self.mismatch(json_type(tree), "string"))
        try:
            return parse_duration(tree or "")
        except ValueError as error:
            raise ConfigError("decode", str(error)) from None


def _decimal_int(literal: str) -> int:
    """Return strconv.ParseInt(literal, 10, 64); raise ValueError for far too many digits."""
    if len(literal) > 40:
        raise ValueError(literal)
    return int(literal)


def _zero(kind: Type) -> Any:
    if isinstance(kind, Struct):
        return {}
    if isinstance(kind, Scalar):
        return {"string": "", "bool": False}.get(kind.kind, 0)
    return None
