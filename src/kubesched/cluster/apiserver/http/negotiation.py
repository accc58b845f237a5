"""Content negotiation: parses Accept.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from kubesched.cluster.apiserver.errors import ApiError, bad_request, not_acceptable
from kubesched.golang.strconv import go_quote

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_META: Final = "meta.k8s.io"
_PARTIAL: Final = "PartialObjectMetadata"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = f"{JSON}, {YAML}, {_PROTOBUF}"
_STREAMS: Final = f"{JSON};stream=watch, {_PROTOBUF};stream=watch"
_MATCHES: Final = {
    JSON: JSON,
    YAML: YAML,
    "*/*": JSON,
}


class Shape(Enum):
    """The represented part of an object."""

    WHOLE = "whole"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class Representation:
    """Form of a response."""

    media_type: str = JSON
    shape: Shape = Shape.WHOLE
    include_object: str = ""
    """includeObject of a Table: `None`, `Metadata` (the default) or `Object`."""
    meta_version: str = "v1"
    """Version of meta.k8s.io for Table and PartialObjectMetadata."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float


def clauses(accept: str) -> list[Clause]:
    """Return the clauses of an Accept header by descending quality."""
    found: list[Clause] = []
    for text in accept.split(","):
        media_type, *rest = (part.strip() for part in text.split(";"))
        parameters: dict[str, str] = {}
        quality = 1.0
        for parameter in rest:
            name, _, value = parameter.partition("=")
            if name.lower() == "q":
                quality = _quality(value)
            else:
                parameters[name.lower()] = value.strip('"')
        if media_type:
            found.append(Clause(media_type.lower(), parameters, quality))
    return sorted(found, key=lambda one: -one.quality)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


@lru_cache(maxsize=4096)
def negotiate(accept: str, *, verb: str, include_object: str, type_name: str) -> Representation:
    """Return the best representation that client and verb support; NotAcceptable if none.

    Args:
        accept: the Accept header.
        verb: the verb; lists and objects have different representations.
        include_object: the query parameter includeObject, for tables.
        type_name: upstream's name of the type, for error messages.
    """
    accepted = clauses(accept or "*/*")
    if not any(clause.media_type in {*_MATCHES, _PROTOBUF} for clause in accepted):
        raise _nothing_acceptable(verb)
    for clause in accepted:
        media_type = _MATCHES.get(clause.media_type)
        shape = _shape(clause.parameters)
        if media_type is None or shape is None or (verb == "watch" and media_type == YAML):
            continue
        _check_shape(clause.parameters.get("as", ""), verb, type_name)
        if shape is Shape.TABLE and include_object not in {"", "None", "Metadata", "Object"}:
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"{go_quote(include_object)}: must be 'Metadata', 'Object', 'None', or empty"
            )
        version = clause.parameters.get("v", "v1")
        return Representation(media_type, shape, include_object, version)
    raise not_acceptable((_STREAMS if verb == "watch" else _AVAILABLE).split(", "))


def _shape(parameters: dict[str, str]) -> Shape | None:
    """Return the requested shape; None if it is not supported."""
    name = parameters.get("as")
    if name is None:
        return Shape.WHOLE
    if parameters.get("g") != _META or parameters.get("v") not in {"v1", "v1beta1"}:
        return None
    shapes = {"Table": Shape.TABLE, _PARTIAL: Shape.PARTIAL, f"{_PARTIAL}List": Shape.PARTIAL}
    return shapes.get(name)


def _check_shape(name: str, verb: str, type_name: str) -> None:
    """Reject the shape of a list for an object, and vice versa."""
    is_list = verb in {"list", "deletecollection"}
    if name == _PARTIAL and is_list:
        text = f"you requested {name}, but the requested object is a list (*{type_name}List)"
        raise ApiError(406, "NotAcceptable", text)
    if name == f"{_PARTIAL}List" and not is_list:
        text = f"you requested {name}, but the requested object is not a list (*{type_name})"
        raise ApiError(406, "NotAcceptable", text)


def _nothing_acceptable(verb: str) -> ApiError:
    streams = f", {_STREAMS}" if verb in {"list", "watch"} else ""
    text = f"406: Not Acceptable\n\nAvailable representations: {_AVAILABLE}{streams}"
    error = ApiError(406, "NotAcceptable", text)
    error.shows_details = True
    return error
