"""Strategy of PersistentVolumes.

Upstream: pkg/registry/core/persistentvolume/strategy.go,
pkg/apis/core/validation/validation.go ValidatePersistentVolume
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from kubesched.cluster.apiserver.documents import Document, copy_of, name_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds import volume_sources as sources
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE
from kubesched.cluster.apiserver.kinds.internal_form import internal_diff, internal_form, is_same
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.pod_warnings import node_term_warnings
from kubesched.cluster.apiserver.kinds.quantities import (
    check_basic_amount,
    check_positive_amount,
    round_list,
)
from kubesched.cluster.apiserver.kinds.selectors import check_node_selector
from kubesched.cluster.apiserver.kinds.volume_claims import VOLUME_MODES, check_access_modes
from kubesched.cluster.apiserver.kinds.volume_defaults import default_shared_sources
from kubesched.cluster.apiserver.kinds.volumes import SECOND
from kubesched.cluster.apiserver.names import subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

Check = Callable[[Document, str, list[Problem]], None]
_RECLAIM = ("Delete", "Recycle", "Retain")
_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
# By field: its name in the error about a second source, its name in paths, and the validation.
_SOURCES: dict[str, tuple[str, str, Check]] = {
    "hostPath": ("hostPath", "hostPath", sources.check_host_path),
    "gcePersistentDisk": ("gcePersistentDisk", "persistentDisk", sources.check_gce_disk),
    "awsElasticBlockStore": (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        sources.check_aws_disk,
    ),
    "glusterfs": ("glusterfs", "glusterfs", sources.check_persistent_glusterfs),
    "flocker": ("flocker", "flocker", sources.check_flocker),
    "nfs": ("nfs", "nfs", sources.check_nfs),
    "rbd": ("rbd", "rbd", sources.needs("monitors", "image")),
    "quobyte": ("quobyte", "quobyte", sources.check_quobyte),
    "cephfs": ("cephFS", "cephfs", sources.needs("monitors")),
    "iscsi": ("iscsi", "iscsi", sources.check_persistent_iscsi),
    "cinder": ("cinder", "cinder", sources.check_persistent_cinder),
    "fc": ("fc", "fc", sources.check_fc),
    "flexVolume": ("flexVolume", "flexVolume", sources.check_flex_volume),
    "azureFile": ("azureFile", "azureFile", sources.check_persistent_azure_file),
    "vsphereVolume": ("vsphereVolume", "vsphereVolume", sources.needs("volumePath")),
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "photonPersistentDisk",
        sources.needs("pdID"),
    ),
    "portworxVolume": ("portworxVolume", "portworxVolume", sources.needs("volumeID")),
    "azureDisk": ("azureDisk", "azureDisk", sources.check_azure_disk),
    "scaleIO": ("scaleIO", "scaleIO", sources.needs("gateway", "system", "volumeName")),
    "local": ("local", "local", sources.check_local_volume),
    "storageos": ("storageos", "storageos", sources.check_persistent_storage_os),
    "csi": ("csi", "csi", sources.check_persistent_csi),
}
_GONE = (
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk",
     "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)  # fmt: skip


class PersistentVolumeStrategy(Strategy):
    """Strategy of persistent volumes."""

    bumps_generation = False
    returns_deleted_object = True

    def default(self, document: Document) -> None:
        """Set the defaults of a volume."""
        spec = document.setdefault("spec", {})
        status = document.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        if spec.get("volumeMode") is None:
            spec["volumeMode"] = "Filesystem"
        round_list(spec.get("capacity"))
        default_shared_sources(spec)

    def prepare_for_create(self, document: Document, request: Request) -> None:
        """Set phase Pending."""
        document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": request.now}

    def prepare_for_status_update(self, new: Document, old: Document, request: Request) -> None:
        """Set lastPhaseTransitionTime if the phase changes."""
        status, before = new.setdefault("status", {}), old.get("status") or {}
        changed = (status.get("phase") or "") != (before.get("phase") or "")
        time, old_time = (part.get("lastPhaseTransitionTime") for part in (status, before))
        if not changed and time is None and old_time is not None:
            status["lastPhaseTransitionTime"] = old_time
        elif changed and (time is None or time == old_time):
            status["lastPhaseTransitionTime"] = request.now

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate a volume; return the errors."""
        out: list[Problem] = []
        _check_volume(document, PodOptions(), out)
        _check_mount_options(document, out)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of a volume."""
        out: list[Problem] = []
        options = PodOptions(invalid_node_affinity_values=_has_invalid_values(old))
        _check_volume(new, options, out)
        _check_mount_options(new, out)
        _check_volume(new, options, out)
        _check_change(new.get("spec") or {}, old.get("spec") or {}, out)
        return out

    def warnings(self, document: Document, old: Document | None) -> list[str]:
        """Return warnings about a volume."""
        spec = document.get("spec") or {}
        annotations = document["metadata"].get("annotations") or {}
        found = []
        for key, since, name in (
            ("volume.beta.kubernetes.io/storage-class", "v1.8", "storageClassName"),
            (_MOUNT_OPTIONS, "v1.31", "mountOptions"),
        ):
            if key in annotations:
                text = f'deprecated since {since}; use "{name}" attribute instead'
                found.append(f"metadata.annotations[{key}]: {text}")
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
                "Instead, the recommended approach is to use dynamic provisioning."
            )
        needed = (spec.get("nodeAffinity") or {}).get("required") or {}
        for index, term in enumerate(needed.get("nodeSelectorTerms") or ()):
            path = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]"
            node_term_warnings(term, path, found, checks_values=False)
        found += [
            f"spec.{field}: {text}" for kind, field, text in _GONE if spec.get(kind) is not None
        ]
        return found

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields."""
        name = name_of(document)
        return {"metadata.name": name, "name": name}


def _has_invalid_values(volume: Document) -> bool:
    needed = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    found: list[Problem] = []
    if needed is not None:
        check_node_selector(needed, "", found)
    return any(".values[" in problem.path for problem in found)


def _check_volume(volume: Document, options: PodOptions, out: list[Problem]) -> None:
    spec = volume.get("spec") or {}
    modes = spec.get("accessModes") or []
    if not modes:
        out.append(required("spec.accessModes"))
    check_access_modes(modes, "spec", out)
    _check_capacity(spec.get("capacity") or {}, out)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        out.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        _check_affinity(affinity, options, out)
    _check_sources(spec, name_of(volume), out)
    _check_rest(spec, out)


def _check_capacity(capacity: dict[str, str], out: list[Problem]) -> None:
    if not capacity:
        out.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        out.append(not_supported("spec.capacity", capacity or None, ["storage"]))
    for name, text in capacity.items():
        check_basic_amount(text, f"spec.capacity[{name}]", out)
        check_positive_amount(text, f"spec.capacity[{name}]", out)


def _check_affinity(affinity: Document, options: PodOptions, out: list[Problem]) -> None:
    needed = affinity.get("required")
    path = "spec.nodeAffinity.required"
    if needed is None:
        out.append(required(path, "must specify required node constraints"))
        return
    loose = options.invalid_node_affinity_values
    check_node_selector(needed, path, out, allow_invalid_values=loose)


def _check_sources(spec: Document, name: str, out: list[Problem]) -> None:
    count = 0
    for kind, (field, place, check) in _SOURCES.items():
        source = spec.get(kind)
        if source is None:
            continue
        if count and kind != "flexVolume":
            out.append(forbidden_field(f"spec.{field}", SECOND))
            continue
        count += 1
        check(source, f"spec.{place}", out)
        if kind == "iscsi" and source.get("initiatorName") is not None:
            portal = source.get("targetPortal") or ""
            if len(f"{name}:{portal}") > 64:
                out.append(invalid("spec.iscsi.targetportal", portal, sources.ISCSI_LENGTH))
        if kind == "local" and spec.get("nodeAffinity") is None:
            text = "Local volume requires node affinity"
            out.append(required("spec.nodeAffinity", text))
    if not count:
        out.append(required("spec", "must specify a volume type"))


def _check_rest(spec: Document, out: list[Problem]) -> None:
    host_path = (spec.get("hostPath") or {}).get("path")
    recycles = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if host_path and recycles and posixpath.normpath(host_path) in {"/", "//"}:
        text = "may not be 'recycle' for a hostPath mount of '/'"
        out.append(forbidden_field("spec.persistentVolumeReclaimPolicy", text))
    name = spec.get("storageClassName")
    if name:
        texts = subdomain_problems(name)
        out.extend(invalid("spec.storageClassName", name, text) for text in texts)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        out.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    name, path = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return
    if not name:
        out.append(required(path, "an empty string is disallowed"))
    else:
        out.extend(invalid(path, name, text) for text in subdomain_problems(name))
    if spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        out.append(required("spec.csi", text))


def _check_mount_options(volume: Document, out: list[Problem]) -> None:
    # Parity: pkg/volume/validation/pv_validation.go ValidatePersistentVolume, v1.36
    spec = volume.get("spec") or {}
    annotations = volume["metadata"].get("annotations") or {}
    supports = any(
        spec.get(kind) is not None
        for kind in (
            "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte",
            "iscsi", "cinder", "cephfs", "azureFile", "vsphereVolume", "azureDisk", "storageos",
            "csi", "portworxVolume",
        )
    )  # fmt: skip
    if _MOUNT_OPTIONS in annotations and not supports:
        text = "may not specify mount options for this volume type"
        out.append(forbidden_field(f"metadata.annotations.{_MOUNT_OPTIONS}", text))


def _check_change(new: Document, old: Document, out: list[Problem]) -> None:
    munged: Document = copy_of(new)
    if old.get("csi") is not None and old["csi"].get("controllerExpandSecretRef") is None:
        (munged.get("csi") or {}).pop("controllerExpandSecretRef", None)
    if not is_same("PersistentVolumeSource", munged, old):
        diff = internal_diff("PersistentVolumeSource", old, munged)
        text = f"spec.persistentvolumesource is immutable after creation\n{diff}"
        out.append(forbidden_field("spec.persistentvolumesource", text))
    if new.get("volumeMode") != old.get("volumeMode"):
        out.append(invalid("volumeMode", new.get("volumeMode"), IMMUTABLE))
    affinity, before = new.get("nodeAffinity"), old.get("nodeAffinity")
    if before is not None and not _is_same_affinity(affinity, before):
        internal = None if affinity is None else internal_form("VolumeNodeAffinity", affinity)
        text = f"{IMMUTABLE}, except for updating from beta label to GA"
        out.append(invalid("nodeAffinity", internal, text))
    name = "volumeAttributesClassName"
    if old.get(name) is not None and new.get(name) is None:
        text = "update from non-nil value to nil is forbidden"
        out.append(forbidden_field(f"spec.{name}", text))


def _is_same_affinity(new: Document | None, old: Document) -> bool:
    if new is None:
        return False
    return new == old or new == _with_stable_labels(new, old)


def _with_stable_labels(new: Document, old: Document) -> Document:
    """Return the old affinity with the beta labels that the new one replaces renamed."""
    renamed: Document = copy_of(old)
    pairs = zip(
        (new.get("required") or {}).get("nodeSelectorTerms") or (),
        (renamed.get("required") or {}).get("nodeSelectorTerms") or (),
        strict=False,
    )
    for new_term, term in pairs:
        for name in ("matchExpressions", "matchFields"):
            both = zip(new_term.get(name) or (), term.get(name) or (), strict=False)
            for new_one, one in both:
                if _BETA_LABELS.get(one.get("key") or "") == new_one.get("key"):
                    one["key"] = new_one["key"]
    return renamed
