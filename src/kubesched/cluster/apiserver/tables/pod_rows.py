"""The table row of a pod, with a one-word status.

Upstream: pkg/printers/internalversion/printers.go printPod
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.tables.cells import NONE, age, condition_status, since


def pod_row(pod: Document, now_s: float) -> list[Any]:
    """Return the cells of a pod."""
    summary = _Summary(pod)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    addresses = status.get("podIPs") or [{}]
    return [
        pod["metadata"].get("name", ""),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        summary.restarts_text(now_s),
        age(pod, now_s),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec.get("readinessGates") or [], status.get("conditions") or []),
    ]


def pod_row_conditions(pod: Document) -> list[Document]:
    """Return the row conditions of a pod: Completed if it has finished."""
    phase = (pod.get("status") or {}).get("phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return []
    return [
        {"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]},
    ]


def _gates(gates: list[Document], conditions: list[Document]) -> str:
    if not gates:
        return NONE
    passed = sum(condition_status(conditions, gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def _is_sidecar(container: Document | None) -> bool:
    return bool(container) and (container or {}).get("restartPolicy") == "Always"


class _Summary:
    """Summary of the container statuses of a pod."""

    def __init__(self, pod: Document) -> None:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        self._init = {
            container["name"]: container for container in spec.get("initContainers") or []
        }
        self._init_count = len(spec.get("initContainers") or [])
        self._status = status
        self.ready = 0
        self.total = len(spec.get("containers") or [])
        self.total += sum(_is_sidecar(container) for container in spec.get("initContainers") or [])
        self.reason = str(status.get("reason") or status.get("phase") or "")
        self._restarts = 0
        self._last_restart = ""
        self._sidecar_restarts = 0
        self._last_sidecar_restart = ""
        for condition in status.get("conditions") or []:
            is_gated = condition.get("reason") == "SchedulingGated"
            if condition.get("type") == "PodScheduled" and is_gated:
                self.reason = "SchedulingGated"
        initializing = self._summarize_init_containers(status.get("initContainerStatuses") or [])
        conditions = status.get("conditions") or []
        if not initializing or condition_status(conditions, "Initialized") == "True":
            self._summarize_containers(status.get("containerStatuses") or [])
        self._summarize_deletion(pod)

    def restarts_text(self, now_s: float) -> str:
        """Return the number of restarts, and the time since the last one."""
        if self._restarts and self._last_restart:
            return f"{self._restarts} ({since(self._last_restart, now_s)} ago)"
        return str(self._restarts)

    def _summarize_init_containers(self, statuses: list[Document]) -> bool:
        """Summarize init containers; return whether one has not completed."""
        for index, status in enumerate(statuses):
            is_sidecar = _is_sidecar(self._init.get(status.get("name", "")))
            self._count_restarts(status, is_sidecar=is_sidecar)
            state = status.get("state") or {}
            terminated = state.get("terminated")
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if is_sidecar and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            self.reason = self._init_reason(state, index)
            return True
        return False

    def _init_reason(self, state: Document, index: int) -> str:
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None:
            return f"Init:{_terminated_reason(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{self._init_count}"

    def _count_restarts(self, status: Document, *, is_sidecar: bool) -> None:
        finished = _last_finished(status)
        self._restarts += status.get("restartCount") or 0
        self._last_restart = max(self._last_restart, finished)
        if is_sidecar:
            self._sidecar_restarts += status.get("restartCount") or 0
            self._last_sidecar_restart = max(self._last_sidecar_restart, finished)

    def _summarize_containers(self, statuses: list[Document]) -> None:
        self._restarts = self._sidecar_restarts
        self._last_restart = self._last_sidecar_restart
        has_running, error = False, ""
        for status in reversed(statuses):
            self._count_restarts(status, is_sidecar=False)
            state = status.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated is not None:
                self.reason = _terminated_reason(terminated)
                error = self.reason if terminated.get("exitCode") else error
            elif status.get("ready") and state.get("running") is not None:
                has_running = True
                self.ready += 1
        if self.reason == "Completed":
            self._summarize_completion(error, has_running=has_running)

    def _summarize_completion(self, error: str, *, has_running: bool) -> None:
        """Set the reason of a pod in which some container has completed."""
        conditions = self._status.get("conditions") or []
        is_ready = any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in conditions
        )
        if has_running and is_ready:
            self.reason = "Running"
        elif error:
            self.reason = error
        elif has_running:
            self.reason = "NotReady"

    def _summarize_deletion(self, pod: Document) -> None:
        if not pod["metadata"].get("deletionTimestamp"):
            return
        if self._status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif self._status.get("phase") not in {"Succeeded", "Failed"}:
            self.reason = "Terminating"


def _last_finished(status: Document) -> str:
    terminated = (status.get("lastState") or {}).get("terminated") or {}
    return str(terminated.get("finishedAt") or "")


def _terminated_reason(terminated: Document) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"
