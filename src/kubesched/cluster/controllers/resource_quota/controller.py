"""ResourceQuotas: keeps status.used up to date.

Owns when usage is recounted, and the writes. The usage of an object is `usage`'s. Never rejects
anything: admission does, by the status.
Upstream: pkg/controller/resourcequota/{resource_quota_controller,resource_quota_monitor}.go
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kubesched.api.documents import Document, key_of, namespace_of
from kubesched.api.quantity import parse_quantity
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
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.discovery import discover_resources
from kubesched.cluster.controllers.resource_quota.usage import (
    Usage,
    is_charged,
    resource_of_name,
    total_usage,
)
from kubesched.cluster.informers.informer import Informer

_RESYNC_S: Final = 300.0
_REDISCOVER_S_MIN: Final = 5.0
_POLL_S: Final = 0.02
# Admission has charged a new object already; recount when the watch has surely delivered it.
_RECOUNT_S: Final = 1.0
_OBJECTS_A_SECOND: Final = 2000
# Parity: pkg/quota/v1/install/registry.go ignoredResources, v1.36: those that are stored.
_IGNORED: Final = (CORE_EVENTS, EVENTS)


class ResourceQuotaController(Controller):
    """Updates the usage of quotas."""

    name = "resourcequota"
    component = "resourcequota-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._quotas = context.informers.of(RESOURCE_QUOTAS)
        self._informers: dict[Resource, Informer] = {}
        self._resources: dict[str, Resource] = {}
        """Resources counted by `count/` names, by plural and group."""
        self._discovered_at_s = float("-inf")
        for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS):
            self._watch(resource, context.informers.of(resource))
        self._quotas.on_change(self._quota_changed)

    # -- events -----------------------------------------------------------------------------------

    def _quota_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or _hard_limits(old) != _hard_limits(new) or not _has_usage(new):
            self.queue.add(key_of(new))

    def _watch(self, resource: Resource, informer: Informer) -> None:
        self._informers[resource] = informer
        informer.on_change(partial(self._object_changed, resource))

    def _object_changed(
        self, resource: Resource, old: Document | None, new: Document | None
    ) -> None:
        document = new or old
        if document is None or not (quotas := self._quotas.in_namespace(namespace_of(document))):
            return
        if old is None:
            count = len(self._informers[resource].in_namespace(namespace_of(document)))
            delay_s = max(_RECOUNT_S, count / _OBJECTS_A_SECOND)
        elif new is None or self._has_changed(resource, old, new):
            delay_s = 0.0
        else:
            return
        for quota in quotas:
            if any(self._resource_of(name) == resource for name in _hard_limits(quota)):
                self.queue.add_after(key_of(quota), delay_s)

    def _has_changed(self, resource: Resource, old: Document, new: Document) -> bool:
        """Return whether a change may affect an object's usage."""
        # Parity: pkg/quota/v1/install/update_filter.go DefaultUpdateFilter, v1.36.
        differs = _CHANGE_FILTERS.get(resource)
        if differs is not None and differs(old, new):
            return True
        now_s = self.clock.now_s()
        return resource == PODS and is_charged(old, now_s) and not is_charged(new, now_s)

    async def run_background(self) -> None:
        """Recount periodically: a pod stuck in termination is discharged by time alone."""
        while True:
            await self.clock.sleep(_RESYNC_S)
            for quota in self._quotas:
                self.queue.add(key_of(quota))

    # -- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Update the status of one quota."""
        quota = self._quotas.get(key)
        if quota is None:
            return
        hard, status = _hard_limits(quota), quota.get("status") or {}
        usage = await self._usage(quota)
        if usage is None:
            self.queue.add_after(key, _POLL_S)
            return
        used_before = status.get("used") or {}
        used = {
            name: str(usage[name]) if name in usage else used_before[name]
            for name in hard
            if name in usage or name in used_before
        }
        is_same = _numbers(used) == _numbers(used_before) and "used" in status
        if is_same and _numbers(status.get("hard") or {}) == _numbers(hard) and "hard" in status:
            return
        updated = {**quota, "status": {"hard": hard, "used": used}}
        await self.api.update_status(RESOURCE_QUOTAS, updated)

    async def _usage(self, quota: Document) -> Usage | None:
        """Return the usage; None if a resource has not synced yet."""
        by_resource: dict[Resource, list[str]] = {}
        for name in _hard_limits(quota):
            resource = self._resource_of(name) or await self._discover(name)
            if resource is not None:
                by_resource.setdefault(resource, []).append(name)
        usage: Usage = {}
        for resource, names in by_resource.items():
            # Metadata suffices for counting.
            informer = self.informers.metadata_of(resource)
            # A resource that was removed and added again has a new informer.
            if self._informers.get(resource) is not informer:
                self._watch(resource, informer)
            if not informer.has_synced:
                return None
            objects = informer.in_namespace(namespace_of(quota))
            usage |= total_usage(resource, objects, names, quota, self.clock.now_s())
        return usage

    def _resource_of(self, name: str) -> Resource | None:
        kind = resource_of_name(name)
        return self._resources.get(kind) if isinstance(kind, str) else kind

    async def _discover(self, name: str) -> Resource | None:
        """Return the resource that a name counts, refreshing discovery if due."""
        now_s = self.clock.monotonic_s()
        if (
            not isinstance(resource_of_name(name), str)
            or now_s - self._discovered_at_s < _REDISCOVER_S_MIN
        ):
            return None
        self._discovered_at_s = now_s
        served = await discover_resources(self.api.client)
        self._resources = {
            one.resource.group_resource: one.resource
            for one in served.preferred
            if one.resource.namespaced
            and one.resource not in _IGNORED
            and one.supports("create", "list", "watch", "delete")
        }
        return self._resource_of(name)


def _hard_limits(quota: Document) -> dict[str, str]:
    hard: dict[str, str] = (quota.get("spec") or {}).get("hard") or {}
    return hard


def _has_usage(quota: Document) -> bool:
    status = quota.get("status") or {}
    used = status.get("used") or {}
    return status.get("hard") == _hard_limits(quota) and all(
        name in used for name in _hard_limits(quota)
    )


def _numbers(amounts: dict[str, str]) -> dict[str, object]:
    return {name: parse_quantity(text) for name, text in amounts.items()}


def _pods_differ(old: Document, new: Document) -> bool:
    if (old["spec"].get("activeDeadlineSeconds") is None) != (
        new["spec"].get("activeDeadlineSeconds") is None
    ):
        return True
    before, after = _allocated_resources(old), _allocated_resources(new)
    return any(name in after and after[name] != resources for name, resources in before.items())


def _allocated_resources(pod: Document) -> dict[str, object]:
    """Return the resources of a pod's containers by name."""
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
    fields = ("allocatedResources", "currentVolumeAttributesClassName", "modifyVolumeStatus")
    before, after = old.get("status") or {}, new.get("status") or {}
    return (
        any(before.get(field) != after.get(field) for field in fields) or old["spec"] != new["spec"]
    )


_CHANGE_FILTERS: Final[dict[Resource, Callable[[Document, Document], bool]]] = {
    PODS: _pods_differ,
    SERVICES: _services_differ,
    PERSISTENT_VOLUME_CLAIMS: _claims_differ,
}
