"""Cluster events: what plugins register for and what wakes pods.

Owns the resources and actions of an event, its label in logs and metrics, and when a registration
covers it. Never looks at an object: `object_changes` does.
Upstream: staging/src/k8s.io/kube-scheduler/framework/types.go, pkg/scheduler/framework/events.go
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import Final


class ActionType(IntFlag):
    """Actions as bits; a narrow registration does not match a broad event."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE = (1 << 13) - (1 << 2)  # All of the updates above.
    ALL = ADD | DELETE | UPDATE


class EventResource(StrEnum):
    """The resources that upstream names; others are `<plural>.<version>.<group>`."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


class QueueingHint(StrEnum):
    """Whether an event may let a rejected pod fit."""

    QUEUE = "Queue"
    QUEUE_SKIP = "QueueSkip"


# Parity: framework/types.go ActionType.String, v1.36: a mixture has no name.
_ACTION_NAMES: Final = {
    int(action): "".join(map(str.capitalize, name.split("_")))
    for name, action in ActionType.__members__.items()
}


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and an action."""

    resource: str
    action: ActionType
    custom_label: str = ""
    label: str = field(init=False, compare=False)
    """Its name in logs and metrics: `NodeAdd`, `AssignedPodDelete`, ..."""

    def __post_init__(self) -> None:
        label = self.custom_label or f"{self.resource}{_ACTION_NAMES.get(int(self.action), '')}"
        object.__setattr__(self, "label", label)

    def __hash__(self) -> int:
        # Events are looked up at every change of the cluster, and hashing an enum is slow.
        return hash(self.label)

    def json_items(self) -> list[tuple[str, object]]:
        """Return the fields of the event for log lines."""
        return [
            ("Resource", str(self.resource)),
            ("ActionType", int(self.action)),
            ("CustomLabel", self.custom_label),
        ]

    @property
    def is_wildcard(self) -> bool:
        """Return whether the event matches every other."""
        return self.resource == EventResource.WILDCARD and self.action == ActionType.ALL

    def covers(self, incoming: ClusterEvent) -> bool:
        """Return whether a registration for this event matches an incoming one."""
        # Parity: framework/types.go MatchClusterEvents, v1.36. By the comparison of values, a broad
        # `Update` does not match a registration for one kind of update.
        if self.is_wildcard:
            return True
        same = self.resource in (EventResource.WILDCARD, incoming.resource) or (
            self.resource == EventResource.POD
            and incoming.resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
        )
        return same and bool(self.action & incoming.action) and incoming.action <= self.action


# Parity: framework/events.go, v1.36.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF_QUEUE: Final = "PopFromBackoffQ"
FORCE_ACTIVATE: Final = "ForceActivate"
UNSCHEDULABLE_TIMEOUT: Final = "UnschedulableTimeout"

ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT_EVENT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, UNSCHEDULABLE_TIMEOUT
)
FORCE_ACTIVATE_EVENT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, FORCE_ACTIVATE)
