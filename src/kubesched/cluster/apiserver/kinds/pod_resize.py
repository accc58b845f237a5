"""Validates in-place resizes of pods.

Upstream: pkg/registry/core/pod/strategy.go dropNonResizeUpdates,
pkg/apis/core/validation/validation.go ValidatePodResize
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.errors import Problem, forbidden_field, invalid
from kubesched.cluster.apiserver.kinds.annotations import MIRROR
from kubesched.cluster.apiserver.kinds.internal_form import is_same
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.pod_spec import check_pod_metadata_and_spec
from kubesched.cluster.apiserver.kinds.qos import qos_class

_ONLY = "only cpu and memory resources are mutable"
_RESIZED = ("cpu", "memory")


def keep_all_but_resources(new: Document, old: Document) -> bool:
    """Restore all fields except resources; return whether that was possible."""
    spec, old_spec = new["spec"], old["spec"]
    kinds = ("containers", "initContainers")
    if any(len(spec.get(kind) or ()) != len(old_spec.get(kind) or ()) for kind in kinds):
        return False
    kept: Document = copy_of(old_spec)
    for kind in kinds:
        if kept.get(kind):
            kept[kind] = _with_resources(spec[kind], kept[kind])
    _move(spec, kept, "resources")
    new["spec"] = kept
    return True


def _with_resources(new: list[Document], old: list[Document]) -> list[Document]:
    for container, before in zip(new, old, strict=True):
        if container.get("name") != before.get("name"):
            return new
        _move(container, before, "resources")
        _move(container, before, "resizePolicy")
    return old


def _move(source: Document, target: Document, name: str) -> None:
    if source.get(name) is None:
        target.pop(name, None)
    else:
        target[name] = source[name]


def check_pod_resize(new: Document, old: Document, options: PodOptions) -> list[Problem]:
    """Validate a resize; return the errors."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden_field("", "static pods cannot be resized")]
    spec, old_spec, old_status = new["spec"], old["spec"], old.get("status") or {}
    if (old_spec.get("os") or {}).get("name") == "windows":
        return [forbidden_field("", "windows pods cannot be resized")]
    out: list[Problem] = []
    check_pod_metadata_and_spec(new, options, out)
    quality = old_status.get("qosClass") or qos_class(old_spec)
    if quality != qos_class(spec):
        qos = (new.get("status") or {}).get("qosClass") or ""
        out.append(invalid("spec", qos, "Pod QOS Class may not change as a result of resizing"))
    if not _is_supported(old_status):
        text = "Pod running on node without support for resize"
        out.append(forbidden_field("spec", text))
    munged: Document = copy_of(spec)
    if _is_whole_request(old_spec) or _is_whole_request(spec):
        _check_pod_level(munged, spec, old_spec, out)
    before = len(out)
    _check_order(spec, old_spec, out)
    if len(out) > before:
        return out
    _check_containers(munged, spec, old_spec, out)
    if not out and not is_same("PodSpec", munged, old_spec):
        out.append(forbidden_field("spec", _ONLY))
    return out


def _is_supported(status: Document) -> bool:
    for one in status.get("containerStatuses") or ():
        if (one.get("state") or {}).get("running") is not None:
            return one.get("resources") is not None
    return True


def _is_whole_request(spec: Document) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _check_pod_level(
    munged: Document, spec: Document, old_spec: Document, out: list[Problem]
) -> None:
    new, old = spec.get("resources"), old_spec.get("resources")
    if old is not None and new is None:
        text = "pod-level resources cannot be removed"
        out.append(forbidden_field("spec.resources", text))
        return
    for which in ("requests", "limits"):
        if old is not None and _is_removed((new or {}).get(which), old.get(which)):
            text = f"pod-level resource {which} cannot be removed"
            out.append(forbidden_field(f"spec.resources.{which}", text))
    _put_back(munged.get("resources"), old)
    if old is None and not any((munged.get("resources") or {}).values()):
        munged.pop("resources", None)
    if not is_same("ResourceRequirements", munged.get("resources"), old):
        out.append(
            forbidden_field("spec", "only cpu and memory resources are mutable at pod-level")
        )


def _is_removed(new: dict[str, str] | None, old: dict[str, str] | None) -> bool:
    return not (old or {}).keys() <= (new or {}).keys()


def _put_back(new: Document | None, old: Document | None) -> None:
    """Restore the previous amounts of cpu and memory."""
    if new is None:
        return
    for which in ("limits", "requests"):
        amounts, before = dict(new.get(which) or {}), (old or {}).get(which) or {}
        for name in _RESIZED:
            amounts.pop(name, None)
            if name in before:
                amounts[name] = before[name]
        new[which] = amounts
        if not amounts:
            del new[which]


def _check_order(spec: Document, old_spec: Document, out: list[Problem]) -> None:
    for kind in ("containers", "initContainers"):
        new, old = spec.get(kind) or [], old_spec.get(kind) or []
        if len(new) != len(old):
            text = f"{kind} may not be added or removed on resize"
            out.append(forbidden_field(f"spec.{kind}", text))
            continue
        for index, (one, before) in enumerate(zip(new, old, strict=True)):
            if one.get("name") != before.get("name"):
                text = f"{kind} may not be renamed or reordered on resize"
                out.append(forbidden_field(f"spec.{kind}[{index}].name", text))


def _check_containers(
    munged: Document, spec: Document, old_spec: Document, out: list[Problem]
) -> None:
    for kind in ("initContainers", "containers"):
        for index, old in enumerate(old_spec.get(kind) or ()):
            path = f"spec.{kind}[{index}].resources"
            own = spec[kind][index].get("resources") or {}
            for which in ("requests", "limits"):
                if _is_removed(own.get(which), (old.get("resources") or {}).get(which)):
                    text = f"resource {which} cannot be removed"
                    out.append(forbidden_field(f"{path}.{which}", text))
    for container, old in _pairs(munged, old_spec, "containers"):
        _put_back(container.setdefault("resources", {}), old.get("resources"))
        container["resources"].pop("claims", None)
        if not is_same("Container", container, old):
            out.append(forbidden_field("spec", _ONLY))
    for index, (container, old) in enumerate(_pairs(munged, old_spec, "initContainers")):
        _check_init_container(container, old, f"spec.initContainers[{index}]", out)


def _check_init_container(
    container: Document, old: Document, path: str, out: list[Problem]
) -> None:
    is_changed = not is_same("Container", container, old)
    _put_back(container.setdefault("resources", {}), old.get("resources"))
    container["resources"].pop("claims", None)
    if not is_same("Container", container, old):
        text = "only cpu and memory resources for init or sidecar containers are mutable"
        out.append(forbidden_field(path, text))
    if not is_changed or container.get("restartPolicy") == "Always":
        return
    for policy in container.get("resizePolicy") or ():
        if policy.get("restartPolicy") == "RestartContainer":
            text = (
                "non-sidecar init containers with a resize policy of RestartContainer "
                "cannot be resized"
            )
            out.append(forbidden_field(path, text))


def _pairs(new: Document, old: Document, kind: str) -> list[tuple[Document, Document]]:
    return list(zip(new.get(kind) or (), old.get(kind) or (), strict=True))
