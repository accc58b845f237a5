"""Discovery: which resources the API server serves.

Owns the reading of the discovery documents. Never caches: the caller knows how fresh they must be.
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
class ServedResource:
    """A resource and its verbs."""

    resource: Resource
    verbs: frozenset[str]

    def supports(self, *verbs: str) -> bool:
        """Return whether all these verbs are supported."""
        return self.verbs.issuperset(verbs)


@dataclass(frozen=True, slots=True)
class ServedResources:
    """The result of discovery."""

    preferred: tuple[ServedResource, ...] = ()
    """Each resource once, in the preferred version of its group."""
    failures: dict[str, str] = field(default_factory=dict)
    """Errors by group version that could not be discovered."""
    by_name: dict[tuple[str, str], Resource] = field(default_factory=dict)
    """Every resource by apiVersion and kind."""

    def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of an apiVersion and kind."""
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


async def discover_resources(client: Client) -> ServedResources:
    """Discover all resources; ApiError or TransportError if the groups cannot be read."""
    response = await client.request("GET", "/apis")
    groups = [_CORE, *msgspec.json.decode(response, type=_Groups).groups]
    versions = [(group.name, version.version) for group in groups for version in group.versions]
    responses = await asyncio.gather(*(_resources_of(client, *version) for version in versions))
    found: dict[tuple[str, str], list[ServedResource]] = {}
    failures: dict[str, str] = {}
    for group_version, kinds in zip(versions, responses, strict=True):
        if isinstance(kinds, str):
            failures[
                f"{group_version[0]}/{group_version[1]}" if group_version[0] else group_version[1]
            ] = kinds
        else:
            found[group_version] = kinds
    return ServedResources(
        tuple(_preferred(groups, found)),
        failures,
        {
            (kind.resource.api_version, kind.resource.kind): kind.resource
            for kinds in found.values()
            for kind in kinds
        },
    )


_CORE = _Group(versions=[_Version("v1", "v1")], preferred_version=_Version("v1", "v1"))


async def _resources_of(client: Client, group: str, version: str) -> list[ServedResource] | str:
    """Return the resources of a group version, or the error text."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        response = await client.request("GET", root)
    except NotFoundError:
        # The group version disappeared after the groups were listed.
        return []
    except (ApiError, TransportError) as error:
        return error.message
    resources = msgspec.json.decode(response, type=_Kinds).resources
    return [
        ServedResource(
            Resource(group, version, resource.name, resource.kind, resource.namespaced),
            frozenset(resource.verbs),
        )
        for resource in resources
        # Subresources such as pods/status are left out.
        if "/" not in resource.name
    ]


def _preferred(
    groups: Iterable[_Group], found: dict[tuple[str, str], list[ServedResource]]
) -> Iterator[ServedResource]:
    """Yield each resource once: in its group's preferred version, or in the first that has it."""
    for group in groups:
        by_plural: dict[str, ServedResource] = {}
        for version in group.versions:
            is_preferred = version.version == group.preferred_version.version
            for kind in found.get((group.name, version.version), ()):
                if is_preferred or kind.resource.plural not in by_plural:
                    by_plural[kind.resource.plural] = kind
        yield from by_plural.values()
