"""The desired scale of the controllers of pods.

Owns the lookup from a pod's controller to its scale: in the informers for common kinds, by the
scale subresource for all others. Never writes.
Upstream: pkg/controller/disruption/disruption.go finders
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubesched.api.documents import Document, name_of, namespace_of, owner_of, uid_of
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from kubesched.cluster.informers.write_through import WriteThroughClient

_APPS: Final = ("apps", "extensions")


class NoScaleError(Exception):
    """The desired number of pods cannot be determined."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A controller and its desired number of pods."""

    uid: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """The desired number of pods, over all controllers."""

    count: int
    unmanaged: tuple[str, ...]
    """Names of pods without a controller."""


class ScaleFinder:
    """Finds the scales of pods' controllers."""

    def __init__(self, api: WriteThroughClient) -> None:
        self._api = api
        self._resources: dict[tuple[str, str], Resource] = {}
        informers = api.informers
        self._replica_sets = informers.of(REPLICA_SETS)
        self._deployments = informers.of(DEPLOYMENTS)
        self._by_kind = {
            ("", REPLICATION_CONTROLLERS.kind): informers.of(REPLICATION_CONTROLLERS),
            ("apps", STATEFUL_SETS.kind): informers.of(STATEFUL_SETS),
        }

    async def expected(self, pods: list[Document]) -> ExpectedPods:
        """Return the desired number of pods; NoScaleError if it cannot be determined.

        Parity: disruption.go getExpectedScale, v1.36.
        """
        unmanaged: list[str] = []
        resolved: dict[str, None] = {}
        replicas_by_uid: dict[str, int] = {}
        for pod in pods:
            reference = owner_of(pod)
            if reference is None:
                unmanaged.append(name_of(pod))
                continue
            if reference["uid"] in resolved:
                continue
            scale = await self._find(reference, namespace_of(pod))
            if scale is None:
                raise NoScaleError(f'found no controllers for pod "{name_of(pod)}"')
            resolved[reference["uid"]] = None
            replicas_by_uid[scale.uid] = scale.replicas
        return ExpectedPods(sum(replicas_by_uid.values()), tuple(unmanaged))

    async def _find(self, reference: Document, namespace: str) -> Scale | None:
        scale = self._from_informers(reference, namespace)
        return scale or await self._from_subresource(reference, namespace)

    def _from_informers(self, reference: Document, namespace: str) -> Scale | None:
        group = reference["apiVersion"].rpartition("/")[0]
        kind, key = reference["kind"], f"{namespace}/{reference['name']}"
        if kind == REPLICA_SETS.kind and group in _APPS:
            return self._of_replica_set(self._replica_sets.get(key), reference)
        informer = self._by_kind.get((group, kind))
        return None if informer is None else _scale(informer.get(key), reference)

    def _of_replica_set(self, replica_set: Document | None, reference: Document) -> Scale | None:
        own_scale = _scale(replica_set, reference)
        if own_scale is None or replica_set is None:
            return None
        deployment_ref = owner_of(replica_set)
        if deployment_ref is None or deployment_ref["kind"] != DEPLOYMENTS.kind:
            return own_scale
        if deployment_ref["apiVersion"].rpartition("/")[0] not in _APPS:
            return None
        # During a rollout the pods have several ReplicaSets, but one Deployment.
        deployment = self._deployments.get(f"{namespace_of(replica_set)}/{deployment_ref['name']}")
        return _scale(deployment, deployment_ref)

    async def _from_subresource(self, reference: Document, namespace: str) -> Scale | None:
        """Return the scale from the scale subresource of any kind."""
        resource = await self._resource(reference["apiVersion"], reference["kind"])
        name = reference["name"]
        client = self._api.client
        try:
            response = await client.get(resource, name, namespace=namespace, subresource="scale")
        except NotFoundError:
            if f"{resource.plural}/scale" not in await self._kinds_by_plural(resource.api_version):
                raise NoScaleError(
                    f"{resource.group_resource} does not implement the scale subresource"
                ) from None
            return None
        return _scale(msgspec.json.decode(response), reference)

    async def _resource(self, api_version: str, kind: str) -> Resource:
        cached = self._resources.get((api_version, kind))
        if cached is not None:
            return cached
        group, _, version = api_version.rpartition("/")
        for plural, plural_kind in (await self._kinds_by_plural(api_version)).items():
            if plural_kind == kind and "/" not in plural:
                resource = self._resources[api_version, kind] = Resource(
                    group, version, plural, kind
                )
                return resource
        raise NoScaleError(f'no matches for kind "{kind}" in version "{api_version}"')

    async def _kinds_by_plural(self, api_version: str) -> Mapping[str, str]:
        """Return the resources of a group version with their kinds."""
        group, _, version = api_version.rpartition("/")
        root = Resource(group, version, "", "").root.rstrip("/")
        try:
            response = await self._api.client.request("GET", root)
        except NotFoundError:
            return {}
        resources: dict[str, Any] = msgspec.json.decode(response)
        return {resource["name"]: resource["kind"] for resource in resources.get("resources") or ()}


def _scale(document: Mapping[str, Any] | None, reference: Document) -> Scale | None:
    """Return the scale of the object that a reference means; None if the uid differs."""
    if document is None or uid_of(document) != reference["uid"]:
        return None
    return Scale(uid_of(document), int((document.get("spec") or {}).get("replicas") or 0))
