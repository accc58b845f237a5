"""Fields that a strategy resets on write, so that writers do not own them.

Upstream: GetResetFields of the strategies in pkg/registry and
staging/src/k8s.io/apiextensions-apiserver/pkg/registry
"""

from __future__ import annotations

from typing import Final

from kubesched.cluster.apiserver.patch.field_sets import FieldSet, from_paths

_NOTHING: Final[FieldSet] = {}
_STATUS: Final = from_paths(("status",))
_SPEC: Final = from_paths(("spec",))
_METADATA_AND_SPEC: Final = from_paths(("metadata",), ("spec",))

_STATUS_KEEPS_METADATA: Final = frozenset({
    ("", "namespaces"), ("", "nodes"), ("", "persistentvolumes"), ("", "persistentvolumeclaims"),
    ("", "replicationcontrollers"), ("", "resourcequotas"), ("", "services"),
    ("apps", "daemonsets"), ("apps", "replicasets"), ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"), ("batch", "cronjobs"), ("batch", "jobs"),
    ("certificates.k8s.io", "podcertificaterequests"), ("networking.k8s.io", "ingresses"),
    ("policy", "poddisruptionbudgets"), ("apiextensions.k8s.io", "customresourcedefinitions"),
})  # fmt: skip
_STATUS_TAKES_METADATA: Final = frozenset({
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"), ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("scheduling.k8s.io", "podgroups"), ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
    ("apiregistration.k8s.io", "apiservices"),
})  # fmt: skip
_OWN: Final[dict[tuple[str, str, str], FieldSet]] = {
    ("", "pods", ""): _STATUS,
    ("", "pods", "status"): from_paths(
        ("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")
    ),
    ("", "namespaces", "finalize"): _STATUS,
    ("apps", "deployments", ""): _STATUS,
    ("apps", "deployments", "status"): from_paths(("spec",), ("metadata", "labels")),
    ("certificates.k8s.io", "certificatesigningrequests", ""): from_paths(("spec",), ("status",)),
    ("certificates.k8s.io", "certificatesigningrequests", "status"): from_paths(
        ("spec",), ("status", "conditions")
    ),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"): from_paths(
        ("spec",), ("status", "certificate")
    ),
    ("certificates.k8s.io", "podcertificaterequests", ""): _NOTHING,
}


def reset_fields(group: str, resource: str, subresource: str = "") -> FieldSet:
    """Return the fields that writes of a built-in resource reset."""
    own = _OWN.get((group, resource, subresource))
    if own is not None:
        return own
    if (group, resource) in _STATUS_KEEPS_METADATA:
        return {"": _STATUS, "status": _SPEC}.get(subresource, _NOTHING)
    if (group, resource) in _STATUS_TAKES_METADATA:
        return {"": _STATUS, "status": _METADATA_AND_SPEC}.get(subresource, _NOTHING)
    return _NOTHING


def custom_reset_fields(subresource: str, *, has_status: bool) -> FieldSet:
    """Return the fields that writes of a custom resource reset."""
    if subresource == "status":
        return _METADATA_AND_SPEC
    return _STATUS if has_status and not subresource else _NOTHING
