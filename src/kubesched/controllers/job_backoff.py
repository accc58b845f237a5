"""How long a Job waits before it replaces pods that failed.

Owns when a pod counts as ended, the record of failures in a row, and the wait that follows from
it. Never creates a pod.
Upstream: pkg/controller/job/backoff_utils.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, condition_of, seconds_of

FIRST_S: Final = 10.0
LAST_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of one Job since its last success."""

    failures: int = 0
    last_failure_s: float = 0.0

    def after(self, succeeded: Sequence[Document], failed: Sequence[Document]) -> Backoff:
        """Return the record once these pods have ended too."""
        failed_s = sorted(finished_s(pod) for pod in failed)
        if succeeded:
            last_s = max(finished_s(pod) for pod in succeeded)
            failed_s = [at_s for at_s in failed_s if at_s > last_s]
            return Backoff(len(failed_s), failed_s[-1] if failed_s else 0.0)
        if not failed_s:
            return self
        return Backoff(self.failures + len(failed_s), failed_s[-1])

    def remaining_s(self, now_s: float, speed: float = 1.0) -> float:
        """Return how long to wait yet before a pod is replaced."""
        return remaining_s(self.failures, self.last_failure_s, now_s, speed)


def remaining_s(failures: int, last_failure_s: float, now_s: float, speed: float = 1.0) -> float:
    """Return how long to wait after so many failures in a row: doubled with each, capped."""
    if failures == 0:
        return 0.0
    # The exponent is capped because a float has an end, and the wait is capped long before.
    wait_s = min(FIRST_S * 2.0 ** min(failures - 1, 30), LAST_S) / speed
    return max(0.0, wait_s - (now_s - last_failure_s))


def finished_s(pod: Document) -> float:
    """Return when a pod ended, by the best that is known of it.

    Parity: backoff_utils.go getFinishedTime, v1.36.
    """
    found = _containers_finished_s(pod)
    if found is not None:
        return found
    ready = condition_of(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return seconds_of(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace_s = metadata.get("deletionGracePeriodSeconds") or 0
        return seconds_of(metadata["deletionTimestamp"]) - float(grace_s)
    return seconds_of(metadata.get("creationTimestamp"))


def _containers_finished_s(pod: Document) -> float | None:
    status = pod.get("status") or {}
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    # Parity: a sidecar that still runs makes the time unknown, whatever the others say.
    found = _latest_s(None, status.get("containerStatuses") or (), lambda _: True)
    started = status.get("initContainerStatuses") or ()
    return _latest_s(found, started, lambda name: name in sidecars)


def _latest_s(
    before_s: float | None, containers: Iterable[dict[str, Any]], counts: Callable[[str], bool]
) -> float | None:
    latest_s = before_s
    for container in containers:
        if not counts(container["name"]):
            continue
        terminated = (container.get("state") or {}).get("terminated") or {}
        if not terminated.get("finishedAt"):
            return None
        at_s = seconds_of(terminated["finishedAt"])
        latest_s = at_s if latest_s is None else max(latest_s, at_s)
    return latest_s
