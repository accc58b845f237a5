"""What the queue asks of others: plugins and metrics, as narrow as it uses them.

Owns the contracts, and the settings of the queue. Never knows a plugin by name; the framework,
beside which the queue stands, satisfies these shapes without being imported.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (options)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from kubesched.model.cluster_event import ClusterEvent, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.model.queued_pod import QueuedPodInfo

Less: TypeAlias = "Callable[[QueuedPodInfo, QueuedPodInfo], bool]"
SortKey: TypeAlias = "Callable[[QueuedPodInfo], Any]"
PreCheck: TypeAlias = "Callable[[PodInfo], bool]"
HintFunction: TypeAlias = "Callable[[PodInfo, Any, Any], QueueingHint]"

Reads: TypeAlias = "str | Callable[[PodShape, Any, Any], str]"
"""`nothing`, `shape`, `template` or `pod`; or which of them for a shape and an event's objects."""


class Status(Protocol):
    """A plugin's verdict; None in its place is success."""

    @property
    def code(self) -> int: ...
    @property
    def is_success(self) -> bool: ...
    @property
    def message(self) -> str: ...


PreEnqueue: TypeAlias = "Callable[[PodInfo], Status | None]"


class Registration(Protocol):
    """An event a plugin wants to hear of, and its hint."""

    @property
    def event(self) -> ClusterEvent: ...
    @property
    def hint(self) -> HintFunction | None: ...
    @property
    def reads(self) -> Reads:
        """Return what of a pod the hint looks at."""
        ...


@dataclass(frozen=True, slots=True)
class ProfileQueueing:
    """What the queue needs of a profile."""

    pre_enqueue: Mapping[str, PreEnqueue] = field(default_factory=dict)
    """By plugin, in the order in which they run."""
    registrations: Mapping[str, Sequence[Registration]] = field(default_factory=dict)
    """By plugin: those that may refuse a pod, and what may change their mind."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The queue's part of the configuration."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    max_in_unschedulable_s: float = 300.0
    pop_from_backoff_queue: bool = True
    """The gate SchedulerPopFromBackoffQ: an idle scheduler does not wait for a backoff to end."""
