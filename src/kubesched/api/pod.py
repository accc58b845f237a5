"""Wire types of pods, as far as the scheduler and its plugins read them.

Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import Any, ClassVar

import msgspec

from kubesched.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from kubesched.api.meta import Condition, KubeResource
from kubesched.api.volumes import Volume
from kubesched.api.wire import Int32, Int64, Quantities, Time, Wire


class ResourceClaimReference(Wire, frozen=True, kw_only=True):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """Requests and limits."""

    limits: Quantities = {}
    requests: Quantities = {}
    claims: tuple[ResourceClaimReference, ...] = ()


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A port of a container, and optionally of its node."""

    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class ContainerRestartRule(Wire, frozen=True, kw_only=True):
    """What to do when a container exits in a certain way."""

    action: str = ""


class Container(Wire, frozen=True, kw_only=True):
    """A container, or an init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PodOS(Wire, frozen=True, kw_only=True):
    """The operating system of the containers."""

    name: str = ""


class PodSchedulingGate(Wire, frozen=True, kw_only=True):
    """A scheduling gate, to be removed before the pod is scheduled."""

    name: str = ""


class PodResourceClaim(Wire, frozen=True, kw_only=True):
    """A claim of devices."""

    name: str = ""


class PodSchedulingGroup(Wire, frozen=True, kw_only=True):
    """The pod group that the pod is scheduled with."""

    pod_group_name: str | None = None


class PodSpec(Wire, frozen=True, kw_only=True):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    overhead: Quantities = {}
    resources: ResourceRequirements | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    runtime_class_name: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    os: PodOS | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """The status of a container, for resizes in progress."""

    name: str = ""
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None


class PodStatus(Wire, frozen=True, kw_only=True):
    """The status of a pod."""

    observed_generation: Int64 = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[dict[str, Any], ...] = ()
    extended_resource_claim_status: dict[str, Any] | None = None


class Pod(KubeResource, frozen=True, kw_only=True):
    """A pod."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
