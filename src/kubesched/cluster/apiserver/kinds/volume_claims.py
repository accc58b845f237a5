"""Validates PersistentVolumeClaimSpec, in claims and templates.

Upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimSpec
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import key_problems
from kubesched.cluster.apiserver.kinds.quantities import check_amount, check_positive_amount
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector, check_labels
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_TEMPLATE_METADATA = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
    "finalizers", "managedFields",
)  # fmt: skip
_FIELD_NAMES = {"uid": "uID"}


def check_claim_template(template: Document, path: str, out: list[Problem]) -> None:
    """Validate a claim template, adding errors."""
    metadata = template.get("metadata") or {}
    for key in metadata.get("annotations") or {}:
        texts = key_problems(key.lower())
        out.extend(invalid(f"{path}.metadata.annotations", key, text) for text in texts)
    check_labels(metadata.get("labels"), f"{path}.metadata.labels", out)
    for name in _TEMPLATE_METADATA:
        if metadata.get(name):
            field = _FIELD_NAMES.get(name, name)
            out.append(forbidden_field(f"{path}.metadata.{field}", "cannot be set"))
    check_claim_spec(template.get("spec") or {}, f"{path}.spec", out)


def check_access_modes(modes: Sequence[str], path: str, out: list[Problem]) -> None:
    """Validate access modes, adding errors."""
    child = f"{path}.accessModes"
    out.extend(
        not_supported(child, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES
    )
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        out.append(forbidden_field(child, text))


def check_claim_spec(
    spec: Document,
    path: str,
    out: list[Problem],
    *,
    allow_invalid_values: bool = False,
    allow_invalid_group: bool = False,
) -> None:
    """Validate the spec of a claim, adding errors."""
    modes = spec.get("accessModes") or []
    if not modes:
        text = "at least 1 access mode is required"
        out.append(required(f"{path}.accessModes", text))
    check_label_selector(
        spec.get("selector"), f"{path}.selector", out, allow_invalid_values=allow_invalid_values
    )
    check_access_modes(modes, path, out)
    _check_size(spec, f"{path}.resources[storage]", out)
    name = spec.get("storageClassName")
    if name:
        child = f"{path}.storageClassName"
        out.extend(invalid(child, name, text) for text in subdomain_problems(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        out.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    _check_sources(spec, path, out, allow_invalid_group=allow_invalid_group)
    name = spec.get("volumeAttributesClassName")
    if name:
        child = f"{path}.volumeAttributesClassName"
        out.extend(invalid(child, name, text) for text in subdomain_problems(name))


def _check_size(spec: Document, path: str, out: list[Problem]) -> None:
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        out.append(required(path))
        return
    before = len(out)
    check_positive_amount(size, path, out)
    if len(out) == before:
        check_amount("storage", size, path, out)


def _check_sources(
    spec: Document, path: str, out: list[Problem], *, allow_invalid_group: bool
) -> None:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, one in (("dataSource", source), ("dataSourceRef", ref)):
        if one is not None:
            _check_reference(one, f"{path}.{name}", out, allow_invalid_group=allow_invalid_group)
    if source is None or ref is None:
        return
    if ref.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
    elif all(source.get(name) == ref.get(name) for name in ("apiGroup", "kind", "name")):
        return
    else:
        text = "must match dataSourceRef"
    # Parity: upstream's invalid value is the path itself: a struct without exported fields.
    out.append(invalid(path, {}, text))


def _check_reference(
    ref: Document, path: str, out: list[Problem], *, allow_invalid_group: bool
) -> None:
    kind, group = ref.get("kind") or "", ref.get("apiGroup") or ""
    if not ref.get("name"):
        out.append(required(f"{path}.name"))
    if not kind:
        out.append(required(f"{path}.kind"))
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        out.append(invalid(path, kind, text))
    if group and not allow_invalid_group:
        texts = subdomain_problems(group)
        out.extend(invalid(f"{path}.apiGroup", group, text) for text in texts)
    namespace = ref.get("namespace")
    if namespace:
        texts = label_problems(namespace)
        out.extend(invalid(f"{path}.namespace", namespace, text) for text in texts)
