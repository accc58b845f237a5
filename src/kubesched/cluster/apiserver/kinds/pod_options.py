"""Pod validation options: invalid fields that existing objects may keep.

Upstream: pkg/api/pod/util.go GetValidationOptionsFromPodSpecAndMeta
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import Problem
from kubesched.cluster.apiserver.kinds.quantities import is_divisible, is_huge_page
from kubesched.cluster.apiserver.kinds.selectors import (
    check_label_selector,
    check_node_selector_term,
)


@dataclass(frozen=True, slots=True)
class PodOptions:
    """Invalid values that are tolerated because the old object has them."""

    is_pod: bool = False
    """Whether the object is a pod, as opposed to a template."""
    invalid_deletion_cost: bool = False
    invalid_affinity_values: bool = False
    invalid_node_affinity_values: bool = False
    invalid_spread_selectors: bool = False
    indivisible_huge_pages: bool = False
    toleration_comparisons: bool = False
    any_selinux_change_policy: bool = False
    user_namespaces_on_host_network: bool = False
    restart_container_of_init: bool = False


STRICT_POD = PodOptions(is_pod=True)
STRICT_TEMPLATE = PodOptions()


def all_containers(spec: Document) -> Iterator[tuple[str, int, Document]]:
    """Yield field name, index and container in upstream's order."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield kind, index, container


def options_for_update(
    old_spec: Document, old_annotations: dict[str, str], *, is_pod: bool
) -> PodOptions:
    """Return the options for an update of an object."""
    context = old_spec.get("securityContext") or {}
    return PodOptions(
        is_pod=is_pod,
        invalid_deletion_cost=not deletion_cost_is_valid(old_annotations),
        invalid_affinity_values=_has_invalid_affinity(old_spec),
        invalid_node_affinity_values=_has_invalid_node_affinity(old_spec),
        invalid_spread_selectors=_has_invalid_spread(old_spec),
        indivisible_huge_pages=_has_indivisible_huge_pages(old_spec),
        toleration_comparisons=any(
            toleration.get("operator") in {"Lt", "Gt"}
            for toleration in old_spec.get("tolerations") or ()
        ),
        any_selinux_change_policy=context.get("seLinuxChangePolicy") is not None,
        user_namespaces_on_host_network=(
            old_spec.get("hostUsers") is False and bool(old_spec.get("hostNetwork"))
        ),
        restart_container_of_init=_has_restart_container_of_init(old_spec),
    )


def deletion_cost_is_valid(annotations: dict[str, str]) -> bool:
    """Return whether the deletion cost annotation is absent or a 32-bit integer."""
    text = annotations.get("controller.kubernetes.io/pod-deletion-cost")
    if text is None:
        return True
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        return False
    if not (text[0] == "-" or text == "0" or text[0] != "0"):
        return False
    return -(2**31) <= int(text) < 2**31


def pod_affinity_terms(spec: Document) -> Iterator[Document]:
    """Yield every term of affinity and anti-affinity between pods, preferred ones first."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        for term in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield term.get("podAffinityTerm") or {}
        yield from part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _has_invalid_affinity(spec: Document) -> bool:
    found: list[Problem] = []
    for term in pod_affinity_terms(spec):
        check_label_selector(term.get("labelSelector"), "", found)
        check_label_selector(term.get("namespaceSelector"), "", found)
    return bool(found)


def _has_invalid_node_affinity(spec: Document) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    needed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    found: list[Problem] = []
    for term in needed.get("nodeSelectorTerms") or ():
        check_node_selector_term(term, "", found, allow_invalid_values=False)
    return any(".values[" in problem.path for problem in found)


def _has_invalid_spread(spec: Document) -> bool:
    found: list[Problem] = []
    for constraint in spec.get("topologySpreadConstraints") or ():
        check_label_selector(constraint.get("labelSelector"), "", found)
    return bool(found)


def _has_indivisible_huge_pages(spec: Document) -> bool:
    lists = [spec.get("overhead") or {}]
    for _, _, container in all_containers(spec):
        resources = container.get("resources") or {}
        lists += [resources.get("limits") or {}, resources.get("requests") or {}]
    return any(
        is_huge_page(name) and not is_divisible(name, text)
        for amounts in lists
        for name, text in amounts.items()
    )


def _has_restart_container_of_init(spec: Document) -> bool:
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") != "Always"
        for policy in container.get("resizePolicy") or ()
    )
