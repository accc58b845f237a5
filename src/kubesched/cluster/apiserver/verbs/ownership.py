"""Records field managers for a write.

The bookkeeping is in patch.managed_fields.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document, metadata_of
from kubesched.cluster.apiserver.patch.field_sets import FieldSet, paths
from kubesched.cluster.apiserver.patch.managed_fields import Manager, track_create, track_update
from kubesched.cluster.apiserver.patch.reset_fields import custom_reset_fields, reset_fields
from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Request
from kubesched.cluster.apiserver.verbs.context import WriteOptions


def reset_of(resource: Resource, subresource: str) -> FieldSet:
    """Return the fields that a write of the subresource resets."""
    if resource.is_custom:
        return custom_reset_fields(subresource, has_status="status" in resource.views)
    return reset_fields(resource.group, resource.resource, subresource)


def manager_of(
    resource: Resource, request: Request, options: WriteOptions, operation: str = "Update"
) -> Manager:
    """Return the field manager."""
    return Manager(
        name=options.field_manager,
        operation=operation,
        api_version=resource.api_version,
        time=request.now,
        subresource=request.subresource,
        reset_fields=reset_of(resource, request.subresource),
    )


def track_created(
    resource: Resource, document: Document, request: Request, options: WriteOptions
) -> None:
    """Set managedFields of a new object."""
    track_create(resource.schema, document, manager_of(resource, request, options))


def track_updated(
    resource: Resource, old: Document, new: Document, request: Request, options: WriteOptions
) -> None:
    """Set managedFields of an updated object."""
    track_update(resource.schema, old, new, manager_of(resource, request, options))


def put_back(resource: Resource, new: Document, old: Document, subresource: str) -> None:
    """Reset fields that a write of this subresource must not change."""
    if subresource == "status":
        for key in [*new, *old]:
            if key not in {"metadata", "status"}:
                _restore(new, old, (key,))
    elif resource.strategy.has_status and not subresource:
        _restore(new, old, ("status",))
    for path in paths(reset_of(resource, subresource)):
        names = tuple(step.removeprefix("f:") for step in path)
        if names == ("metadata",):
            for name in ("labels", "annotations", "finalizers", "ownerReferences"):
                _restore(metadata_of(new), metadata_of(old), (name,))
        else:
            _restore(new, old, names)


def _restore(new: dict[str, Any], old: dict[str, Any], path: tuple[str, ...]) -> None:
    *parents, last = path
    for name in parents:
        old = old.get(name) or {}
        if not isinstance(new.get(name), dict):
            if last not in old:
                return
            new[name] = {}
        new = new[name]
    if last in old:
        new[last] = old[last]
    else:
        new.pop(last, None)
