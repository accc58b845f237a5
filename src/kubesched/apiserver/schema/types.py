"""Types of fields, as every part of the server reads them.

Owns the model: structs with fields, lists, maps, scalars, and what each says about merging and
about leaving out. Never holds a kind: those are loaded from data.
Upstream: the Go types of staging/src/k8s.io/api, their json, patchStrategy and patchMergeKey tags
and their listType markers; staging/src/k8s.io/kube-openapi schema extensions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class ScalarKind(StrEnum):
    """What a leaf holds."""

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
    """Any JSON, kept as it is: RawExtension, JSON, FieldsV1, free-form custom resources."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf."""

    kind: ScalarKind
    go: str = ""
    """What decoding errors call the type."""


@dataclass(slots=True)
class Struct:
    """Named fields. Not frozen: types may contain themselves."""

    name: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    is_atomic: bool = False
    """Whether server-side apply owns it whole."""
    embeds_resource: bool = False
    """Whether it is an object of its own, with apiVersion, kind and metadata."""
    keeps_unknown: bool = False
    """Whether fields it does not know stay (custom resources)."""
    go: str = ""
    """What decoding errors call the type: `v1.PodSpec`."""
    conformer: Any = field(default=None, compare=False, repr=False)
    """What schema.conform built for it (or crd, for its instances), living as long as the type."""
    message: Any = field(default=None, compare=False, repr=False)
    """What protobuf built for it."""
    walker: Any = field(default=None, compare=False, repr=False)
    """What patch.walkers built for it, kept here so that it lives as long as the type."""


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
    """By which key strategic merge patches tell elements of the list apart."""
    is_required: bool = False
    """Whether OpenAPI names it as required."""
    via: str = ""
    """The inlined Go fields on the way, which decoding errors name: `VolumeSource`."""
    numbers: tuple[int, ...] = ()
    """What leads to the field in a protobuf message, through inlined structs."""


@dataclass(slots=True)
class ListOf:
    """A list."""

    element: Type
    list_type: str = "atomic"
    """`atomic`, `set` or `map`, for server-side apply."""
    keys: tuple[str, ...] = ()
    """What tells elements of a `map` list apart."""
    key_defaults: Mapping[str, object] = field(default_factory=dict)
    """What a key is where an element leaves it out (protocol of a container port)."""
    go: str = ""


@dataclass(slots=True)
class MapOf:
    """A map with string keys."""

    value: Type
    is_atomic: bool = False
    go: str = ""


Type: TypeAlias = Scalar | Struct | ListOf | MapOf
