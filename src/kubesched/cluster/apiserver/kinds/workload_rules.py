"""Validation shared by kinds with a pod template.

Upstream: pkg/apis/apps/validation/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, check_not_negative
from kubesched.cluster.apiserver.kinds.pod_defaults import default_pod_spec
from kubesched.cluster.apiserver.kinds.pod_options import (
    STRICT_TEMPLATE,
    PodOptions,
    options_for_update,
)
from kubesched.cluster.apiserver.kinds.pod_spec import check_pod_template
from kubesched.cluster.apiserver.kinds.pod_warnings import pod_warnings
from kubesched.cluster.apiserver.kinds.selectors import check_label_selector, selects
from kubesched.cluster.apiserver.kinds.volume_defaults import default_claim_spec
from kubesched.cluster.apiserver.names import label_problems

_PERCENT = re.compile("[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_NOT_OVER_REPLICAS = "cannot be greater than status.replicas"


def set_default(parent: Document, field: str, value: Any) -> None:
    """Set a field that is absent or null."""
    if parent.get(field) is None:
        parent[field] = value


def part_of(document: Document, *path: str) -> Document:
    """Return a nested object; create it if it is missing."""
    for step in path:
        found = document.get(step)
        if found is None:
            found = document[step] = {}
        document = found
    return document


def check_int_or_percent(value: int | str | None, path: str, out: list[Problem]) -> None:
    """Append an error if a number is negative or a text is not a percentage."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            out.append(invalid(path, value, _PERCENT_RULE))
        return
    check_not_negative(value or 0, path, out)


def check_percent_limit(value: int | str | None, path: str, out: list[Problem]) -> None:
    """Append an error if a percentage exceeds 100%."""
    if is_percent(value) and amount_of(value) > 100:
        out.append(invalid(path, value, "must not be greater than 100%"))


def is_percent(value: int | str | None) -> bool:
    """Return whether a value is a percentage."""
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None


def amount_of(value: int | str | None) -> int:
    """Return the number in a value, with or without `%`; 0 for other texts."""
    if isinstance(value, str):
        text = value.removesuffix("%") if is_percent(value) else value
        return int(text) if re.fullmatch("[+-]?[0-9]+", text) else 0
    return value or 0


def check_selector(spec: Document, path: str, whose: str, out: list[Problem]) -> bool:
    """Validate the selector of a workload; return whether it is valid."""
    selector = spec.get("selector")
    if selector is None:
        out.append(required(f"{path}.selector"))
        return True
    before = len(out)
    check_label_selector(selector, f"{path}.selector", out)
    usable = len(out) == before
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {whose}"
        out.append(invalid(f"{path}.selector", selector, text))
    return usable


def is_empty_selector(selector: Document | None) -> bool:
    """Return whether a selector is empty."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def check_template_labels(spec: Document, path: str, out: list[Problem]) -> None:
    """Append an error if the selector does not match the labels of the template."""
    labels = dig(spec, "template", "metadata", "labels") or {}
    selector = spec.get("selector")
    # Parity: a missing selector matches nothing and does not count as empty.
    if selector is not None and is_empty_selector(selector):
        return
    if not selects(selector, labels):
        text = "`selector` does not match template `labels`"
        out.append(invalid(f"{path}.template.metadata.labels", labels or None, text))


def check_always_restarts(spec: Document, path: str, whose: str, out: list[Problem]) -> None:
    """Validate the restart policy and deadline of a pod template."""
    pod_spec = dig(spec, "template", "spec") or {}
    policy = pod_spec.get("restartPolicy", "")
    if policy != "Always":
        out.append(not_supported(f"{path}.template.spec.restartPolicy", policy, ["Always"]))
    if pod_spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {whose} is not Supported"
        out.append(forbidden_field(f"{path}.template.spec.activeDeadlineSeconds", text))


def check_immutable(new: Any, old: Any, path: str, out: list[Problem]) -> None:
    """Append an error if an immutable value changed."""
    if new != old:
        out.append(invalid(path, new, IMMUTABLE))


def check_counts(
    status: Document, fields: Sequence[str], out: list[Problem], *, path: str = "status"
) -> None:
    """Append an error for each negative count."""
    for field in fields:
        if status.get(field) is not None:
            check_not_negative(status[field], f"{path}.{field}", out)


def check_not_over_replicas(status: Document, fields: Sequence[str], out: list[Problem]) -> None:
    """Append an error for each count that exceeds status.replicas."""
    replicas = status.get("replicas") or 0
    out.extend(
        invalid(f"status.{field}", status.get(field) or 0, _NOT_OVER_REPLICAS)
        for field in fields
        if (status.get(field) or 0) > replicas
    )


def check_available(status: Document, ready: str, out: list[Problem]) -> None:
    """Append an error if more replicas are available than ready."""
    available = status.get("availableReplicas") or 0
    if available > (status.get("readyReplicas") or 0):
        text = f"cannot be greater than {ready}"
        out.append(invalid("status.availableReplicas", available, text))


def check_collisions(new: Document, old: Document, out: list[Problem]) -> None:
    """Append an error if collisionCount decreases."""
    now = dig(new, "status", "collisionCount")
    before = dig(old, "status", "collisionCount")
    if before is not None and (now or 0) < before:
        out.append(invalid("status.collisionCount", now or 0, "cannot be decremented"))


def name_warnings(name: str) -> list[str]:
    """Return a warning if a name is not a DNS label."""
    problems = label_problems(name)
    if not problems:
        return []
    advice = "this is used in Pod names and hostnames, which can result in surprising behavior"
    listed = " ".join(problems)
    return [f"metadata.name: {advice}; a DNS label is recommended: [{listed}]"]


def default_template(template: Document) -> None:
    """Set the defaults of a pod template."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_claim_template(claim: Document) -> None:
    """Set the defaults of a claim template."""
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("kind", "PersistentVolumeClaim")
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


def template_options(old: Document | None) -> PodOptions:
    """Return the options for an update of a template."""
    if old is None:
        return STRICT_TEMPLATE
    annotations = dig(old, "metadata", "annotations") or {}
    return options_for_update(old.get("spec") or {}, annotations, is_pod=False)


def check_template(
    template: Document, path: str, out: list[Problem], *, old: Document | None = None
) -> None:
    """Validate a pod template; invalid fields of the old one are tolerated."""
    check_pod_template(template, path, out, template_options(old))


def template_warnings(template: Document, old: Document | None, path: str) -> list[str]:
    """Return warnings about a pod template."""
    return [] if template == old else pod_warnings(template, path)
