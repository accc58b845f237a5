"""Types of fields in the schemas.

Structs with fields, lists, maps and scalars, with their rules for merging and for omitting zero
values. The kinds themselves are loaded from data.
Upstream: the Go types of staging/src/k8s.io/api, their json, patchStrategy and patchMergeKey tags
and their listType markers; staging/src/k8s.io/kube-openapi schema extensions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class ScalarKind(StrEnum):
    """The kind of a scalar."""

    STRING = "string"
    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    TIME = "time"
    MICRO_TIME = "micro-time"
    DURATION = "duration"
    BYTES = "bytes"
    ANY = "any"
    """Any JSON, unchanged: RawExtension, JSON, FieldsV1, free-form custom resources."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar."""

    kind: ScalarKind
    go: str = ""
    """The name of the type in decoding errors."""


@dataclass(slots=True)
class Struct:
    """Named fields. Not frozen: types may contain themselves."""

    name: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    is_atomic: bool = False
    """Whether server-side apply owns it as a unit."""
    embeds_resource: bool = False
    """Whether it is a top-level object, with apiVersion, kind and metadata."""
    keeps_unknown: bool = False
    """Whether unknown fields are kept (custom resources)."""
    go: str = ""
    """The name of the type in decoding errors: `v1.PodSpec`."""
    conformer: Any = field(default=None, compare=False, repr=False)
    """The compiled form of schema.conform (or of crd, for custom resources)."""
    message: Any = field(default=None, compare=False, repr=False)
    """The compiled form of protobuf."""
    walker: Any = field(default=None, compare=False, repr=False)
    """The compiled form of patch.walkers."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct."""

    type: Type
    is_pointer: bool = False
    """Whether absent and zero differ. Lists and maps: whether null and empty differ is not kept."""
    omit_empty: bool = True
    """Whether a zero value is left out. A non-pointer struct is left out only with omit_zero."""
    omit_zero: bool = False
    patch_strategies: tuple[str, ...] = ()
    """`merge`, `replace`, `retainKeys`, for strategic merge patches."""
    merge_key: str = ""
    """The key that identifies list elements in strategic merge patches."""
    is_required: bool = False
    """Whether OpenAPI lists it as required."""
    via: str = ""
    """The inlined Go fields on the way, which decoding errors name: `VolumeSource`."""
    numbers: tuple[int, ...] = ()
    """The field numbers in the protobuf message, through inlined structs."""


@dataclass(slots=True)
class ListOf:
    """A list."""

    element: Type
    list_type: str = "atomic"
    """`atomic`, `set` or `map`, for server-side apply."""
    keys: tuple[str, ...] = ()
    """The keys of elements of a `map` list."""
    key_defaults: Mapping[str, object] = field(default_factory=dict)
    """The default of a key that an element omits (protocol of a container port)."""
    go: str = ""


@dataclass(slots=True)
class MapOf:
    """A map with string keys."""

    value: Type
    is_atomic: bool = False
    go: str = ""


Type: TypeAlias = Scalar | Struct | ListOf | MapOf
