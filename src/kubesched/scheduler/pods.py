"""Pods that have no node, as the API server shows them.

Owns the last known state of every unassigned pod, ours and other schedulers': what upstream reads
from its pod informer. Pods that have a node are the cache's.
Upstream: client-go listers, as pkg/scheduler/schedule_one.go uses them
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.model.pod_info import PodInfo


class UnassignedPods:
    """Unassigned pods by `namespace/name`."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}

    def __repr__(self) -> str:
        return f"<UnassignedPods of {len(self._pods)}>"

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[PodInfo]:
        return iter(self._pods.values())

    def get(self, key: str) -> PodInfo | None:
        """Return the pod of that name, as last seen."""
        return self._pods.get(key)

    def knows(self, pod: PodInfo) -> bool:
        """Return whether this very pod is there, and has no node."""
        known = self._pods.get(pod.key)
        return known is not None and known.uid == pod.uid

    def put(self, pod: PodInfo) -> None:
        """Take over a pod's state."""
        self._pods[pod.key] = pod

    def pop(self, key: str, uid: str) -> PodInfo | None:
        """Drop a pod; return it if it was this very one."""
        known = self._pods.get(key)
        if known is None or known.uid != uid:
            return None
        return self._pods.pop(key)
