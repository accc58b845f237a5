"""How many pods whoever controls a pod means to have.

Owns the way from a pod's controller to that number: by what is watched for the kinds that most pods
have, by the scale subresource for any other. Never writes.
Upstream: pkg/controller/disruption/disruption.go finders
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.client.cached.api import Api
from kubesched.client.cached.documents import Document, name_of, namespace_of, owner_of, uid_of
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)

_APPS: Final = ("apps", "extensions")


class NoScaleError(Exception):
    """It cannot be said how many pods there should be."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Who controls pods, and how many it means to have."""

    uid: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """How many pods there should be, of all who control some of them."""

    count: int
    unmanaged: tuple[str, ...]
    """The names of pods that nobody controls."""


class Scales:
    """Finds scales."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[tuple[str, str], Resource] = {}
        informers = api.informers
        self._replica_sets = informers.of(REPLICA_SETS)
        self._deployments = informers.of(DEPLOYMENTS)
        self._by_kind = {
            ("", REPLICATION_CONTROLLERS.kind): informers.of(REPLICATION_CONTROLLERS),
            ("apps", STATEFUL_SETS.kind): informers.of(STATEFUL_SETS),
        }

    async def expected(self, pods: list[Document]) -> ExpectedPods:
        """Return how many pods there should be; NoScaleError if that cannot be said.

        Parity: disruption.go getExpectedScale, v1.36.
        """
        unmanaged: list[str] = []
        looked_at: dict[str, None] = {}
        found: dict[str, int] = {}
        for pod in pods:
            reference = owner_of(pod)
            if reference is None:
                unmanaged.append(name_of(pod))
                continue
            if reference["uid"] in looked_at:
                continue
            scale = await self._of(reference, namespace_of(pod))
            if scale is None:
                raise NoScaleError(f'found no controllers for pod "{name_of(pod)}"')
            looked_at[reference["uid"]] = None
            found[scale.uid] = scale.replicas
        return ExpectedPods(sum(found.values()), tuple(unmanaged))

    async def _of(self, reference: Document, namespace: str) -> Scale | None:
        known = self._known(reference, namespace)
        return known or await self._asked(reference, namespace)

    def _known(self, reference: Document, namespace: str) -> Scale | None:
        group = reference["apiVersion"].rpartition("/")[0]
        kind, key = reference["kind"], f"{namespace}/{reference['name']}"
        if kind == REPLICA_SETS.kind and group in _APPS:
            return self._of_replica_set(self._replica_sets.get(key), reference)
        informer = self._by_kind.get((group, kind))
        return None if informer is None else _scale(informer.get(key), reference)

    def _of_replica_set(self, replica_set: Document | None, reference: Document) -> Scale | None:
        own = _scale(replica_set, reference)
        if own is None or replica_set is None:
            return None
        above = owner_of(replica_set)
        if above is None or above["kind"] != DEPLOYMENTS.kind:
            return own
        if above["apiVersion"].rpartition("/")[0] not in _APPS:
            return None
        # While it is rolled out, pods of a Deployment have several sets, and it has one scale.
        deployment = self._deployments.get(f"{namespace_of(replica_set)}/{above['name']}")
        return _scale(deployment, above)

    async def _asked(self, reference: Document, namespace: str) -> Scale | None:
        """Return the scale by the subresource of whatever kind it is."""
        resource = await self._resource(reference["apiVersion"], reference["kind"])
        name = reference["name"]
        client = self._api.client
        try:
            answer = await client.get(resource, name, namespace=namespace, subresource="scale")
        except NotFoundError:
            if f"{resource.plural}/scale" not in await self._plurals(resource.api_version):
                raise NoScaleError(
                    f"{resource.group_resource} does not implement the scale subresource"
                ) from None
            return None
        return _scale(msgspec.json.decode(answer), reference)

    async def _resource(self, api_version: str, kind: str) -> Resource:
        known = self._served.get((api_version, kind))
        if known is not None:
            return known
        group, _, version = api_version.rpartition("/")
        for plural, of_kind in (await self._plurals(api_version)).items():
            if of_kind == kind and "/" not in plural:
                found = self._served[api_version, kind] = Resource(group, version, plural, kind)
                return found
        raise NoScaleError(f'no matches for kind "{kind}" in version "{api_version}"')

    async def _plurals(self, api_version: str) -> Mapping[str, str]:
        """Return what is served of a group and version, with its kinds."""
        group, _, version = api_version.rpartition("/")
        root = Resource(group, version, "", "").root.rstrip("/")
        try:
            answer = await self._api.client.request("GET", root)
        except NotFoundError:
            return {}
        listed: dict[str, Any] = msgspec.json.decode(answer)
        return {one["name"]: one["kind"] for one in listed.get("resources") or ()}


def _scale(document: Mapping[str, Any] | None, reference: Document) -> Scale | None:
    """Return the scale of the very object that a reference means."""
    if document is None or uid_of(document) != reference["uid"]:
        return None
    return Scale(uid_of(document), int((document.get("spec") or {}).get("replicas") or 0))
