"""The Kubernetes scheduler in Python: the API for plugin authors, and functions to run it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kubesched.config.types import RawArgs
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
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
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeTable, NodeView

if TYPE_CHECKING:
    from kubesched.cli.main import main
    from kubesched.explanation.explain import explain
    from kubesched.run.scheduler_library import Scheduler

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


# Imported on first use: these import every in-tree plugin, which plugin authors do not need.
_LATER = {
    "Scheduler": "kubesched.run.scheduler_library",
    "explain": "kubesched.explanation.explain",
    "main": "kubesched.cli.main",
}


def __getattr__(name: str) -> Any:
    """Import the names of `_LATER` on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
