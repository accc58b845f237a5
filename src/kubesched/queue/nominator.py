"""The nominator: pending pods that are nominated to a node.

Owns when a nomination is added, survives an update, and is removed. Filters count nominated pods
from the pod table, which is written through the two callables here. Never chooses a node.
Upstream: pkg/scheduler/backend/queue/nominator.go
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.kit.log import Log
from kubesched.snapshot.pod_info import PodInfo


class Nominator:
    """Nominations by pod and by node.

    Args:
        nominate: Writes a nomination to the pod table, replacing the pod's earlier one.
        remove: Removes a pod's nomination; a pod that is already on a node stays there.
        pod_of: Returns a pod by `namespace/name` as the watch last showed it.
        log: Where skipped nominations are logged.
    """

    def __init__(
        self,
        *,
        nominate: Callable[[PodInfo, str], None],
        remove: Callable[[PodInfo], None],
        pod_of: Callable[[str], PodInfo | None],
        log: Log,
    ) -> None:
        self._nominate = nominate
        self._remove = remove
        self._pod_of = pod_of
        self._log = log
        self._node_of: dict[str, str] = {}
        self._pods_of: dict[str, dict[str, PodInfo]] = {}

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to; empty for none."""
        return self._node_of.get(uid, "")

    def nominated_pods(self, node_name: str) -> list[PodInfo]:
        """Return the pods nominated to a node, the earliest first."""
        return list(self._pods_of.get(node_name, {}).values())

    def add_nominated_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to `node_name`, or if that is None to the node that its status names.

        An empty name removes the nomination, regardless of the status.
        """
        # Parity: nominator.go addNominatedPodUnlocked, v1.36.
        self.delete_nominated_pod(pod)
        node = pod.nominated_node_name if node_name is None else node_name
        if node_name is None and not node:
            return
        current = self._pod_of(pod.key)
        if current is None:
            message = "Pod doesn't exist in podLister, aborted adding it to the nominator"
            self._log.info(message, level=4, pod=pod)
            return
        if current.node_name:
            message = "Pod is already scheduled to a node, aborted adding it to the nominator"
            self._log.info(message, level=4, pod=pod, node=current.node_name)
            return
        self._node_of[pod.uid] = node
        if node:
            self._pods_of.setdefault(node, {})[pod.uid] = pod
            self._nominate(pod, node)

    def update_nominated_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Keep a nomination over an update of the pod, unless its status says otherwise."""
        # Parity: nominator.go UpdateNominatedPod, v1.36: an update that knows of no nomination, and
        # knew of none, may be older than the nomination.
        kept = None
        if not old.nominated_node_name and not new.nominated_node_name:
            kept = self._node_of.get(old.uid)
        self.delete_nominated_pod(old)
        self.add_nominated_pod(new, kept)

    def delete_nominated_pod(self, pod: PodInfo) -> None:
        """Remove a nomination, if there is one."""
        node = self._node_of.pop(pod.uid, "")
        if node:
            pods = self._pods_of[node]
            nominated = pods.pop(pod.uid)
            if not pods:
                del self._pods_of[node]
            self._remove(nominated)
