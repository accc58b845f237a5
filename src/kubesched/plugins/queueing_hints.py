"""Registration for cluster events, and functions that several queueing hints share.

Upstream: staging/src/k8s.io/kube-scheduler/framework/interface.go ClusterEventWithHint
"""

from __future__ import annotations

from typing import TypeAlias

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration, HintFunction, HintReads, HintReadsOf
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

AnyPod: TypeAlias = PodInfo | BoundPod


def on(
    resource: EventResource,
    action: ActionType,
    hint: HintFunction | None = None,
    *,
    reads: HintReads | HintReadsOf = "pod",
) -> EventRegistration:
    """Register for an event; without a hint, it always queues the pod."""
    return EventRegistration(ClusterEvent(resource, action), hint, reads)


def queue_if(helps: bool) -> QueueingHint:
    """Return the hint to queue the pod if the event may help it."""
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP


def has_node(pod: AnyPod) -> bool:
    """Return whether a pod is bound to a node or nominated to one."""
    return bool(pod.node_name or pod.nominated_node_name)
