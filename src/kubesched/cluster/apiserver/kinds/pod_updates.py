"""Validates pod updates.

Upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate,
ValidatePodEphemeralContainersUpdate, ValidatePodResize
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.errors import Problem, forbidden_field, invalid, required
from kubesched.cluster.apiserver.kinds.annotations import (
    MIRROR,
    check_annotation_changes,
    check_pod_annotations,
)
from kubesched.cluster.apiserver.kinds.checks import INT32_MAX, range_text
from kubesched.cluster.apiserver.kinds.internal_form import internal_diff, internal_form, is_same
from kubesched.cluster.apiserver.kinds.placement import check_tolerations
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.pod_spec import check_pod_metadata_and_spec
from kubesched.golang.strconv import go_quote

_REJECTION = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)\n"
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def annotations_of(pod: Document) -> dict[str, str]:
    """Return a pod's annotations."""
    return pod["metadata"].get("annotations") or {}


def check_annotations(
    new: Document, old: Document, options: PodOptions, out: list[Problem]
) -> None:
    """Validate an update of annotations, adding errors."""
    path = "metadata.annotations"
    check_annotation_changes(annotations_of(new), annotations_of(old), path, out)
    check_pod_annotations(annotations_of(new), new["spec"], path, options, out)


def check_pod_update(new: Document, old: Document, options: PodOptions) -> list[Problem]:
    """Validate an update of a pod."""
    out: list[Problem] = []
    spec, old_spec = new["spec"], old["spec"]
    check_pod_metadata_and_spec(new, options, out)
    check_annotations(new, old, options, out)
    for kind in ("containers", "initContainers"):
        if _check_images(spec.get(kind) or [], old_spec.get(kind) or [], f"spec.{kind}", out):
            return out
    if _check_deadline(spec, old_spec, out):
        return out
    _check_added_tolerations(spec, old_spec, options, out)
    _check_deleted_gates(spec, old_spec, out)
    if is_same("PodSpec", spec, old_spec):
        return out
    munged = _munged(spec, old_spec)
    if old_spec.get("schedulingGates"):
        _check_gated_changes(munged, old_spec, out)
    if not is_same("PodSpec", munged, old_spec):
        text = _REJECTION + internal_diff("PodSpec", old_spec, munged)
        out.append(forbidden_field("spec", text))
    return out


def _check_images(new: list[Document], old: list[Document], path: str, out: list[Problem]) -> bool:
    """Validate images; return whether to stop."""
    if len(new) != len(old):
        out.append(forbidden_field(path, "pod updates may not add or remove containers"))
        return True
    for index, container in enumerate(new):
        image = container.get("image") or ""
        if not image:
            out.append(required(f"{path}[{index}].image"))
        if image.strip() != image:
            text = "must not have leading or trailing whitespace"
            out.append(invalid(f"{path}[{index}].image", image, text))
    return False


def _check_deadline(spec: Document, old_spec: Document, out: list[Problem]) -> bool:
    """Validate a changed deadline; return whether to stop."""
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            text = "must not update from a positive integer to nil value"
            out.append(invalid(path, None, text))
        return False
    if not 0 <= new <= INT32_MAX:
        out.append(invalid(path, new, range_text(0, INT32_MAX)))
        return True
    if old is not None and old < new:
        out.append(invalid(path, new, "must be less than or equal to previous value"))
        return True
    return False


def _check_added_tolerations(
    spec: Document, old_spec: Document, options: PodOptions, out: list[Problem]
) -> None:
    new = spec.get("tolerations") or []
    bare = [_without_seconds(toleration) for toleration in new]
    if any(
        _without_seconds(toleration) not in bare for toleration in old_spec.get("tolerations") or ()
    ):
        text = "existing toleration can not be modified except its tolerationSeconds"
        out.append(forbidden_field("spec.tolerations", text))
        return
    check_tolerations(new, options, "spec.tolerations", out)


def _without_seconds(toleration: Document) -> Document:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _check_deleted_gates(spec: Document, old_spec: Document, out: list[Problem]) -> None:
    known = {gate.get("name") for gate in old_spec.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        if name not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            out.append(forbidden_field(f"spec.schedulingGates[{index}].name", text))


def _munged(spec: Document, old_spec: Document) -> Document:
    """Return the new spec with the mutable fields reset to the old values."""
    munged: Document = copy_of(spec)
    for kind in ("containers", "initContainers"):
        for container, old in zip(munged.get(kind) or (), old_spec.get(kind) or (), strict=True):
            _carry(container, old, "image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _carry(munged, old_spec, name)
    grace = old_spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _carry(new: Document, old: Document, name: str) -> None:
    if old.get(name) is None:
        new.pop(name, None)
    else:
        new[name] = old[name]


def _check_gated_changes(munged: Document, old_spec: Document, out: list[Problem]) -> None:
    """Validate, then reset, fields that only a gated pod may change."""
    new, old = munged.get("nodeSelector") or {}, old_spec.get("nodeSelector") or {}
    if new != old:
        if any(new.get(key) != value for key, value in old.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            out.append(invalid("spec.nodeSelector", new or None, text))
        _carry(munged, old_spec, "nodeSelector")
    affinity, old_affinity = munged.get("affinity"), old_spec.get("affinity")
    new_node = (affinity or {}).get("nodeAffinity")
    old_node = (old_affinity or {}).get("nodeAffinity")
    if new_node == old_node:
        return
    _check_node_affinity_additions(new_node, old_node, out)
    if affinity is None:
        if old_node is not None:
            munged["affinity"] = {"nodeAffinity": old_node}
    elif (
        old_affinity is None
        and affinity.get("podAffinity") is None
        and affinity.get("podAntiAffinity") is None
    ):
        del munged["affinity"]
    else:
        _carry(affinity, old_affinity or {}, "nodeAffinity")


def _terms(affinity: Document | None) -> list[Document]:
    return ((affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _check_node_affinity_additions(
    new: Document | None, old: Document | None, out: list[Problem]
) -> None:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    terms, old_terms = _terms(new), _terms(old)
    if old_terms and len(terms) != len(old_terms):
        internal = [internal_form("NodeSelectorTerm", term) for term in terms] or None
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        out.append(invalid(path, internal, text))
        return
    for index, old_term in enumerate(old_terms):
        if not _only_adds(terms[index], old_term):
            shown_term = internal_form("NodeSelectorTerm", terms[index])
            text = "only additions are allowed (no mutations or deletions)"
            out.append(invalid(f"{path}[{index}]", shown_term, text))


def _only_adds(new: Document, old: Document) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in names):
        return not any(new.get(name) for name in names)
    for name in names:
        before = old.get(name) or []
        if (new.get(name) or [])[: len(before)] != before:
            return False
    return True


def check_ephemeral_update(new: Document, old: Document, options: PodOptions) -> list[Problem]:
    """Validate an update of ephemeral containers."""
    if MIRROR in annotations_of(old):
        return [forbidden_field("", "static pods do not support ephemeral containers")]
    out: list[Problem] = []
    check_pod_metadata_and_spec(new, options, out)
    check_annotations(new, old, options, out)
    path = "spec.ephemeralContainers"
    by_name = {
        container.get("name"): container
        for container in new["spec"].get("ephemeralContainers") or ()
    }
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name") or ""
        start = f"existing ephemeral containers {go_quote(name)}"
        found: Any = by_name.get(name)
        if found is None:
            out.append(forbidden_field(path, f"{start} may not be removed\n"))
        elif not is_same("EphemeralContainer", container, found):
            diff = internal_diff("EphemeralContainer", container, found)
            out.append(forbidden_field(path, f"{start} may not be changed\n{diff}"))
    return out
