"""The taints a node has because of how it is.

Owns which conditions make which taints. Never touches taints that people gave a node.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go doNoScheduleTaintingPass,
pkg/controller/util/node/controller_utils.go SwapNodeControllerTaint
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubesched.client.cached.documents import Document, condition_of, labels_of

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_NO_SCHEDULE: Final = "NoSchedule"
_NO_EXECUTE: Final = "NoExecute"
_KEYS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS: Final = (*_KEYS.values(), _UNSCHEDULABLE)
_LABELS: Final = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)


def ready_status_of(node: Mapping[str, Any]) -> str | None:
    """Return the status of a node's condition Ready; None if it has none yet."""
    ready = condition_of(node, "Ready")
    return None if ready is None else str(ready.get("status"))


def taints_of(node: Mapping[str, Any]) -> list[Document]:
    """Return the taints a node has."""
    return node["spec"].get("taints") or []


def no_execute_taints(node: Mapping[str, Any]) -> list[Document]:
    """Return the taints of a node that end pods."""
    return [taint for taint in taints_of(node) if taint.get("effect") == _NO_EXECUTE]


def no_execute_key(status: str | None) -> str | None:
    """Return which taint ends the pods of a node with this status of Ready; None for none."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(status or "")


def ends_pods(node: Mapping[str, Any], *keys: str) -> bool:
    """Return whether a node has one of these taints with NoExecute."""
    return any(taint.get("key") in keys for taint in no_execute_taints(node))


def changed_taints(
    node: Mapping[str, Any], no_execute: str | None, now: str
) -> list[Document] | None:
    """Return the taints that a node should have; None if it has them.

    Args:
        node: The node.
        no_execute: Which of the taints of an unready node it has with NoExecute; None for neither.
        now: The time, as taints say when they came.
    """
    taints = taints_of(node)
    wanted = {(key, _NO_SCHEDULE) for key in _no_schedule_keys(node)}
    if no_execute is not None:
        wanted.add((no_execute, _NO_EXECUTE))
    kept = [one for one in taints if not _is_ours(one) or _identity(one) in wanted]
    has = {_identity(one) for one in kept}
    order = [(key, _NO_SCHEDULE) for key in _OURS] + [
        (key, _NO_EXECUTE) for key in (NOT_READY, UNREACHABLE)
    ]
    added: list[Document] = [
        {"key": key, "effect": effect, "timeAdded": now}
        for key, effect in order
        if (key, effect) in wanted and (key, effect) not in has
    ]
    return None if not added and len(kept) == len(taints) else [*kept, *added]


def _no_schedule_keys(node: Mapping[str, Any]) -> list[str]:
    conditions: Sequence[Document] = node.get("status", {}).get("conditions") or ()
    states = [(one.get("type", ""), one.get("status", "")) for one in conditions]
    keys = [_KEYS[state] for state in states if state in _KEYS]
    return [*keys, _UNSCHEDULABLE] if node["spec"].get("unschedulable") else keys


def _identity(taint: Mapping[str, Any]) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")


def _is_ours(taint: Mapping[str, Any]) -> bool:
    key, effect = _identity(taint)
    if effect == _NO_SCHEDULE:
        return key in _OURS
    return effect == _NO_EXECUTE and key in (NOT_READY, UNREACHABLE)


def missing_labels(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the old names of labels that a node lacks or has otherwise.

    Parity: node_lifecycle_controller.go reconcileNodeLabels, v1.36.
    """
    labels = labels_of(node)
    return {
        beta: labels[stable]
        for stable, beta in _LABELS
        if stable in labels and labels.get(beta) != labels[stable]
    }
