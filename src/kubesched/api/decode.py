"""Decodes JSON documents into wire structs.

Chooses the struct by apiVersion and kind; errors name the malformed field. Values are checked by
`check`.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from kubesched.api.errors import MalformedObject, locate, short_repr
from kubesched.api.kinds import KINDS
from kubesched.api.meta import KubeResource
from kubesched.api.shapes import shape_of, without_nulls

KubeObject: TypeAlias = KubeResource
"""An object of a kind in the table."""
Document: TypeAlias = bytes | str | msgspec.Raw | Mapping[str, Any]

STRUCTS: Final = KINDS.structs
"""The wire struct of each known apiVersion and kind."""

_S = TypeVar("_S", bound=msgspec.Struct)

# Errors of hostile documents besides msgspec's own: invalid UTF-8, lone surrogates, endless nesting
# and endless integers.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)


class _Head(msgspec.Struct, rename="camel"):
    """The fields that identify the kind of a document."""

    api_version: str | None = None
    kind: str | None = None


def decode_object(data: Document) -> KubeObject:
    """Return the object a document describes, or raise MalformedObject."""
    head = decode_as(_Head, data)
    cls = STRUCTS.get((head.api_version or "", head.kind or ""))
    if cls is None:
        raise MalformedObject(
            kind=head.kind or "",
            key=_key_in(_generic_or_none(data)),
            field="kind" if head.kind else "",
            value=short_repr(head.kind) if head.kind else "",
            problem=_unknown_kind(head),
        )
    return decode_as(cls, data)


def decode_as(cls: type[_S], data: Document) -> _S:
    """Return a document as a struct of a type, or raise MalformedObject."""
    try:
        if isinstance(data, Mapping):
            return msgspec.convert(data, cls)
        decoder: msgspec.json.Decoder[_S] = _decoder(cls)
        return decoder.decode(data)
    except _UNREADABLE:
        # It is malformed or holds a null; the slow path distinguishes the two.
        return _decode_or_explain(cls, data)


@cache
def _decoder(cls: type[_S]) -> msgspec.json.Decoder[_S]:
    return msgspec.json.Decoder(cls)


def _decode_or_explain(cls: type[_S], data: Document) -> _S:
    """Decode with Go's meaning of null; raise an error that names field and problem."""
    document: Any = None
    try:
        document = _generic(data)
        cleaned = without_nulls(document, shape_of(cls))
        return msgspec.convert(cleaned, cls)
    except _UNREADABLE as error:
        raise _explain(cls, document, error) from None


def _generic(data: Document) -> Any:
    return data if isinstance(data, Mapping) else msgspec.json.decode(data)


def _generic_or_none(data: Document) -> Any:
    try:
        return _generic(data)
    except _UNREADABLE:
        return None


def _explain(cls: type[msgspec.Struct], document: Any, error: Exception) -> MalformedObject:
    kind = _text(document, "kind") or (cls.kind if issubclass(cls, KubeResource) else "")
    key = _key_in(document)
    if not isinstance(error, msgspec.ValidationError):
        return MalformedObject(kind=kind, key=key, problem=f"not readable as JSON: {error}")
    problem, field, value = locate(str(error), document)
    return MalformedObject(
        kind=kind,
        key=key,
        field=field,
        value=short_repr(value) if document is not None else "",
        problem=problem,
    )


def _unknown_kind(head: _Head) -> str:
    if not head.kind:
        return "Object 'Kind' is missing"
    if not head.api_version:
        return "Object 'apiVersion' is missing"
    kind, version = short_repr(head.kind), short_repr(head.api_version)
    return f"no kind {kind} is known for version {version}"


def _key_in(document: Any) -> str:
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    name, namespace = _text(metadata, "name"), _text(metadata, "namespace")
    return f"{namespace}/{name}" if namespace and name else name


def _text(document: Any, field: str) -> str:
    value = document.get(field) if isinstance(document, Mapping) else None
    return value if isinstance(value, str) else ""
