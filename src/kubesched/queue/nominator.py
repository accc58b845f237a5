"""Which pending pods were promised which node.

Owns when a promise is made, kept over an update, and taken back. The facts that rules count are
rows of the pod table, written through the callables given here. Never chooses a node.
Upstream: pkg/scheduler/backend/queue/nominator.go
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.kit.log import Log, Ref
from kubesched.model.pod_info import PodInfo


class Nominator:
    """Promises by pod and by node.

    Args:
        nominate: Writes a promise, in place of an earlier one of the same pod.
        remove: Takes the promise of a pod back; a pod that counts on a node by now stays there.
        pod_of: Gives a pod as the watch last showed it, by `namespace/name`.
        log: Where refusals are said.
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
        """Return the node a pod was promised, or nothing."""
        return self._node_of.get(uid, "")

    def nominated_pods(self, node_name: str) -> list[PodInfo]:
        """Return the pods that were promised a node, the earliest first."""
        return list(self._pods_of.get(node_name, {}).values())

    def add_nominated_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Promise a node to a pod: the one given, or the one its status names.

        An empty name takes the promise back whatever the status says; None leaves it to the status.
        """
        # Parity: nominator.go addNominatedPodUnlocked, v1.36.
        self.delete_nominated_pod(pod)
        node = pod.nominated_node_name if node_name is None else node_name
        if node_name is None and not node:
            return
        known = self._pod_of(pod.key)
        if known is None:
            if self._log.enabled(4):
                self._log.info(
                    "Pod doesn't exist in podLister, aborted adding it to the nominator",
                    level=4,
                    pod=Ref(pod.namespace, pod.name),
                )
            return
        if known.node_name:
            if self._log.enabled(4):
                self._log.info(
                    "Pod is already scheduled to a node, aborted adding it to the nominator",
                    level=4,
                    pod=Ref(pod.namespace, pod.name),
                    node=known.node_name,
                )
            return
        self._node_of[pod.uid] = node
        if node:
            self._pods_of.setdefault(node, {})[pod.uid] = pod
            self._nominate(pod, node)

    def update_nominated_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Carry a promise over to the new state of a pod, unless its status says otherwise."""
        # Parity: nominator.go UpdateNominatedPod, v1.36: an update that knows of no nomination, and
        # knew of none, may be older than the promise.
        kept = None
        if not old.nominated_node_name and not new.nominated_node_name:
            kept = self._node_of.get(old.uid)
        self.delete_nominated_pod(old)
        self.add_nominated_pod(new, kept)

    def delete_nominated_pod(self, pod: PodInfo) -> None:
        """Take a promise back, if there is one."""
        node = self._node_of.pop(pod.uid, "")
        if node:
            pods = self._pods_of[node]
            promised = pods.pop(pod.uid)
            if not pods:
                del self._pods_of[node]
            self._remove(promised)
