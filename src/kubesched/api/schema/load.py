"""Schemas of the built-in kinds, from the data shipped with this package.

Reads the data once, on first use.
Upstream: staging/src/k8s.io/api, read by conformance/schemas into data/schema.json.gz
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib import resources
from typing import Any, Final

import msgspec

from kubesched.api.schema.types import Field, ListOf, MapOf, Scalar, ScalarKind, Struct, Type

_SCHEMA: Final = resources.files("kubesched.api.schema").joinpath("data/schema.json.gz")


def schema_for(group: str, version: str, kind: str) -> Struct | None:
    """Return the type of a kind; None if it is not built in."""
    return _schemas().kind(group, version, kind)


def kinds() -> list[tuple[str, str, str]]:
    """Return the group, version and name of every kind with a schema."""
    names = (name.split("/") for name in _schemas().kinds)
    return [(group, version, kind) for group, version, kind in names]


def named_schema(name: str) -> Struct:
    """Return a type by its name in the data: `meta/v1.ObjectMeta`."""
    return _schemas().struct(name)


@lru_cache(maxsize=1)
def _schemas() -> _Schemas:
    return _Schemas(msgspec.json.decode(gzip.decompress(_SCHEMA.read_bytes())))


class _Schemas:
    """The data, and the types built from it so far."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.kinds: dict[str, str] = data["kinds"]
        self._raw: dict[str, Any] = data["types"]
        self._made: dict[str, Struct] = {}
        self._scalars: dict[str, Scalar] = {}

    def kind(self, group: str, version: str, kind: str) -> Struct | None:
        name = self.kinds.get(f"{group}/{version}/{kind}")
        return self.struct(name) if name else None

    def struct(self, name: str) -> Struct:
        """Return a type; a name that ends in `!` is the atomic variant of the type."""
        struct = self._made.get(name)
        if struct is None:
            raw = self._raw[name.removesuffix("!")]
            package, _, short = name.removesuffix("!").rpartition(".")
            is_atomic = raw.get("a", False) or name.endswith("!")
            go = f"{package.rpartition('/')[2]}.{short}"
            # Kept before its fields are built: a type may contain itself.
            struct = self._made[name] = Struct(short, is_atomic=is_atomic, go=go)
            struct.fields = {field["n"]: self._field(field) for field in raw["f"]}
        return struct

    def _field(self, raw: dict[str, Any]) -> Field:
        flags = raw.get("x", "")
        return Field(
            self._type(raw["t"]),
            is_pointer="p" in flags,
            omit_empty="e" in flags,
            omit_zero="z" in flags,
            patch_strategies=tuple(raw["s"].split(",")) if "s" in raw else (),
            merge_key=raw.get("k", ""),
            is_required="r" in flags,
            via=raw.get("v", ""),
            numbers=tuple(raw.get("b", ())),
        )

    def _type(self, raw: Any) -> Type:
        if isinstance(raw, str):
            return self.struct(raw[1:]) if raw[0] == "@" else self._scalar(raw)
        if "m" in raw:
            return MapOf(self._type(raw["m"]), is_atomic=raw.get("a", False), go=raw["g"])
        keys = tuple(raw.get("k", ()))
        return ListOf(
            self._type(raw["l"]),
            list_type=raw.get("t", "atomic"),
            keys=keys,
            key_defaults=self._key_defaults(raw["l"], keys),
            go=raw["g"],
        )

    def _key_defaults(self, element: Any, keys: tuple[str, ...]) -> dict[str, object]:
        if not keys or not isinstance(element, str) or element[0] != "@":
            return {}
        fields = self._raw[element[1:].removesuffix("!")]["f"]
        return {field["n"]: field["d"] for field in fields if field["n"] in keys and "d" in field}

    def _scalar(self, raw: str) -> Scalar:
        scalar = self._scalars.get(raw)
        if scalar is None:
            kind, _, go = raw.partition(":")
            scalar = self._scalars[raw] = Scalar(ScalarKind(kind), go)
        return scalar
