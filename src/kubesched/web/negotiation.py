"""Which form of an answer a client accepts.

Owns the reading of Accept for pages that have structured forms. Never renders.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go,
github.com/munnerz/goautoneg
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

JSON = "application/json"
YAML = "application/yaml"
PLAIN = "text/plain"


class Kind(NamedTuple):
    """What a client wants an object converted to."""

    group: str
    version: str
    kind: str


Allows: TypeAlias = Callable[[str, Kind | None], bool]
"""Says whether a page has a media type in a kind; the kind is None where none was asked for."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The form of an answer."""

    media_type: str
    kind: Kind | None = None
    is_pretty: bool = False


class _Clause(NamedTuple):
    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]


def is_plain(media_type: str, kind: Kind | None) -> bool:
    """Allow every media type, and no conversion: how errors are negotiated."""
    del media_type
    return kind is None


def negotiate(accept: str, types: Sequence[str], allows: Allows) -> Chosen | None:
    """Return the first form that a client wants and a page has.

    Parity: negotiate.go NegotiateMediaTypeOptions, v1.36.
    """
    if not accept:
        return Chosen(types[0])
    for clause in _clauses(accept):
        for media_type in types:
            kind, _, subtype = media_type.partition("/")
            if clause.type not in (kind, "*") or clause.subtype not in (subtype, "*"):
                continue
            if clause.type == "*" and clause.subtype != "*":
                continue
            if chosen := _chosen(clause.parameters, media_type, allows):
                return chosen
    return None


def _chosen(parameters: dict[str, str], media_type: str, allows: Allows) -> Chosen | None:
    """Return the form, None if a parameter asks for what there is not.

    Parity: negotiate.go acceptMediaTypeOptions, v1.36; nothing here is streamed or versioned.
    """
    if parameters.get("stream") or parameters.get("sv"):
        return None
    kind = None
    if parameters.keys() & {"as", "g", "v"}:
        kind = Kind(*(parameters.get(name, "") for name in ("g", "v", "as")))
    if not allows(media_type, kind):
        return None
    return Chosen(media_type, kind, parameters.get("pretty") == "1")


def _clauses(accept: str) -> list[_Clause]:
    found = [clause for part in accept.split(",") if (clause := _clause(part.strip(" ")))]
    # The best first, and what is named before what is a wildcard.
    return sorted(found, key=lambda one: (-one.quality, one.type == "*", one.subtype == "*"))


def _clause(part: str) -> _Clause | None:
    media_range, *rest = part.split(";")
    names = [name.strip(" ") for name in media_range.split("/")]
    if names == ["*"]:
        names = ["*", "*"]
    if len(names) != 2 or not names[1]:
        return None
    quality = 1.0
    parameters = {}
    for parameter in rest:
        name, _, value = parameter.partition("=")
        if not value or "=" in value:
            continue
        if name.strip(" ") == "q":
            quality = _quality(value)
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return _Clause(names[0], names[1], quality, parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
