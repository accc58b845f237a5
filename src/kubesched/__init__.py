"""The Kubernetes scheduler, in Python: what plugin authors import, and `explain`."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from kubesched.app.explain import explain

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
    "explain",
    "pending",
    "unresolvable",
    "unschedulable",
    "wait",
]


def __getattr__(name: str) -> Any:
    """Import `explain` when it is first asked for: it brings every plugin with it."""
    if name != "explain":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kubesched.app.explain import explain  # noqa: PLC0415 - plugin authors need none of it

    return explain
