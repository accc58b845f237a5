"""The diagnosis of a failed attempt, and its exceptions.

Owns the two kinds of failure: no node fits, or an error.
Upstream: pkg/scheduler/framework/types.go Diagnosis, FitError
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus, unavailable_text
from kubesched.snapshot.view import NodeTable, Rows

NO_NODES_AVAILABLE = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    """The verdicts of filtering, for a pod that fits nowhere."""

    node_to_status: NodeToStatus
    pre_filter_status: Status | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    post_filter_message: str = ""
    candidates: Rows | None = None
    """The candidate rows that pre-filter plugins named, all others being rejected; None for all."""
    by_extender: dict[int, Status] = field(default_factory=dict)
    """For explanations: extenders' rejections by row, each status with the extender's name."""

    @property
    def pre_filter_message(self) -> str:
        """Return the message of pre-filter, if it rejected the pod."""
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
    """The attempt ended with an error rather than a rejection."""

    feasible: NodeTable | None = None
    """The feasible nodes, if the error came after filtering."""
    diagnosis: Diagnosis | None = None


class NoNodesError(SchedulingError):
    """There is no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)
