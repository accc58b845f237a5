"""Taints and labels that the node lifecycle controller sets.

Owns the mapping from conditions to taints. Never changes a user's taints.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go doNoScheduleTaintingPass,
pkg/controller/util/node/controller_utils.go SwapNodeControllerTaint
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubesched.api.documents import Document, condition_of, labels_of

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_NO_SCHEDULE: Final = "NoSchedule"
_NO_EXECUTE: Final = "NoExecute"
_KEY_BY_CONDITION: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_KEYS: Final = (*_KEY_BY_CONDITION.values(), _UNSCHEDULABLE)
_LABELS: Final = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)


def ready_status_of(node: Mapping[str, Any]) -> str | None:
    """Return the status of the Ready condition; None if there is none."""
    ready = condition_of(node, "Ready")
    return None if ready is None else str(ready.get("status"))


def taints_of(node: Mapping[str, Any]) -> list[Document]:
    """Return a node's taints."""
    return node["spec"].get("taints") or []


def no_execute_taints(node: Mapping[str, Any]) -> list[Document]:
    """Return a node's NoExecute taints."""
    return [taint for taint in taints_of(node) if taint.get("effect") == _NO_EXECUTE]


def no_execute_key(status: str | None) -> str | None:
    """Return the NoExecute taint key for a status of Ready; None for a ready node."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(status or "")


def has_no_execute(node: Mapping[str, Any], *keys: str) -> bool:
    """Return whether a node has one of these taints with NoExecute."""
    return any(taint.get("key") in keys for taint in no_execute_taints(node))


def updated_taints(
    node: Mapping[str, Any], no_execute: str | None, now: str
) -> list[Document] | None:
    """Return a node's desired taints; None if they are unchanged.

    Args:
        node: The node.
        no_execute: Key of the NoExecute taint of an unhealthy node; None for none.
        now: The current time, for timeAdded.
    """
    taints = taints_of(node)
    desired = {(key, _NO_SCHEDULE) for key in _no_schedule_keys(node)}
    if no_execute is not None:
        desired.add((no_execute, _NO_EXECUTE))
    kept = [taint for taint in taints if not _is_managed(taint) or _identity(taint) in desired]
    existing = {_identity(one) for one in kept}
    order = [(key, _NO_SCHEDULE) for key in _MANAGED_KEYS] + [
        (key, _NO_EXECUTE) for key in (NOT_READY, UNREACHABLE)
    ]
    added: list[Document] = [
        {"key": key, "effect": effect, "timeAdded": now}
        for key, effect in order
        if (key, effect) in desired and (key, effect) not in existing
    ]
    return None if not added and len(kept) == len(taints) else [*kept, *added]


def _no_schedule_keys(node: Mapping[str, Any]) -> list[str]:
    conditions: Sequence[Document] = node.get("status", {}).get("conditions") or ()
    states = [(condition.get("type", ""), condition.get("status", "")) for condition in conditions]
    keys = [_KEY_BY_CONDITION[state] for state in states if state in _KEY_BY_CONDITION]
    return [*keys, _UNSCHEDULABLE] if node["spec"].get("unschedulable") else keys


def _identity(taint: Mapping[str, Any]) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")


def _is_managed(taint: Mapping[str, Any]) -> bool:
    key, effect = _identity(taint)
    if effect == _NO_SCHEDULE:
        return key in _MANAGED_KEYS
    return effect == _NO_EXECUTE and key in (NOT_READY, UNREACHABLE)


def missing_beta_labels(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the beta labels that a node lacks or has with another value.

    Parity: node_lifecycle_controller.go reconcileNodeLabels, v1.36.
    """
    labels = labels_of(node)
    return {
        beta: labels[stable]
        for stable, beta in _LABELS
        if stable in labels and labels.get(beta) != labels[stable]
    }
