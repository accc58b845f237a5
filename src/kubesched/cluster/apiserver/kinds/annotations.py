"""Validates pod annotations: mirror pods, deletion cost, seccomp, AppArmor.

Upstream: pkg/apis/core/validation/validation.go ValidatePodSpecificAnnotations,
ValidatePodSpecificAnnotationUpdates, validateSeccompAnnotationsAndFields
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import Problem, forbidden_field, invalid
from kubesched.cluster.apiserver.kinds.checks import check_relative_path
from kubesched.cluster.apiserver.kinds.pod_options import (
    PodOptions,
    all_containers,
    deletion_cost_is_valid,
)
from kubesched.golang.strconv import go_quote

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def check_pod_annotations(
    annotations: dict[str, str],
    spec: Document,
    path: str,
    options: PodOptions,
    out: list[Problem],
) -> None:
    """Validate a pod's annotations, adding errors."""
    if not annotations:
        return
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        out.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], text))
    if not options.invalid_deletion_cost and not deletion_cost_is_valid(annotations):
        where = f"{path}[{DELETION_COST}]"
        out.append(invalid(where, annotations[DELETION_COST], "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            _check_seccomp(value, f"{path}.{key}", out)
    for key, value in annotations.items():
        if key.startswith(APP_ARMOR):
            _check_app_armor(key, value, spec, f"{path}[{key}]", out)


def _check_seccomp(value: str, path: str, out: list[Problem]) -> None:
    if value in {"runtime/default", "docker/default", "unconfined"}:
        return
    if value.startswith("localhost/"):
        check_relative_path(value.removeprefix("localhost/"), path, out)
        return
    out.append(invalid(path, value, "must be a valid seccomp profile"))


def _check_app_armor(key: str, value: str, spec: Document, path: str, out: list[Problem]) -> None:
    name = key.removeprefix(APP_ARMOR)
    if all(container.get("name") != name for _, _, container in all_containers(spec)):
        out.append(invalid(path, name, "container not found"))
    if value in {"", "runtime/default", "unconfined"} or value.startswith("localhost/"):
        return
    out.append(invalid(path, value, f"invalid AppArmor profile name: {go_quote(value)}"))


def check_annotation_changes(
    new: dict[str, str], old: dict[str, str], path: str, out: list[Problem]
) -> None:
    """Append an error for each change of an immutable annotation."""
    for key, value in old.items():
        if new.get(key) == value:
            continue
        if key.startswith(APP_ARMOR):
            text = "may not remove or update AppArmor annotations"
            out.append(forbidden_field(f"{path}[{key}]", text))
        if key == MIRROR:
            text = "may not remove or update mirror pod annotation"
            out.append(forbidden_field(f"{path}[{key}]", text))
    for key in new:
        if key in old:
            continue
        if key.startswith(APP_ARMOR):
            out.append(forbidden_field(f"{path}[{key}]", "may not add AppArmor annotations"))
        if key == MIRROR:
            out.append(forbidden_field(f"{path}[{key}]", "may not add mirror pod annotation"))


def check_profiles_match(
    annotations: dict[str, str], spec: Document, path: str, out: list[Problem]
) -> None:
    """Append an error for each annotation that contradicts the profile field."""
    if not annotations:
        return
    context = spec.get("securityContext") or {}
    if SECCOMP_POD in annotations and context.get("seccompProfile") is not None:
        where = f"{path}.securityContext.seccompProfile"
        _check_match(annotations[SECCOMP_POD], context["seccompProfile"], "seccomp", where, out)
    for kind, index, container in all_containers(spec):
        own = container.get("securityContext") or {}
        key = f"{SECCOMP_CONTAINER}{container.get('name') or ''}"
        if key in annotations and own.get("seccompProfile") is not None:
            where = f"{path}.{kind}[{index}].securityContext.seccompProfile"
            _check_match(annotations[key], own["seccompProfile"], "seccomp", where, out)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for kind, index, container in all_containers(spec):
        own = container.get("securityContext") or {}
        profile = own.get("appArmorProfile") or context.get("appArmorProfile")
        key = f"{APP_ARMOR}{container.get('name') or ''}"
        if key in annotations and profile is not None:
            where = f"{path}.{kind}[{index}].securityContext.appArmorProfile"
            _check_match(annotations[key], profile, "apparmor", where, out)


def _check_match(
    annotation: str, profile: Document, feature: str, path: str, out: list[Problem]
) -> None:
    kind = profile.get("type")
    defaults = (
        {"runtime/default", "docker/default"} if feature == "seccomp" else {"runtime/default"}
    )
    is_wrong = (
        (kind == "Unconfined" and annotation != "unconfined")
        or (kind == "RuntimeDefault" and annotation not in defaults)
        or (kind == "Localhost" and not annotation.startswith("localhost/"))
    )
    if is_wrong:
        text = f"{feature} type in annotation and field must match"
        out.append(forbidden_field(f"{path}.type", text))
    elif kind == "Localhost" and (
        profile.get("localhostProfile") != annotation.removeprefix("localhost/")
    ):
        text = f"{feature} profile in annotation and field must match"
        out.append(forbidden_field(f"{path}.localhostProfile", text))
