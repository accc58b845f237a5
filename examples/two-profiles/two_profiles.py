"""A plugin for zones, and a queue sort plugin."""

from kubesched import (
    CycleState,
    NodeTable,
    NodeView,
    PodInfo,
    PreFilterResult,
    Status,
    unresolvable,
)
from kubesched.framework.queued_pod import QueuedPodInfo

ZONE = "topology.kubernetes.io/zone"


class ZoneLabel:
    """Pods with a label `zone` belong to that zone."""

    name = "zone-label"

    def pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Status | PreFilterResult | None:
        zone = pod.labels.get("zone")
        if zone is None:
            return unresolvable("pod has no label zone")
        return PreFilterResult(frozenset(nodes.take(nodes.has_label(ZONE, zone)).names))

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 100 if node.labels.get(ZONE) == pod.labels.get("zone") else 0


class SmallFirst:
    """Schedules the pod with the lowest CPU request first; of equal ones, the older."""

    name = "small-first"

    def less(self, first: QueuedPodInfo, second: QueuedPodInfo) -> bool:
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, float]:
        return queued.pod.requests["cpu"], queued.timestamp_s
