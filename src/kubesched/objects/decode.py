"""From JSON to structs.

Owns the choice of struct by apiVersion and kind, and the naming of what does not fit. Never checks
what a text means: check does.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from kubesched.objects.check import check_object
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.meta import KubeResource
from kubesched.objects.namespace import Namespace
from kubesched.objects.node import Node
from kubesched.objects.nulls import without_nulls
from kubesched.objects.paths import locate
from kubesched.objects.pod import Pod
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.scheduling import PriorityClass
from kubesched.objects.shapes import shape_of
from kubesched.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.objects.wire import Wire
from kubesched.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

__all__ = [
    "KINDS",
    "Document",
    "KubeObject",
    "check_object",
    "decode_as",
    "decode_object",
    "key_of",
]

KubeObject: TypeAlias = (
    Pod
    | Node
    | Namespace
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
    | PodDisruptionBudget
    | PriorityClass
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
)
Document: TypeAlias = bytes | str | msgspec.Raw | Mapping[str, Any]

_CLASSES: Final[tuple[type[KubeObject], ...]] = (
    Pod, Node, Namespace, PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIDriver,
    CSIStorageCapacity, VolumeAttachment, PodDisruptionBudget, PriorityClass, Service,
    ReplicationController, ReplicaSet, StatefulSet,
)  # fmt: skip
KINDS: Final[dict[tuple[str, str], type[KubeObject]]] = {
    (cls.api_version, cls.kind): cls for cls in _CLASSES
}

_W = TypeVar("_W", bound=Wire)
_S = TypeVar("_S", bound=msgspec.Struct)

# What reading a hostile document can raise beside msgspec's own errors: bytes that are no text,
# lone surrogates, nesting without end, integers without end.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError)


class _Head(msgspec.Struct, rename="camel"):
    """What tells the kind of a document."""

    api_version: str | None = None
    kind: str | None = None


def decode_object(data: Document) -> KubeObject:
    """Return the object a document describes, or raise MalformedObject."""
    head = _decode(_Head, data)
    cls = KINDS.get((head.api_version or "", head.kind or ""))
    if cls is None:
        raise MalformedObject(
            kind=head.kind or "",
            key=_key_in(_generic_or_none(data)),
            field="kind" if head.kind else "",
            value=short_repr(head.kind) if head.kind else "",
            problem=_unknown_kind(head),
        )
    return decode_as(cls, data)


def decode_as(cls: type[_W], data: Document) -> _W:
    """Return the struct of a type that is already known, or raise MalformedObject."""
    return _decode(cls, data)


def key_of(obj: KubeResource) -> str:
    """Return namespace/name, or the name alone where there is no namespace."""
    return obj.key


def _decode(cls: type[_S], data: Document) -> _S:
    try:
        if isinstance(data, Mapping):
            return msgspec.convert(data, cls)
        decoder: msgspec.json.Decoder[_S] = _decoder(cls)
        return decoder.decode(data)
    except _UNREADABLE:
        # Either it is malformed or it holds a null: the slow way tells them apart.
        return _decode_or_explain(cls, data)


@cache
def _decoder(cls: type[_S]) -> msgspec.json.Decoder[_S]:
    return msgspec.json.Decoder(cls)


def _decode_or_explain(cls: type[_S], data: Document) -> _S:
    """Decode with Go's meaning of null, or say what is wrong and where."""
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
