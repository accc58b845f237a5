"""Nodes.

Owns the part of a node that a scheduler or one of its plugins reads. Never counts what runs there:
columns do.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import ClassVar

import msgspec

from kubesched.objects.meta import Condition, KubeResource
from kubesched.objects.wire import Int64, Quantities, Time, Wire


class Taint(Wire, frozen=True, kw_only=True):
    """Something about a node that pods must tolerate."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Wire, frozen=True, kw_only=True):
    """What is said about the node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Wire, frozen=True, kw_only=True):
    """An image the node holds."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeAddress(Wire, frozen=True, kw_only=True):
    """Where the node is reached."""

    type: str = ""
    address: str = ""


class AttachedVolume(Wire, frozen=True, kw_only=True):
    """A volume attached to the node."""

    name: str = ""
    device_path: str = ""


class NodeStatus(Wire, frozen=True, kw_only=True):
    """What the node has."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeResource, frozen=True, kw_only=True):
    """A node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
