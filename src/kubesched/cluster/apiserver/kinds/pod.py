"""Strategies of pods and their subresources status, ephemeralcontainers and resize.

Upstream: pkg/registry/core/pod/strategy.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import (
    Document,
    copy_of,
    labels_of,
    name_of,
    namespace_of,
)
from kubesched.cluster.apiserver.errors import Problem, forbidden_field
from kubesched.cluster.apiserver.kinds.annotations import APP_ARMOR, check_profiles_match
from kubesched.cluster.apiserver.kinds.internal_form import is_same
from kubesched.cluster.apiserver.kinds.pod_actions import set_condition
from kubesched.cluster.apiserver.kinds.pod_defaults import default_pod
from kubesched.cluster.apiserver.kinds.pod_options import (
    STRICT_POD,
    all_containers,
    options_for_update,
    pod_affinity_terms,
)
from kubesched.cluster.apiserver.kinds.pod_resize import check_pod_resize, keep_all_but_resources
from kubesched.cluster.apiserver.kinds.pod_spec import (
    KnownSpecs,
    check_pod_metadata_and_spec,
    spec_key,
)
from kubesched.cluster.apiserver.kinds.pod_status import (
    check_pod_status,
    drop_disabled_status,
    keep_observed_generations,
)
from kubesched.cluster.apiserver.kinds.pod_updates import (
    annotations_of,
    check_ephemeral_update,
    check_pod_update,
)
from kubesched.cluster.apiserver.kinds.pod_warnings import pod_warnings
from kubesched.cluster.apiserver.kinds.qos import qos_class
from kubesched.cluster.apiserver.names import label_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

_VALID = KnownSpecs()
_UNREMARKABLE = KnownSpecs()
_INIT_ANNOTATIONS = frozenset({
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
})  # fmt: skip


class PodStrategy(Strategy):
    """Strategy of pods."""

    default_grace_period_s = 30
    returns_deleted_object = True
    keeps_status_on_create = True

    def default(self, document: Document) -> None:
        """Set the defaults of a pod."""
        default_pod(document)
        annotations = document["metadata"].get("annotations")
        if annotations and not _INIT_ANNOTATIONS.isdisjoint(annotations):
            for key in _INIT_ANNOTATIONS & annotations.keys():
                del annotations[key]

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Set phase Pending and the QoS class; merge matchLabelKeys into selectors."""
        spec = document["spec"]
        # Parity: upstream keeps a qosClass that the request sets.
        quality = (document.get("status") or {}).get("qosClass") or qos_class(spec)
        status = document["status"] = {"phase": "Pending", "qosClass": quality}
        document["metadata"]["generation"] = 1
        drop_disabled(spec, None)
        if spec.get("schedulingGates"):
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            set_condition(status, condition, request.now)
        _merge_label_keys(document)
        if annotations_of(document):
            _apply_app_armor_annotations(document, request)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Increment the generation if the spec changes."""
        drop_disabled(new["spec"], old["spec"])
        count_generation(new, old)

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a new pod; return the errors."""
        key = spec_key(document)
        if _VALID.has(key):
            return []
        out: list[Problem] = []
        spec = document["spec"]
        check_pod_metadata_and_spec(document, STRICT_POD, out)
        if spec.get("ephemeralContainers"):
            out.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            text = "cannot be set until all schedulingGates have been cleared"
            out.append(forbidden_field("spec.nodeName", text))
        check_profiles_match(annotations_of(document), spec, "spec", out)
        if not out:
            _VALID.add(key)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a pod."""
        options = options_for_update(old["spec"], annotations_of(old), is_pod=True)
        return check_pod_update(new, old, options)

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep fields that a status update must not drop."""
        status, old_status = new.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass") and old_status.get("qosClass"):
            status["qosClass"] = old_status["qosClass"]
        keep_observed_generations(status, old_status)
        drop_disabled_status(status, old_status)

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        options = options_for_update(old["spec"], annotations_of(old), is_pod=True)
        return check_pod_status(new, old, options)

    def grace_period_s(self, document: Document, requested: int | None) -> int | None:
        """Return the grace period of a deletion; 0 for pods that no kubelet runs."""
        spec, phase = document["spec"], (document.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
            return 0
        grace = spec.get("terminationGracePeriodSeconds") if requested is None else requested
        return 1 if (grace or 0) < 0 else (grace or 0)

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a new pod."""
        if old is not None:
            return []
        warnings = []
        if texts := label_problems(name_of(document)):
            listed = " ".join(texts)
            warnings.append(
                "metadata.name: this is used in the Pod's hostname, which can result in "
                f"surprising behavior; a DNS label is recommended: [{listed}]"
            )
        key = spec_key(document)
        if _UNREMARKABLE.has(key):
            return warnings
        spec_warnings = pod_warnings(document, "")
        if not spec_warnings:
            _UNREMARKABLE.add(key)
        return warnings + spec_warnings

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        spec, status = document["spec"], document.get("status") or {}
        addresses = status.get("podIPs")
        return {
            "metadata.name": name_of(document),
            "metadata.namespace": namespace_of(document),
            "spec.nodeName": spec.get("nodeName") or "",
            "spec.restartPolicy": spec.get("restartPolicy") or "",
            "spec.schedulerName": spec.get("schedulerName") or "",
            "spec.serviceAccountName": spec.get("serviceAccountName") or "",
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase") or "",
            "status.podIP": (addresses[0].get("ip") or "") if addresses else "",
            "status.nominatedNodeName": status.get("nominatedNodeName") or "",
        }


class EphemeralContainersStrategy(PodStrategy):
    """Strategy of the subresource ephemeralcontainers."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Copy the ephemeral containers and nothing else."""
        containers = new["spec"].get("ephemeralContainers")
        keep_metadata(new, old)
        new["spec"] = copy_of(old["spec"])
        new["status"] = copy_of(old.get("status") or {})
        if containers:
            new["spec"]["ephemeralContainers"] = containers
        else:
            new["spec"].pop("ephemeralContainers", None)
        count_generation(new, old)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate the ephemeral containers; return the errors."""
        options = options_for_update(old["spec"], annotations_of(old), is_pod=True)
        return check_ephemeral_update(new, old, options)


class ResizeStrategy(PodStrategy):
    """Strategy of the subresource resize."""

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Copy resources and resize policies, and nothing else."""
        if keep_all_but_resources(new, old):
            keep_metadata(new, old)
        new["status"] = copy_of(old.get("status") or {})
        count_generation(new, old)

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate the new resources; return the errors."""
        options = options_for_update(old["spec"], annotations_of(old), is_pod=True)
        return check_pod_resize(new, old, options)


def keep_metadata(new: Document, old: Document) -> None:
    """Reset metadata that a status update must not change, as ResetObjectMetaForStatus."""
    for name in (
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ):
        if name in old["metadata"]:
            new["metadata"][name] = copy_of(old["metadata"][name])
        else:
            new["metadata"].pop(name, None)


def count_generation(new: Document, old: Document) -> None:
    """Increment the generation if the spec changed semantically."""
    generation = old["metadata"].get("generation") or 0
    if not is_same("PodSpec", new["spec"], old["spec"]):
        generation += 1
    if generation:
        new["metadata"]["generation"] = generation


def drop_disabled(spec: Document, old: Document | None) -> None:
    """Drop fields of features that are off by default, unless the old object uses them."""
    # Parity: pkg/api/pod/util.go dropDisabledFields, v1.36 with default gates
    if spec.get("schedulingGroup") is not None and not (old or {}).get("schedulingGroup"):
        del spec["schedulingGroup"]
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            source.pop("clusterTrustBundle", None)
            source.pop("podCertificate", None)
    for _, _, container in all_containers(spec):
        lifecycle = container.get("lifecycle")
        if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del container["lifecycle"]


def _merge_label_keys(pod: Document) -> None:
    """Merge matchLabelKeys and mismatchLabelKeys into the selectors."""
    spec, labels = pod["spec"], labels_of(pod)
    if spec.get("affinity"):
        for term in pod_affinity_terms(spec):
            _merge(term, "matchLabelKeys", "In", labels)
            _merge(term, "mismatchLabelKeys", "NotIn", labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, "matchLabelKeys", "In", labels)


def _merge(holder: Document, name: str, operator: str, labels: dict[str, str]) -> None:
    keys, selector = holder.get(name), holder.get("labelSelector")
    if not keys or selector is None:
        return
    for key in keys:
        if key in labels:
            expression = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(expression)


def _apply_app_armor_annotations(pod: Document, request: Request) -> None:
    spec = pod["spec"]
    if (spec.get("os") or {}).get("name") == "windows":
        return
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    for _, _, container in all_containers(spec):
        key = f"{APP_ARMOR}{container.get('name') or ''}"
        annotation = annotations_of(pod).get(key)
        context = container.get("securityContext") or {}
        if annotation is None or context.get("appArmorProfile") is not None:
            continue
        profile = _app_armor_field(annotation)
        if profile is not None and profile != whole:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != whole:
            request.warnings.append(
                f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" '
                "field instead"
            )


def _app_armor_field(annotation: str) -> Document | None:
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    local = annotation.removeprefix("localhost/")
    if local and local != annotation and local.strip() == local and len(local) <= 4095:
        return {"type": "Localhost", "localhostProfile": local}
    return None
