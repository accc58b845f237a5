"""Pods.

Owns the part of a pod that a scheduler or one of its plugins reads. Never sums up requests or
resolves defaults: model does.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

from typing import ClassVar

import msgspec

from kubesched.objects.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kubesched.objects.meta import Condition, KubeResource
from kubesched.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    CSIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ISCSIVolumeSource,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    PortworxVolumeSource,
    RBDVolumeSource,
    Volume,
    VsphereVirtualDiskVolumeSource,
)
from kubesched.objects.wire import Int32, Int64, Quantities, Time, Wire

# Affinity and volumes are modules of their own for their size; they are parts of a pod.
__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "Affinity",
    "AzureDiskVolumeSource",
    "AzureFileVolumeSource",
    "CSIVolumeSource",
    "CinderVolumeSource",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerStatus",
    "EmptyDirVolumeSource",
    "EphemeralVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "HostPathVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "NodeAffinity",
    "NodeAllocatableResourceClaimStatus",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodExtendedResourceClaimStatus",
    "PodOS",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PortworxVolumeSource",
    "PreferredSchedulingTerm",
    "RBDVolumeSource",
    "ResourceClaimReference",
    "ResourceRequirements",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VsphereVirtualDiskVolumeSource",
    "WeightedPodAffinityTerm",
]


class ResourceClaimReference(Wire, frozen=True, kw_only=True):
    """A claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire, frozen=True, kw_only=True):
    """What is asked for, and what may not be exceeded."""

    limits: Quantities = {}
    requests: Quantities = {}
    claims: tuple[ResourceClaimReference, ...] = ()


class ContainerPort(Wire, frozen=True, kw_only=True):
    """A port of a container, and of its node if it names one."""

    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class ContainerRestartRuleOnExitCodes(Wire, frozen=True, kw_only=True):
    """Exit codes a restart rule speaks of."""

    operator: str = ""
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(Wire, frozen=True, kw_only=True):
    """What to do when a container exits in a certain way."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ContainerResizePolicy(Wire, frozen=True, kw_only=True):
    """Whether a resize of one resource restarts the container."""

    resource_name: str = ""
    restart_policy: str = ""


class Container(Wire, frozen=True, kw_only=True):
    """A container, or an init container."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class PodOS(Wire, frozen=True, kw_only=True):
    """The operating system the containers are made for."""

    name: str = ""


class PodSchedulingGate(Wire, frozen=True, kw_only=True):
    """Something that must be removed before the pod is scheduled."""

    name: str = ""


class PodResourceClaim(Wire, frozen=True, kw_only=True):
    """A claim of devices, by name or by template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Wire, frozen=True, kw_only=True):
    """The pod group the pod is scheduled with."""

    pod_group_name: str | None = None


class PodSpec(Wire, frozen=True, kw_only=True):
    """What the pod wants."""

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
    """What a container has been given, for resizes under way."""

    name: str = ""
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """The claim made from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Wire, frozen=True, kw_only=True):
    """Which request of the generated claim stands for an extended resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """The claim generated for extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Wire, frozen=True, kw_only=True):
    """Node resources that a claim stands for."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: Quantities = {}


class PodStatus(Wire, frozen=True, kw_only=True):
    """What has become of the pod."""

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
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(KubeResource, frozen=True, kw_only=True):
    """A pod."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
