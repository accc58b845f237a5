"""What is used of each quota, as its status says it.

Owns when usage is counted and its writing. What an object uses is quota_usage's; nothing is refused
here: the API server does that, by the status.
Upstream: pkg/controller/resourcequota/{resource_quota_controller,resource_quota_monitor}.go
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kubesched.client.cached.documents import Document, key_of, namespace_of
from kubesched.client.cached.informers import Informer
from kubesched.client.resources import (
    CORE_EVENTS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    SERVICES,
    Resource,
)
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.quota_usage import Usage, is_charged, kind_of, total_usage
from kubesched.controllers.served_kinds import served_kinds
from kubesched.objects.quantity import parse_quantity

_RESYNC_S: Final = 300.0
_KINDS_AGE_S_MIN: Final = 5.0
_LOOK_S: Final = 0.02
# Usage that the API server charged is counted again when the watch has surely told of the object.
_RECOUNT_S: Final = 1.0
_OBJECTS_A_SECOND: Final = 2000
# Parity: pkg/quota/v1/install/registry.go ignoredResources, v1.36: those that are stored.
_IGNORED: Final = (CORE_EVENTS, EVENTS)


class ResourceQuotaController(Controller):
    """Counts what the objects of a namespace use."""

    name = "resourcequota"
    component = "resourcequota-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._quotas = parts.informers.of(RESOURCE_QUOTAS)
        self._informers: dict[Resource, Informer] = {}
        self._kinds: dict[str, Resource] = {}
        """The kinds that are counted under the name of no other: by plural and group."""
        self._kinds_s = float("-inf")
        for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS):
            self._follow(resource, parts.informers.of(resource))
        self._quotas.on_change(self._quota_changed)

    # -- when -------------------------------------------------------------------------------------

    def _quota_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or _hard(old) != _hard(new) or not _is_counted(new):
            self.queue.add(key_of(new))

    def _follow(self, resource: Resource, informer: Informer) -> None:
        self._informers[resource] = informer
        informer.on_change(partial(self._object_changed, resource))

    def _object_changed(
        self, resource: Resource, old: Document | None, new: Document | None
    ) -> None:
        found = new or old
        if found is None or not (quotas := self._quotas.in_namespace(namespace_of(found))):
            return
        if old is None:
            count = len(self._informers[resource].in_namespace(namespace_of(found)))
            delay_s = max(_RECOUNT_S, count / _OBJECTS_A_SECOND)
        elif new is None or self._has_changed(resource, old, new):
            delay_s = 0.0
        else:
            return
        for quota in quotas:
            if any(self._resource_of(name) == resource for name in _hard(quota)):
                self.queue.add_after(key_of(quota), delay_s)

    def _has_changed(self, resource: Resource, old: Document, new: Document) -> bool:
        """Return whether a change may change what an object uses."""
        # Parity: pkg/quota/v1/install/update_filter.go DefaultUpdateFilter, v1.36.
        differs = _DIFFERENCES.get(resource)
        if differs is not None and differs(old, new):
            return True
        now_s = self.clock.now_s()
        return resource == PODS and is_charged(old, now_s) and not is_charged(new, now_s)

    async def run_beside(self) -> None:
        """Count everything now and then: a pod that is stuck in its end changes by time alone."""
        while True:
            await self.clock.sleep(_RESYNC_S)
            for quota in self._quotas:
                self.queue.add(key_of(quota))

    # -- what -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Bring the status of one quota to what is used."""
        quota = self._quotas.get(key)
        if quota is None:
            return
        hard, status = _hard(quota), quota.get("status") or {}
        counted = await self._usage(quota)
        if counted is None:
            self.queue.add_after(key, _LOOK_S)
            return
        known = status.get("used") or {}
        used = {
            name: str(counted[name]) if name in counted else known[name]
            for name in hard
            if name in counted or name in known
        }
        is_same = _numbers(used) == _numbers(known) and "used" in status
        if is_same and _numbers(status.get("hard") or {}) == _numbers(hard) and "hard" in status:
            return
        written = {**quota, "status": {"hard": hard, "used": used}}
        await self.api.update_status(RESOURCE_QUOTAS, written)

    async def _usage(self, quota: Document) -> Usage | None:
        """Return what is used, None if a kind has not been read yet."""
        by_kind: dict[Resource, list[str]] = {}
        for name in _hard(quota):
            resource = self._resource_of(name) or await self._discovered(name)
            if resource is not None:
                by_kind.setdefault(resource, []).append(name)
        usage: Usage = {}
        for resource, names in by_kind.items():
            # For counting it does not matter what an object says.
            informer = self.informers.metadata_of(resource)
            # A kind that went and came back has another informer.
            if self._informers.get(resource) is not informer:
                self._follow(resource, informer)
            if not informer.has_synced:
                return None
            objects = informer.in_namespace(namespace_of(quota))
            usage |= total_usage(resource, objects, names, quota, self.clock.now_s())
        return usage

    def _resource_of(self, name: str) -> Resource | None:
        kind = kind_of(name)
        return self._kinds.get(kind) if isinstance(kind, str) else kind

    async def _discovered(self, name: str) -> Resource | None:
        """Return the kind that a name counts, asking which there are."""
        now_s = self.clock.monotonic_s()
        if not isinstance(kind_of(name), str) or now_s - self._kinds_s < _KINDS_AGE_S_MIN:
            return None
        self._kinds_s = now_s
        kinds = await served_kinds(self.api.client)
        self._kinds = {
            one.resource.group_resource: one.resource
            for one in kinds.preferred
            if one.resource.namespaced
            and one.resource not in _IGNORED
            and one.can("create", "list", "watch", "delete")
        }
        return self._resource_of(name)


def _hard(quota: Document) -> dict[str, str]:
    found: dict[str, str] = (quota.get("spec") or {}).get("hard") or {}
    return found


def _is_counted(quota: Document) -> bool:
    status = quota.get("status") or {}
    used = status.get("used") or {}
    return status.get("hard") == _hard(quota) and all(name in used for name in _hard(quota))


def _numbers(amounts: dict[str, str]) -> dict[str, object]:
    return {name: parse_quantity(text) for name, text in amounts.items()}


def _pods_differ(old: Document, new: Document) -> bool:
    if (old["spec"].get("activeDeadlineSeconds") is None) != (
        new["spec"].get("activeDeadlineSeconds") is None
    ):
        return True
    before, after = _given(old), _given(new)
    return any(name in after and after[name] != given for name, given in before.items())


def _given(pod: Document) -> dict[str, object]:
    """Return what the containers of a pod have been given."""
    status = pod.get("status") or {}
    return {
        one["name"]: one["resources"]
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in status.get(kind) or ()
        if one.get("resources") is not None
    }


def _services_differ(old: Document, new: Document) -> bool:
    return (old.get("spec") or {}).get("type") != (new.get("spec") or {}).get("type")


def _claims_differ(old: Document, new: Document) -> bool:
    parts = ("allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus")
    before, after = old.get("status") or {}, new.get("status") or {}
    return any(before.get(one) != after.get(one) for one in parts) or old["spec"] != new["spec"]


_DIFFERENCES: Final[dict[Resource, Callable[[Document, Document], bool]]] = {
    PODS: _pods_differ,
    SERVICES: _services_differ,
    PERSISTENT_VOLUME_CLAIMS: _claims_differ,
}
