"""Strategy of PersistentVolumeClaims.

Upstream: pkg/registry/core/persistentvolumeclaim/strategy.go,
pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimUpdate
"""

from __future__ import annotations

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document, copy_of, name_of, namespace_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, key_problems
from kubesched.cluster.apiserver.kinds.internal_form import internal_diff, is_same
from kubesched.cluster.apiserver.kinds.quantities import (
    check_amount,
    check_basic_amount,
    is_native,
    round_list,
)
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector
from kubesched.cluster.apiserver.kinds.volume_claims import check_claim_spec
from kubesched.cluster.apiserver.kinds.volume_defaults import default_claim_spec
from kubesched.cluster.apiserver.kinds.volume_warnings import claim_size_warnings
from kubesched.cluster.apiserver.strategy import Request, Strategy

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_RESIZE_STATUSES = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending",
    "NodeResizeInProgress", "NodeResizeInfeasible",
)  # fmt: skip
_ATTRIBUTES = "spec.volumeAttributesClassName"


def _annotations(document: Document) -> dict[str, str]:
    return document["metadata"].get("annotations") or {}


class PersistentVolumeClaimStrategy(Strategy):
    """Strategy of claims."""

    bumps_generation = False
    returns_deleted_object = True

    def default(self, document: Document) -> None:
        """Set the defaults of a claim."""
        default_claim_spec(document.setdefault("spec", {}))
        status = document.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"
        round_list(status.get("capacity"))
        round_list(status.get("allocatedResources"))

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Set phase Pending; keep dataSource and dataSourceRef consistent."""
        document["status"] = {"phase": "Pending"}
        _settle_sources(document["spec"], None)

    def prepare_for_update(self, new: Document, old: Document, request: Request) -> None:
        """Keep dataSource and dataSourceRef consistent."""
        _settle_sources(new["spec"], old.get("spec") or {})

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a claim; return the errors."""
        out: list[Problem] = []
        check_claim_spec(document["spec"], "spec", out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a claim."""
        out: list[Problem] = []
        spec, before = new["spec"], old.get("spec") or {}
        loose: list[Problem] = []
        check_label_selector(before.get("selector"), "", loose)
        has_group = any(
            (before.get(name) or {}).get("apiGroup") is not None
            for name in ("dataSource", "dataSourceRef")
        )
        check_claim_spec(
            spec, "spec", out, allow_invalid_values=bool(loose), allow_invalid_group=has_group
        )
        _check_change(new, old, out)
        return out

    def validate_status_update(
        self, new: Document, old: Document, request: Request
    ) -> list[Problem]:
        """Validate a status update."""
        out: list[Problem] = []
        status = new.get("status") or {}
        if not (new.get("spec") or {}).get("accessModes"):
            out.append(required("Spec.accessModes"))
        for name, text in (status.get("capacity") or {}).items():
            check_basic_amount(text, f"status.capacity[{name}]", out)
        path = "status.allocatedResourceStatuses"
        for name, value in (status.get("allocatedResourceStatuses") or {}).items():
            _check_resource_key(name, path, out)
            if value not in _RESIZE_STATUSES:
                out.append(not_supported(path, name, sorted(_RESIZE_STATUSES)))
        path = "status.allocatedResources"
        for name, text in (status.get("allocatedResources") or {}).items():
            count = len(out)
            _check_resource_key(name, path, out)
            if len(out) == count:
                check_basic_amount(text, f"{path}[{name}]", out)
            if len(out) == count:
                check_amount("storage", text, f"{path}[{name}]", out)
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a claim."""
        found = []
        if _BETA_CLASS in _annotations(document):
            text = 'deprecated since v1.8; use "storageClassName" attribute instead'
            found.append(f"metadata.annotations[{_BETA_CLASS}]: {text}")
        return found + claim_size_warnings(document["spec"], "spec")

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        name = name_of(document)
        namespace = namespace_of(document)
        return {"metadata.name": name, "metadata.namespace": namespace, "name": name}


def _settle_sources(spec: Document, old: Document | None) -> None:
    # Parity: pkg/api/persistentvolumeclaim/util.go DropDisabledFields,
    # EnforceDataSourceBackwardsCompatibility, NormalizeDataSources, v1.36
    before = old or {}
    ref = spec.get("dataSourceRef")
    if ref is not None and ref.get("namespace") and before.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    was_used = before.get("dataSource") is not None or before.get("dataSourceRef") is not None
    if source is not None and ref is None and not was_used and not _is_known_source(source):
        source = spec.pop("dataSource") and None
    if source is not None and ref is None:
        spec["dataSourceRef"] = _reference(source)
    elif ref is not None and source is None and not ref.get("namespace"):
        spec["dataSource"] = _reference(ref)


def _reference(source: Document) -> Document:
    return {
        "apiGroup": source.get("apiGroup"),
        "kind": source.get("kind") or "",
        "name": source.get("name") or "",
    }


def _is_known_source(source: Document) -> bool:
    pair = (source.get("apiGroup") or "", source.get("kind"))
    return pair in {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}


def _size(holder: Document, *path: str) -> str:
    value = holder
    for step in path:
        value = value.get(step) or {}
    return value.get("storage") or "0"


def _check_change(new: Document, old: Document, out: list[Problem]) -> None:
    spec, before = new["spec"], old.get("spec") or {}
    munged, was = _comparable(new, old, out)
    is_bound = (new.get("status") or {}).get("phase") == "Bound"
    if is_bound:
        _carry(munged, was, "volumeAttributesClassName")
        requests = (munged.get("resources") or {}).get("requests")
        if requests is not None:
            requests["storage"] = _size(before, "resources", "requests")
    if not is_same("PersistentVolumeClaimSpec", munged, was):
        diff = internal_diff("PersistentVolumeClaimSpec", was, munged)
        text = (
            "spec is immutable after creation except resources.requests and "
            f"volumeAttributesClassName for bound claims\n{diff}"
        )
        out.append(forbidden_field("spec", text))
    size = parse_quantity(_size(spec, "resources", "requests"))
    is_less = size < parse_quantity(_size(before, "resources", "requests"))
    if is_less and size <= parse_quantity(_size(old, "status", "capacity")):
        text = "field can not be less than status.capacity"
        out.append(forbidden_field("spec.resources.requests.storage", text))
    if spec.get("volumeMode") != before.get("volumeMode"):
        out.append(invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE))
    name = spec.get("volumeAttributesClassName")
    current = (old.get("status") or {}).get("currentVolumeAttributesClassName")
    if name != before.get("volumeAttributesClassName") and current is not None:
        end = "is forbidden when status.currentVolumeAttributesClassName is not nil"
        if name is None:
            out.append(forbidden_field(_ATTRIBUTES, f"update to nil {end}"))
        elif not name:
            out.append(forbidden_field(_ATTRIBUTES, f"update to empty string {end}"))


def _carry(new: Document, old: Document, name: str) -> None:
    if old.get(name) is None:
        new.pop(name, None)
    else:
        new[name] = old[name]


def _comparable(new: Document, old: Document, out: list[Problem]) -> tuple[Document, Document]:
    """Return both specs with the mutable fields made equal."""
    munged: Document = copy_of(new["spec"])
    was: Document = copy_of(old.get("spec") or {})
    if not was.get("volumeName"):
        _carry(was, munged, "volumeName")
    name, before = munged.get("storageClassName"), was.get("storageClassName")
    annotation, old_annotation = (_annotations(one).get(_BETA_CLASS) for one in (new, old))
    is_moved = (
        old_annotation is not None
        and before is None
        and name == old_annotation
        and annotation in {None, old_annotation}
    )
    if is_moved:
        munged.pop("storageClassName")
        return munged, was
    if (annotation or "") != (old_annotation or ""):
        path = f"metadata.annotations.{_BETA_CLASS}"
        out.append(invalid(path, annotation or "", IMMUTABLE))
    if name is not None and before is None and old_annotation in {None, name}:
        munged.pop("storageClassName")
    return munged, was


def _check_resource_key(name: str, path: str, out: list[Problem]) -> None:
    texts = key_problems(name)
    out.extend(invalid(path, name, text) for text in texts)
    if not texts and is_native(name) and name != "storage":
        out.append(not_supported(path, name, ["storage"]))
