"""Translates managedFields between an object and its Scale.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kubesched.cluster.apiserver.patch.field_sets import difference, from_paths, has
from kubesched.cluster.apiserver.patch.managed_fields import Entries, decode, encode

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = from_paths(("spec", "replicas"))


def scale_managed_fields(
    managed: Sequence[dict[str, Any]], path: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return managedFields of a Scale, from the owners of the replica count at a path."""
    elements = tuple(f"f:{name}" for name in path)
    owners = {
        who: replace(entry, api_version=SCALE_VERSION, fields=_REPLICAS)
        for who, entry in decode(managed).items()
        if has(entry.fields, elements)
    }
    return encode(owners)


def parent_managed_fields(
    managed: Sequence[dict[str, Any]],
    scale_managed: Sequence[dict[str, Any]],
    path: tuple[str, ...],
    api_version: str,
) -> list[dict[str, Any]]:
    """Return managedFields of an object after its Scale was written."""
    # Parity: scalehandler.go ToParent. An update's identity names its version, so an owner by
    # update never matches: the count moves to a separate entry without a time.
    elements = tuple(f"f:{name}" for name in path)
    replicas = from_paths(path)
    scale = decode(scale_managed)
    result: Entries = {}
    for who, entry in decode(managed).items():
        if not has(entry.fields, elements):
            result[who] = entry
        elif who in scale:
            result[who] = entry
            del scale[who]
        else:
            rest = difference(entry.fields, replicas)
            if rest:
                result[who] = replace(entry, fields=rest)
    for who, entry in scale.items():
        if has(entry.fields, ("f:spec", "f:replicas")):
            result[who] = replace(entry, api_version=api_version, time=None, fields=replicas)
    return encode(result)
