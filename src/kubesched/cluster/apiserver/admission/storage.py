"""DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.

Upstream: plugin/pkg/admission/storage/{storageclass/setdefault,storageobjectinuseprotection,
persistentvolume/resize}/admission.go
"""

from __future__ import annotations

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.admission.rejections import Plugin, is_about, rejection
from kubesched.cluster.apiserver.documents import Document, name_of
from kubesched.cluster.apiserver.strategy import Request

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_BETA_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
_FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


def _annotations(document: Document) -> dict[str, str]:
    return (document.get("metadata") or {}).get("annotations") or {}


class DefaultStorageClass(Plugin):
    """Gives claims that name no class the default one."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Set the class of a new claim."""
        if new is None or old is not None or not is_about(request, "persistentvolumeclaims"):
            return
        spec = new.setdefault("spec", {})
        if spec.get("storageClassName") is not None or BETA_CLASS in _annotations(new):
            return
        found = default_storage_class(request)
        if found is not None:
            spec["storageClassName"] = name_of(found)


def default_storage_class(request: Request) -> Document | None:
    """Return the newest default class; among equals the first by name."""
    # Parity: pkg/volume/util/storageclass.go GetDefaultClass, v1.36
    defaults = [
        one
        for one in request.reader.list("storage.k8s.io", "storageclasses")
        if "true" in (_annotations(one).get(_DEFAULT), _annotations(one).get(_BETA_DEFAULT))
    ]
    defaults.sort(key=name_of)
    defaults.sort(key=lambda one: one["metadata"].get("creationTimestamp") or "", reverse=True)
    return defaults[0] if defaults else None


class StorageObjectInUseProtection(Plugin):
    """Keeps volumes and claims while they are in use."""

    def admit(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Add the finalizer."""
        finalizer = _FINALIZERS.get((request.group, request.resource))
        if finalizer is None or new is None or old is not None or request.subresource:
            return
        metadata = new["metadata"]
        if finalizer not in (metadata.get("finalizers") or ()):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]


class PersistentVolumeClaimResize(Plugin):
    """Rejects expansion of a claim whose class does not allow it."""

    def validate(self, new: Document | None, old: Document | None, request: Request) -> None:
        """Reject an expansion that the class does not allow."""
        if new is None or old is None or not is_about(request, "persistentvolumeclaims"):
            return
        before, after = _size(old), _size(new)
        if before is None or after is None or parse_quantity(after) <= parse_quantity(before):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise rejection(new, request, "Only bound persistent volume claims can be expanded")
        name = _class_name(new)
        is_stored = bool(name) and name == _class_name(old)
        found = (
            request.reader.get("storage.k8s.io", "storageclasses", "", name) if is_stored else None
        )
        if found is None or not found.get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that "
                "provisions the pvc must support resize"
            )
            raise rejection(new, request, why)


def _class_name(claim: Document) -> str:
    name = (claim.get("spec") or {}).get("storageClassName") or ""
    return _annotations(claim).get(BETA_CLASS, name)


def _size(claim: Document) -> str | None:
    resources = (claim.get("spec") or {}).get("resources") or {}
    size: str | None = (resources.get("requests") or {}).get("storage")
    return size
