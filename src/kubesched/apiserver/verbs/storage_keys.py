"""Where upstream keeps objects in etcd, as its messages name them.

Owns nothing that is stored here.
Upstream: pkg/kubeapiserver/default_storage_factory_builder.go SpecialDefaultResourcePrefixes
"""

from __future__ import annotations

from typing import Final

from kubesched.apiserver.errors import ApiError, conflict
from kubesched.apiserver.resources import Resource

_SPECIAL: Final = {
    ("", "replicationcontrollers"): "controllers",
    ("", "endpoints"): "services/endpoints",
    ("", "services"): "services/specs",
    ("", "nodes"): "minions",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_GROUPED: Final = {"apiextensions.k8s.io", "apiregistration.k8s.io"}


def storage_key(resource: Resource, namespace: str, name: str) -> str:
    """Return the key of an object in etcd."""
    prefix = _SPECIAL.get((resource.group, resource.resource), resource.resource)
    if resource.is_custom or resource.group in _GROUPED:
        prefix = f"{resource.group}/{resource.resource}"
    within = f"{namespace}/{name}" if resource.is_namespaced else name
    return f"/registry/{prefix}/{within}"


def wrong_uid(
    resource: Resource, namespace: str, name: str, *, wanted: str, found: str | None
) -> ApiError:
    """Return the refusal of a write that names another object's UID."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {storage_key(resource, namespace, name)}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"{wanted}, UID in object meta: {found or ''}"
    )
    return conflict(resource.error_group, resource.resource, name, why)
