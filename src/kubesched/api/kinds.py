"""The table of kinds that the scheduler reads: one entry per kind, from watch to store to event.

An entry has the API path of a kind, its wire struct, its name in cluster events, and the fields
that rules read. Reflectors, decoding, object stores, event handlers and RBAC derive from the table.
Upstream: staging/src/k8s.io/client-go/rest/request.go, pkg/scheduler/eventhandlers.go
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from kubesched.api.meta import KubeResource
from kubesched.api.namespace import Namespace
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.policy import PodDisruptionBudget
from kubesched.api.scheduling import PriorityClass
from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

_WORD: Final = re.compile("[A-Z]+(?![a-z])|[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    root: str = field(init=False, repr=False, compare=False)
    """The path of its group and version, with a slash at the end."""

    def __post_init__(self) -> None:
        root = f"/apis/{self.group}/{self.version}/" if self.group else f"/api/{self.version}/"
        object.__setattr__(self, "root", root)

    @property
    def api_version(self) -> str:
        """Return the apiVersion of a document of this kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """Return the plural with its group, as messages of the API server name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of one object, of all in a namespace, or of all in the cluster.

        Names and namespaces are DNS labels, so nothing in them has to be quoted.
        """
        path = self.root
        if namespace and self.namespaced:
            path += f"namespaces/{namespace}/"
        path += self.plural
        if name:
            path += f"/{name}"
        if subresource:
            path += f"/{subresource}"
        return path


class EventRole(Enum):
    """The role of a kind in cluster events."""

    CUSTOM = auto()
    """Upstream has no name for it: its events are named `<plural>.<version>.<group>`."""
    NAMED = auto()
    """Upstream names it, as `<group>/<kind>`."""
    WAKING = auto()
    """As NAMED; its events also wake pods rejected by plugins without event registrations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object that the scheduler reads."""

    resource: Resource
    struct: type[KubeResource] | None = None
    """The struct that documents are decoded into; None for a plain dict."""
    events: EventRole = EventRole.CUSTOM
    is_always_watched: bool = False
    """Whether it is watched even if no enabled plugin reads it."""
    is_in_columns: bool = False
    """Whether the snapshot keeps it in columns, with event handlers of its own: pods and nodes."""
    rules_read: Callable[[Any], object] | None = None
    """Returns the fields that rules read besides the key; None if they may read any field."""
    event: str = field(init=False, repr=False, compare=False)
    """Its name in cluster events."""

    def __post_init__(self) -> None:
        resource = self.resource
        name = f"{resource.group}/{resource.kind}" if resource.group else resource.kind
        is_custom = self.events is EventRole.CUSTOM
        object.__setattr__(self, "event", custom_event_name(resource) if is_custom else name)

    @property
    def store(self) -> str:
        """Return the name of its object store, such as `csi_nodes`; empty if it has none."""
        if self.struct is None or self.is_in_columns:
            return ""
        words, rest = _WORD.findall(self.resource.kind), self.resource.plural
        parts = []
        for word in words[:-1]:
            parts.append(rest[: len(word)])
            rest = rest[len(word) :]
        return "_".join((*parts, rest))


def custom_event_name(resource: Resource) -> str:
    """Return the name of a kind in cluster events, if upstream has no name for it."""
    return f"{resource.plural}.{resource.version}.{resource.group}"


class KindTable:
    """Kinds in the order of the table, found by struct, resource or event name."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: list[Kind] = []
        self._by_resource: dict[Resource, Kind] = {}
        self.structs: dict[tuple[str, str], type[KubeResource]] = {}
        """The struct for documents of an apiVersion and kind."""
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds)

    def add(self, kind: Kind) -> None:
        """Append a kind."""
        self._kinds.append(kind)
        self._by_resource[kind.resource] = kind
        if kind.struct is not None:
            self.structs[kind.struct.api_version, kind.struct.kind] = kind.struct

    def remove(self, kind: Kind) -> None:
        """Remove a kind."""
        self._kinds.remove(kind)
        del self._by_resource[kind.resource]
        if kind.struct is not None:
            del self.structs[kind.struct.api_version, kind.struct.kind]

    def resource_of(self, struct: type[KubeResource]) -> Resource:
        """Return the resource of a struct; KeyError if it has none."""
        for kind in self._kinds:
            if kind.struct is struct:
                return kind.resource
        raise KeyError(struct)

    def event_name(self, resource: Resource) -> str:
        """Return the name under which plugins register for the events of a resource."""
        kind = self._by_resource.get(resource)
        return kind.event if kind is not None else custom_event_name(resource)

    def by_event_name(self, name: str) -> Kind | None:
        """Return the kind with an upstream name in cluster events."""
        for kind in self._kinds:
            if kind.event == name and kind.events is not EventRole.CUSTOM:
                return kind
        return None


def watched(
    struct: type[KubeResource],
    plural: str,
    events: EventRole = EventRole.CUSTOM,
    *,
    is_always_watched: bool = False,
    is_in_columns: bool = False,
    rules_read: Callable[[Any], object] | None = None,
) -> Kind:
    """Return the entry of a kind whose struct gives its apiVersion, name and scope."""
    group, _, version = struct.api_version.rpartition("/")
    return Kind(
        resource=Resource(group, version, plural, struct.kind, struct.namespaced),
        struct=struct,
        events=events,
        is_always_watched=is_always_watched,
        is_in_columns=is_in_columns,
        rules_read=rules_read,
    )


def _device(plural: str, kind: str, events: EventRole, *, namespaced: bool = False) -> Kind:
    """Return the entry of a kind of devices, which no in-tree plugin reads yet."""
    return Kind(resource=Resource("resource.k8s.io", "v1", plural, kind, namespaced), events=events)


def _selector(owner: Service | ReplicationController | ReplicaSet | StatefulSet) -> object:
    return owner.spec.selector


_NAMED, _WAKING = EventRole.NAMED, EventRole.WAKING

# Parity: framework/types.go UnrollWildCardResource, v1.36: the waking kinds, in this order.
KINDS: Final = KindTable(
    (
        watched(Pod, "pods", _WAKING, is_always_watched=True, is_in_columns=True),
        watched(Node, "nodes", _WAKING, is_always_watched=True, is_in_columns=True),
        watched(Namespace, "namespaces", is_always_watched=True),
        watched(PersistentVolume, "persistentvolumes", _WAKING),
        watched(PersistentVolumeClaim, "persistentvolumeclaims", _WAKING),
        watched(CSINode, "csinodes", _WAKING, is_always_watched=True),
        watched(CSIDriver, "csidrivers", _WAKING),
        watched(CSIStorageCapacity, "csistoragecapacities", _WAKING),
        watched(StorageClass, "storageclasses", _WAKING),
        watched(VolumeAttachment, "volumeattachments", _NAMED),
        watched(PodDisruptionBudget, "poddisruptionbudgets"),
        watched(PriorityClass, "priorityclasses"),
        # The status of an owner changes with each of its pods, but rules read only its selector.
        watched(Service, "services", rules_read=_selector),
        watched(ReplicationController, "replicationcontrollers", rules_read=_selector),
        watched(ReplicaSet, "replicasets", rules_read=_selector),
        watched(StatefulSet, "statefulsets", rules_read=_selector),
        _device("resourceclaims", "ResourceClaim", _WAKING, namespaced=True),
        _device("resourceslices", "ResourceSlice", _NAMED),
        _device("deviceclasses", "DeviceClass", _WAKING),
    )
)
