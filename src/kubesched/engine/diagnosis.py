"""Why an attempt failed.

Owns the two ways to fail: no node fits, or something went wrong.
Upstream: pkg/scheduler/framework/types.go Diagnosis, FitError
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesched.columns.view import NodeTable, Rows
from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus, unavailable_text

NO_NODES_AVAILABLE = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """What filtering found out about a pod that fits nowhere."""

    node_to_status: NodeToStatus
    pre_filter_status: Status | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    post_filter_message: str = ""
    candidates: Rows | None = None
    """The rows that pre-filter plugins left over, all others being refused; None for all."""
    by_extender: dict[int, Status] = field(default_factory=dict)
    """For people: what extenders said of the rows they refused, each status with its name."""

    @property
    def pre_filter_message(self) -> str:
        """Return what pre-filter said, if it refused the pod."""
        return "" if self.pre_filter_status is None else self.pre_filter_status.message


class FitError(Exception):
    """No node fits the pod."""

    def __init__(self, node_count: int, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.node_count = node_count
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return unavailable_text(
            self.node_count,
            self.diagnosis.node_to_status,
            pre_filter=self.diagnosis.pre_filter_message,
            post_filter=self.diagnosis.post_filter_message,
        )


class SchedulingError(Exception):
    """The attempt ended with an error rather than a refusal."""

    feasible: NodeTable | None = None
    """The nodes that fit, if the error came after filtering."""
    diagnosis: Diagnosis | None = None


class NoNodesError(SchedulingError):
    """There is no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)
