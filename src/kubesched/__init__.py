"""The Kubernetes scheduler, in Python: what plugin authors import, and ways to run it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable, NodeView
from kubesched.config.types import RawArgs
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
    from kubesched.app.own_scheduler import Scheduler
    from kubesched.cli.program import main
    from kubesched.sim.explain import explain

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
    "RawArgs",
    "Reads",
    "Rejected",
    "Scheduler",
    "SignFragment",
    "Status",
    "StatusError",
    "Victims",
    "default_normalize",
    "error",
    "explain",
    "main",
    "pending",
    "unresolvable",
    "unschedulable",
    "wait",
]


# What brings every plugin with it, imported when it is first asked for: plugin authors need none.
_LATER = {
    "Scheduler": "kubesched.app.own_scheduler",
    "explain": "kubesched.sim.explain",
    "main": "kubesched.cli.program",
}


def __getattr__(name: str) -> Any:
    """Import what is seldom needed when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
