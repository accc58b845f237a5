"""Wire types of nodes, as far as the scheduler and its plugins read them.

Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import ClassVar

import msgspec

from kubesched.api.meta import Condition, KubeResource
from kubesched.api.wire import Int64, Quantities, Time, Wire


class Taint(Wire, frozen=True, kw_only=True):
    """A taint, which pods must tolerate."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Wire, frozen=True, kw_only=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Wire, frozen=True, kw_only=True):
    """An image on the node."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeAddress(Wire, frozen=True, kw_only=True):
    """An address of the node."""

    type: str = ""
    address: str = ""


class NodeStatus(Wire, frozen=True, kw_only=True):
    """The status of a node."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeResource, frozen=True, kw_only=True):
    """A node."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
