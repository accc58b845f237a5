"""A pod's status: as its kubelet sees it, and what of it has to be written.

Owns the documents: container statuses, conditions, phase, addresses, and the smallest patch. Never
decides what happens: pod_runs does.
Upstream: pkg/kubelet/status/generate.go, pkg/kubelet/kubelet_pods.go generateAPIPodStatus,
pkg/kubelet/status/status_manager.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.kubelet.containers import Document
from kubesched.kubelet.pod_runs import PodRun
from kubesched.objects.field_errors import go_quote
from kubesched.objects.times import time_text

_OWN: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_NOT_READY: Final = "ContainersNotReady"
_ENDED: Final = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
# What is compared of a condition: times follow from these.
_SAID: Final = ("status", "reason", "message", "observedGeneration")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is."""

    host_ips: Sequence[str]
    pod_ips: Sequence[str]


def status_patch(run: PodRun, place: Place, now_s: float) -> Document:
    """Return what has to change in the pod's status; nothing if it is as it should be."""
    before: Mapping[str, Any] = run.pod.get("status") or {}
    wanted = _wanted(run, place)
    patch = {key: value for key, value in wanted.items() if before.get(key) != value}
    if run.phase != before.get("phase") or run.reason:
        for key, value in (("reason", run.reason), ("message", run.message)):
            if value != before.get(key, ""):
                patch[key] = value or None
    conditions = _changed_conditions(run, before, now_s)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _wanted(run: PodRun, place: Place) -> Document:
    inits: list[Document] = []
    mains: list[Document] = []
    ephemerals: list[Document] = []
    lists = {"init": inits, "sidecar": inits, "main": mains, "ephemeral": ephemerals}
    for container, one in run.containers():
        lists[one.kind].append(one.status(container, is_ready=run.is_ready(one)))
    wanted: Document = {
        "phase": run.phase,
        "startTime": time_text(run.started_s),
        "containerStatuses": mains,
        "hostIP": place.host_ips[0],
        "hostIPs": [{"ip": ip} for ip in place.host_ips],
    }
    if generation := run.pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    if inits:
        wanted["initContainerStatuses"] = inits
    if ephemerals:
        wanted["ephemeralContainerStatuses"] = ephemerals
    if run.has_sandbox or run.spec.get("hostNetwork"):
        wanted["podIP"] = place.pod_ips[0]
        wanted["podIPs"] = [{"ip": ip} for ip in place.pod_ips]
    return wanted


def _changed_conditions(run: PodRun, before: Mapping[str, Any], now_s: float) -> list[Document]:
    known: dict[str, Document] = {one["type"]: one for one in before.get("conditions") or ()}
    changed = []
    for wanted in _conditions(run, known):
        old = known.get(wanted["type"])
        if old is not None and all(old.get(key) == wanted.get(key) for key in _SAID):
            continue
        is_same = old is not None and old.get("status") == wanted["status"]
        since = old.get("lastTransitionTime") if old is not None and is_same else None
        shown = {**wanted, "lastTransitionTime": since or time_text(now_s)}
        for key in ("reason", "message"):
            # A merge keeps what is not named.
            if old is not None and old.get(key) and key not in wanted:
                shown[key] = None
        changed.append(shown)
    return changed


def _conditions(run: PodRun, known: Mapping[str, Document]) -> list[Document]:
    ready_to_start = run.has_sandbox and not run.is_terminal and not run.is_stopped
    containers_ready = _containers_ready(run)
    ready = dict(containers_ready)
    if containers_ready["status"] == "True":
        ready = _gates(run, known)
    found = [
        {"type": "PodReadyToStartContainers", "status": str(ready_to_start)},
        {"type": "Initialized", **_initialized(run)},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **containers_ready},
        {"type": "PodScheduled", "status": "True"},
    ]
    if generation := run.pod["metadata"].get("generation"):
        for one in found:
            one["observedGeneration"] = generation
    return found


def _containers_ready(run: PodRun) -> Document:
    """Return the condition ContainersReady.

    Parity: pkg/kubelet/status/generate.go GenerateContainersReadyCondition, v1.36.
    """
    if run.is_terminal:
        return {"status": "False", "reason": _ENDED[run.phase]}
    unready = [
        one.name
        for _, one in run.containers()
        if one.kind in {"sidecar", "main"} and not run.is_ready(one)
    ]
    if not unready:
        return {"status": "True"}
    note = f"containers with unready status: [{' '.join(unready)}]"
    return {"status": "False", "reason": _NOT_READY, "message": note}


def _gates(run: PodRun, known: Mapping[str, Document]) -> Document:
    """Return the condition Ready of a pod whose containers are ready.

    Parity: pkg/kubelet/status/generate.go GeneratePodReadyCondition, v1.36.
    """
    missing = []
    for gate in run.spec.get("readinessGates") or ():
        name = str(gate["conditionType"])
        status = known.get(name, {}).get("status")
        if status is None:
            missing.append(
                f"corresponding condition of pod readiness gate {go_quote(name)} does not exist."
            )
        elif status != "True":
            missing.append(
                f'the status of pod readiness gate {go_quote(name)} is not "True", but {status}'
            )
    if not missing:
        return {"status": "True"}
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(missing)}


def _initialized(run: PodRun) -> Document:
    """Return the condition Initialized.

    Parity: pkg/kubelet/status/generate.go GeneratePodInitializedCondition, v1.36.
    """
    if run.phase == "Succeeded":
        return {"status": "True", "reason": "PodCompleted"}
    has_begun = any(one.kind == "main" and one.has_run for _, one in run.containers())
    incomplete = [
        one.name
        for _, one in run.containers()
        if (one.kind == "init" and not one.is_initialized)
        or (one.kind == "sidecar" and not one.is_running)
    ]
    if has_begun or not incomplete:
        return {"status": "True"}
    note = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return {"status": "False", "reason": "ContainersNotInitialized", "message": note}


def inputs_of(pod: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what a status follows from beside the containers; a change is written at once.

    What somebody else wrote into the status itself is put right only after a while.
    """
    metadata = pod["metadata"]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return (
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        tuple(sorted((metadata.get("annotations") or {}).items())),
        tuple((one["type"], one.get("status")) for one in conditions if one["type"] in gates),
    )
