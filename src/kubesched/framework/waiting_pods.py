"""Pods between the decision and the binding: held by permit plugins, or being pre-bound.

Owns who may still end such an attempt, and with which status. Never waits itself: who binds is told
through a callback, and drives the deadlines.
Upstream: pkg/scheduler/framework/runtime/waiting_pods_map.go, pods_in_prebind_map.go
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from kubesched.config.gotext import format_duration
from kubesched.framework.status import SUCCESS, Code, Status
from kubesched.model.pod_info import PodInfo

REMOVED = "removed"


class WaitingPod:
    """A pod that permit plugins hold, each until a moment of its own."""

    def __init__(
        self,
        pod: PodInfo,
        wait_s: Mapping[str, float],
        now_s: float,
        on_settled: Callable[[Status], None] | None = None,
    ) -> None:
        """Begin to wait.

        Args:
            pod: that waits.
            wait_s: how long each plugin holds it at most.
            now_s: of the same clock that `expire` is asked by.
            on_settled: is called once, with success or with what ended the wait; may also be given
                later, to `when_settled`.
        """
        self.pod = pod
        self._wait_s = dict(wait_s)
        self._deadlines = {plugin: now_s + longest_s for plugin, longest_s in wait_s.items()}
        self._on_settled = on_settled
        self.status: Status | None = None
        """What the wait came to; None while it lasts."""

    def __repr__(self) -> str:
        return f"<WaitingPod {self.pod.key} for {self.pending_plugins}>"

    @property
    def pending_plugins(self) -> list[str]:
        """Return the plugins that hold the pod, in the order in which they run."""
        return list(self._deadlines)

    @property
    def next_deadline_s(self) -> float:
        """Return when the first plugin's patience ends; infinity if nothing is waited for."""
        if self.status is not None:
            return math.inf
        return min(self._deadlines.values(), default=math.inf)

    def when_settled(self, on_settled: Callable[[Status], None]) -> None:
        """Have something called with what the wait comes to; at once if that is known."""
        if self.status is None:
            self._on_settled = on_settled
        else:
            on_settled(self.status)

    def allow(self, plugin: str) -> None:
        """Let the pod go on, if no other plugin holds it."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._settle(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Refuse the pod; return whether this was in time."""
        return self._settle(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the attempt without a refusal, so that it is repeated; return whether in time."""
        return self._settle(Status(Code.ERROR, (message,), plugin))

    def expire(self, now_s: float) -> None:
        """Refuse the pod if a plugin has waited for too long; of several the one due first."""
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
    """The pods that permit plugins hold, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __repr__(self) -> str:
        return f"<WaitingPodsMap of {len(self._pods)}>"

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Yield the pods; they may be settled and removed meanwhile."""
        return iter(list(self._pods.values()))

    def add(
        self,
        pod: PodInfo,
        wait_s: Mapping[str, float],
        now_s: float,
        on_settled: Callable[[Status], None] | None = None,
    ) -> WaitingPod:
        """Hold a pod; arguments as of `WaitingPod`."""
        waiting = self._pods[pod.uid] = WaitingPod(pod, wait_s, now_s, on_settled)
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        """Return a pod that is held."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Forget a pod; one that is not there is no error."""
        self._pods.pop(uid, None)

    def reject(self, uid: str) -> bool:
        """Refuse a pod that is held, since it is gone; return whether this was in time."""
        # Parity: runtime/framework.go RejectWaitingPod, v1.36.
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", REMOVED)


class PodInPreBind:
    """A pod whose pre-bind runs, and can be called off until it has ended."""

    def __init__(self, cancel: Callable[[str], None]) -> None:
        self._cancel = cancel
        self._is_prebound = False
        self.message = ""
        """Why it was called off."""
        self.is_cancelled = False

    def cancel(self, message: str) -> bool:
        """Call the pre-bind off; return whether the pod will not be bound."""
        if self._is_prebound:
            return False
        if not self.is_cancelled:
            self.is_cancelled, self.message = True, message
            self._cancel(message)
        return True

    def mark_prebound(self) -> bool:
        """Note that nothing stops the binding any more; return false if it was called off."""
        self._is_prebound = not self.is_cancelled
        return self._is_prebound


class PodsInPreBind:
    """The pods whose pre-bind runs, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __repr__(self) -> str:
        return f"<PodsInPreBind of {len(self._pods)}>"

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str, cancel: Callable[[str], None]) -> PodInPreBind:
        """Note that a pod's pre-bind begins; `cancel` is called with the reason to end it."""
        entry = self._pods[uid] = PodInPreBind(cancel)
        return entry

    def get(self, uid: str) -> PodInPreBind | None:
        """Return a pod whose pre-bind runs."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Forget a pod; one that is not there is no error."""
        self._pods.pop(uid, None)
