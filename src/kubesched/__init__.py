"""The Kubernetes scheduler, in Python: what plugin authors import."""

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable, NodeView
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    AllReasons,
    EventRegistration,
    NodeStatuses,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    Reads,
    Rejected,
    SignFragment,
    Victims,
)
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo

__all__ = [
    "SKIP",
    "SUCCESS",
    "ActionType",
    "AllReasons",
    "BoundPod",
    "ClusterEvent",
    "ClusterView",
    "Code",
    "CycleState",
    "EventRegistration",
    "EventResource",
    "Handle",
    "NodeStatuses",
    "NodeTable",
    "NodeView",
    "PodInfo",
    "PodRows",
    "PostFilterResult",
    "PreBindPreFlightResult",
    "PreFilterResult",
    "QueueingHint",
    "Reads",
    "Rejected",
    "SignFragment",
    "Status",
    "StatusError",
    "Victims",
    "default_normalize",
    "error",
    "pending",
    "unresolvable",
    "unschedulable",
    "wait",
]
