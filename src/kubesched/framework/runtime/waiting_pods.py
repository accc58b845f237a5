"""Pods between the decision and the binding: those that wait on Permit, and those in PreBind.

Owns how such an attempt can still be ended, and with which status. Never waits itself: the binding
cycle registers a callback, and checks the deadlines.
Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go, pods_in_prebind_map.go
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from kubesched.framework.status import SUCCESS, Code, Status
from kubesched.golang.time import format_duration
from kubesched.snapshot.pod_info import PodInfo


class WaitingPod:
    """A pod that waits on Permit plugins, each with its own deadline."""

    def __init__(self, pod: PodInfo, wait_s: Mapping[str, float], now_s: float) -> None:
        """Start the wait; `wait_s` has the timeout of each plugin."""
        self.pod = pod
        self._wait_s = dict(wait_s)
        self._deadlines = {plugin: now_s + timeout_s for plugin, timeout_s in wait_s.items()}
        self._on_settled: Callable[[Status], None] | None = None
        self.status: Status | None = None
        """The status that ended the wait; None while it lasts."""

    def __repr__(self) -> str:
        return f"<WaitingPod {self.pod.key} for {self.pending_plugins}>"

    @property
    def pending_plugins(self) -> list[str]:
        """Return the plugins that the pod still waits for, in the order in which they run."""
        return list(self._deadlines)

    @property
    def next_deadline_s(self) -> float:
        """Return the earliest deadline; infinity if the wait has ended."""
        if self.status is not None:
            return math.inf
        return min(self._deadlines.values(), default=math.inf)

    def when_settled(self, on_settled: Callable[[Status], None]) -> None:
        """Call a function with the status that ends the wait; at once if it has ended."""
        if self.status is None:
            self._on_settled = on_settled
        else:
            on_settled(self.status)

    def allow(self, plugin: str) -> None:
        """Allow the pod; it proceeds once all plugins have."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._settle(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; return False if the wait had already ended."""
        return self._settle(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the attempt with an error, so that it is retried; return False if it had ended."""
        return self._settle(Status(Code.ERROR, (message,), plugin))

    def expire(self, now_s: float) -> None:
        """Reject the pod if a deadline has passed; the earliest one counts."""
        # Parity: waiting_pods_map.go newWaitingPod, v1.36.
        for plugin in sorted(self._deadlines, key=self._deadlines.__getitem__):
            if self.status is not None or self._deadlines[plugin] > now_s:
                return
            waited = format_duration(round(self._wait_s[plugin] * 1e9))
            text = f"rejected due to timeout after waiting {waited} at plugin {plugin}"
            self.reject(plugin, text)

    def _settle(self, status: Status) -> bool:
        if self.status is not None:
            return False
        self.status = status
        if self._on_settled is not None:
            self._on_settled(status)
        return True


class WaitingPodsMap:
    """The pods that wait on Permit, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Yield the pods; the caller may remove them meanwhile."""
        return iter(list(self._pods.values()))

    def add(self, pod: PodInfo, wait_s: Mapping[str, float], now_s: float) -> WaitingPod:
        """Add a waiting pod; the arguments are those of `WaitingPod`."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, wait_s, now_s)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Remove a pod; do nothing if it does not wait."""
        self._pods.pop(uid, None)

    def reject(self, uid: str) -> bool:
        """Reject a waiting pod that was deleted; return False if its wait had already ended."""
        # Parity: runtime/framework.go RejectWaitingPod, v1.36.
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")


class PodInPreBind:
    """A pod whose PreBind plugins run, and can be cancelled until they have ended."""

    def __init__(self, cancel: Callable[[str], None]) -> None:
        self._cancel = cancel
        self._is_prebound = False
        self.message = ""
        """Why it was cancelled."""
        self.is_cancelled = False

    def cancel(self, message: str) -> bool:
        """Cancel PreBind; return False if it had already ended."""
        if self._is_prebound:
            return False
        if not self.is_cancelled:
            self.is_cancelled, self.message = True, message
            self._cancel(message)
        return True

    def mark_prebound(self) -> bool:
        """Mark PreBind as ended; return False if it was cancelled."""
        self._is_prebound = not self.is_cancelled
        return self._is_prebound


PodsInPreBind: TypeAlias = dict[str, PodInPreBind]
"""The pods whose PreBind plugins run, by uid."""
