"""Which kinds an API server has: its own, those of definitions, and those of other servers.

Owns the reading of discovery. Never remembers an answer: who asks knows how fresh it must be.
Upstream: staging/src/k8s.io/client-go/discovery/discovery_client.go ServerPreferredResources
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import Resource
from kubesched.client.rest import Client


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind, and what can be done with it."""

    resource: Resource
    verbs: frozenset[str]

    def can(self, *verbs: str) -> bool:
        """Return whether all of these can be done."""
        return self.verbs.issuperset(verbs)


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """What discovery said: each kind once, in the version that its group prefers."""

    preferred: tuple[ServedKind, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    """Why a group and version could not be asked."""
    by_name: dict[tuple[str, str], Resource] = field(default_factory=dict)
    """Every kind by apiVersion and kind, whether preferred or not."""

    def find(self, api_version: str, kind: str) -> Resource | None:
        """Return what a reference means."""
        return self.by_name.get((api_version, kind))


class _Version(msgspec.Struct, rename="camel", frozen=True):
    group_version: str = ""
    version: str = ""


class _Group(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    versions: list[_Version] = []
    preferred_version: _Version = _Version()


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Kind(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _Kinds(msgspec.Struct):
    resources: list[_Kind] = []


async def served_kinds(client: Client) -> ServedKinds:
    """Ask for everything; ApiError or TransportError if not even the groups can be had."""
    answer = await client.request("GET", "/apis")
    groups = [_CORE, *msgspec.json.decode(answer, type=_Groups).groups]
    versions = [(group.name, one.version) for group in groups for one in group.versions]
    answers = await asyncio.gather(*(_kinds_of(client, *one) for one in versions))
    found: dict[tuple[str, str], list[ServedKind]] = {}
    failures: dict[str, str] = {}
    for place, kinds in zip(versions, answers, strict=True):
        if isinstance(kinds, str):
            failures[f"{place[0]}/{place[1]}" if place[0] else place[1]] = kinds
        else:
            found[place] = kinds
    return ServedKinds(
        tuple(_preferred(groups, found)),
        failures,
        {
            (one.resource.api_version, one.resource.kind): one.resource
            for kinds in found.values()
            for one in kinds
        },
    )


_CORE = _Group(versions=[_Version("v1", "v1")], preferred_version=_Version("v1", "v1"))


async def _kinds_of(client: Client, group: str, version: str) -> list[ServedKind] | str:
    """Return the kinds of one group and version, or why they are not to be had."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        answer = await client.request("GET", root)
    except NotFoundError:
        # It went between the two questions.
        return []
    except (ApiError, TransportError) as error:
        return error.message
    listed = msgspec.json.decode(answer, type=_Kinds).resources
    return [
        ServedKind(
            Resource(group, version, one.name, one.kind, one.namespaced), frozenset(one.verbs)
        )
        for one in listed
        # What is below a kind, like its status or scale, is no kind of its own.
        if "/" not in one.name
    ]


def _preferred(
    groups: Iterable[_Group], found: dict[tuple[str, str], list[ServedKind]]
) -> Iterator[ServedKind]:
    """Return each kind of each group once: the preferred version's, or else the first there is."""
    for group in groups:
        by_plural: dict[str, ServedKind] = {}
        for version in group.versions:
            is_preferred = version.version == group.preferred_version.version
            for kind in found.get((group.name, version.version), ()):
                if is_preferred or kind.resource.plural not in by_plural:
                    by_plural[kind.resource.plural] = kind
        yield from by_plural.values()
