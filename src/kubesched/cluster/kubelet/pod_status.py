"""Status patch of a simulated pod.

Owns the documents: container statuses, conditions, phase and addresses. Transitions are pod_runs'.
Upstream: pkg/kubelet/status/generate.go, pkg/kubelet/kubelet_pods.go generateAPIPodStatus,
pkg/kubelet/status/status_manager.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.times import time_text
from kubesched.cluster.kubelet.containers import Document
from kubesched.cluster.kubelet.pod_runs import PodRun
from kubesched.golang.strconv import go_quote

_OWN: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_NOT_READY: Final = "ContainersNotReady"
_TERMINAL_REASONS: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
# Fields of a condition that are compared; times depend on them.
_COMPARED_FIELDS: Final = ("status", "reason", "message", "observedGeneration")


@dataclass(frozen=True, slots=True)
class PodAddresses:
    """Addresses of a pod and its host."""

    host_ips: Sequence[str]
    pod_ips: Sequence[str]


def status_patch(run: PodRun, addresses: PodAddresses, now_s: float) -> Document:
    """Return the patch of the pod's status; empty if nothing has to change."""
    before: Mapping[str, Any] = run.pod.get("status") or {}
    desired = _desired_status(run, addresses)
    patch = {key: value for key, value in desired.items() if before.get(key) != value}
    if run.phase != before.get("phase") or run.reason:
        for key, value in (("reason", run.reason), ("message", run.message)):
            if value != before.get(key, ""):
                patch[key] = value or None
    conditions = _changed_conditions(run, before, now_s)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _desired_status(run: PodRun, addresses: PodAddresses) -> Document:
    inits: list[Document] = []
    mains: list[Document] = []
    ephemerals: list[Document] = []
    lists = {"init": inits, "sidecar": inits, "main": mains, "ephemeral": ephemerals}
    for container, one in run.containers():
        lists[one.kind].append(one.status(container, is_ready=run.is_ready(one)))
    desired: Document = {
        "phase": run.phase,
        "startTime": time_text(run.started_s),
        "containerStatuses": mains,
        "hostIP": addresses.host_ips[0],
        "hostIPs": [{"ip": ip} for ip in addresses.host_ips],
    }
    if generation := run.pod["metadata"].get("generation"):
        desired["observedGeneration"] = generation
    if inits:
        desired["initContainerStatuses"] = inits
    if ephemerals:
        desired["ephemeralContainerStatuses"] = ephemerals
    if run.has_sandbox or run.spec.get("hostNetwork"):
        desired["podIP"] = addresses.pod_ips[0]
        desired["podIPs"] = [{"ip": ip} for ip in addresses.pod_ips]
    return desired


def _changed_conditions(run: PodRun, before: Mapping[str, Any], now_s: float) -> list[Document]:
    current: dict[str, Document] = {
        condition["type"]: condition for condition in before.get("conditions") or ()
    }
    changed = []
    for desired in _conditions(run, current):
        old = current.get(desired["type"])
        if old is not None and all(old.get(key) == desired.get(key) for key in _COMPARED_FIELDS):
            continue
        is_same = old is not None and old.get("status") == desired["status"]
        since = old.get("lastTransitionTime") if old is not None and is_same else None
        condition = {**desired, "lastTransitionTime": since or time_text(now_s)}
        for key in ("reason", "message"):
            # A merge patch keeps absent fields.
            if old is not None and old.get(key) and key not in desired:
                condition[key] = None
        changed.append(condition)
    return changed


def _conditions(run: PodRun, current: Mapping[str, Document]) -> list[Document]:
    ready_to_start = run.has_sandbox and not run.is_terminal and not run.is_stopped
    containers_ready = _containers_ready(run)
    ready = dict(containers_ready)
    if containers_ready["status"] == "True":
        ready = _readiness_gates_condition(run, current)
    conditions = [
        {"type": "PodReadyToStartContainers", "status": str(ready_to_start)},
        {"type": "Initialized", **_initialized(run)},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **containers_ready},
        {"type": "PodScheduled", "status": "True"},
    ]
    if generation := run.pod["metadata"].get("generation"):
        for condition in conditions:
            condition["observedGeneration"] = generation
    return conditions


def _containers_ready(run: PodRun) -> Document:
    """Return the condition ContainersReady.

    Parity: pkg/kubelet/status/generate.go GenerateContainersReadyCondition, v1.36.
    """
    if run.is_terminal:
        return {"status": "False", "reason": _TERMINAL_REASONS[run.phase]}
    unready = [
        one.name
        for _, one in run.containers()
        if one.kind in {"sidecar", "main"} and not run.is_ready(one)
    ]
    if not unready:
        return {"status": "True"}
    note = f"containers with unready status: [{' '.join(unready)}]"
    return {"status": "False", "reason": _NOT_READY, "message": note}


def _readiness_gates_condition(run: PodRun, current: Mapping[str, Document]) -> Document:
    """Return the Ready condition of a pod whose containers are ready.

    Parity: pkg/kubelet/status/generate.go GeneratePodReadyCondition, v1.36.
    """
    messages = []
    for gate in run.spec.get("readinessGates") or ():
        name = str(gate["conditionType"])
        status = current.get(name, {}).get("status")
        if status is None:
            messages.append(
                f"corresponding condition of pod readiness gate {go_quote(name)} does not exist."
            )
        elif status != "True":
            messages.append(
                f'the status of pod readiness gate {go_quote(name)} is not "True", but {status}'
            )
    if not messages:
        return {"status": "True"}
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(messages)}


def _initialized(run: PodRun) -> Document:
    """Return the condition Initialized.

    Parity: pkg/kubelet/status/generate.go GeneratePodInitializedCondition, v1.36.
    """
    if run.phase == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    has_started = any(one.kind == "main" and one.has_run for _, one in run.containers())
    incomplete = [
        one.name
        for _, one in run.containers()
        if (one.kind == "init" and not one.is_initialized)
        or (one.kind == "sidecar" and not one.is_running)
    ]
    if has_started or not incomplete:
        return {"status": "True"}
    note = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return {"status": "False", "reason": "ContainersNotInitialized", "message": note}


def status_inputs(pod: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the inputs of a status besides the containers; a change is written at once.

    Other clients' changes of the status are reverted after a delay.
    """
    metadata = pod["metadata"]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return (
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        tuple(sorted((metadata.get("annotations") or {}).items())),
        tuple(
            (condition["type"], condition.get("status"))
            for condition in conditions
            if condition["type"] in gates
        ),
    )
