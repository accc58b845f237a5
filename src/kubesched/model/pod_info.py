"""A pod as the scheduler sees it.

Owns `PodShape`, the part that pods of one template share, compiled once; and `PodInfo`, one pod
with its names, labels and times around a shape. Never knows which node is which row.
Upstream: pkg/scheduler/framework/types.go PodInfo
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from kubesched.model.affinity_terms import TermSet, compile_terms
from kubesched.model.resources import (
    as_integers,
    is_sidecar,
    non_zero_requests,
    pod_limits,
    pod_requests,
    scoring_requests,
)
from kubesched.model.tolerations import Taint, tolerates
from kubesched.objects.affinity import (
    Affinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
)
from kubesched.objects.affinity import NodeAffinity as WireNodeAffinity
from kubesched.objects.affinity import NodeSelector as WireNodeSelector
from kubesched.objects.decode import decode_as
from kubesched.objects.meta import OwnerReference
from kubesched.objects.pod import Pod, PodSpec, PodStatus
from kubesched.objects.times import parse_time
from kubesched.objects.volumes import Volume

# Volumes of these sources never meet a scheduling rule, and the service account's has a random
# name in every pod: with them no two pods would share a shape.
_SOURCES_WITHOUT_RULES = (
    "config_map",
    "secret",
    "empty_dir",
    "host_path",
    "projected",
    "downward_api",
)


class ResourceMap(dict[str, int]):
    """Integers per resource name; a name that is not there counts zero."""

    def __missing__(self, name: str) -> int:
        return 0


Resources = Mapping[str, int]


def resources_of(values: Mapping[str, int]) -> Resources:
    """Return a read-only map in which a missing name is zero."""
    return MappingProxyType(ResourceMap(values))


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port a pod takes on its node's own address."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Return whether both cannot be on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip)


class PodFamily:
    """Stands for the shapes that are equal but for requests and the names of claims."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodShape:
    """What rules read of a pod, worked out once for all pods of the same content."""

    namespace: str
    scheduler_name: str
    requests: Resources
    """What the pod asks for: millicores, bytes, units."""
    limits: Resources
    """What the pod may take at most."""
    usage: Resources
    """What the pod takes on its node, resizes under way included."""
    nonzero_usage: tuple[int, int]
    """Cpu and memory it weighs in scoring; never nothing."""
    scoring_requests: Resources
    """What NodeResourcesFit scores by; never nothing for cpu and memory."""
    host_ports: tuple[HostPort, ...]
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str] | None
    required_node_affinity: WireNodeSelector | None
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...] | None
    terms: TermSet
    spread_constraints: tuple[TopologySpreadConstraint, ...]
    volumes: tuple[Volume, ...]
    images: tuple[str, ...]
    """Images of init containers, containers and image volumes, as written."""
    container_count: int
    """Init containers and containers."""
    required_features: tuple[str, ...]
    preemption_policy: str
    has_resource_claims: bool
    family: PodFamily
    """What shapes share that differ in what they ask for and which claims they name only."""
    named_node: str = ""
    """The node that required node affinity names, if it is one and nothing else is required."""
    unnamed: PodShape | None = None
    """For a pod that names a node, as those of DaemonSets do: the same without that."""

    @property
    def base(self) -> PodShape:
        """Return what pods share that are alike but for the node they name."""
        return self.unnamed or self

    def changed(self, **parts: Any) -> PodShape:
        """Return a shape of its own with some parts changed."""
        return replace(self, family=PodFamily(), named_node="", unnamed=None, **parts)


class PodInfo:
    """One pod: names, labels and times of its own, everything else shared through its shape.

    `spec` and `status` give the whole wire objects, decoded when first asked for.
    """

    __slots__ = (
        "_label_items",
        "_object",
        "_raw",
        "_template",
        "annotations",
        "disruption_target",
        "generation",
        "labels",
        "name",
        "namespace",
        "node_name",
        "nominated_node_name",
        "owners",
        "phase",
        "priority",
        "resource_version",
        "scheduling_gates",
        "shape",
        "start_s",
        "terminating",
        "uid",
    )

    def __init__(self, pod: Pod, shape: PodShape, raw: bytes | None = None) -> None:
        meta, spec, status = pod.metadata, pod.spec, pod.status
        self.namespace = meta.namespace or ""
        self.name = meta.name
        # Nothing stored lacks a uid; what a user wrote by hand may, and is then known by its name.
        self.uid = meta.uid or f"{self.namespace}/{self.name}"
        self.labels: Mapping[str, str] = MappingProxyType(meta.labels or {})
        self.annotations: Mapping[str, str] = MappingProxyType(meta.annotations or {})
        self.owners: tuple[OwnerReference, ...] = tuple(meta.owner_references or ())
        self.generation = meta.generation
        self.resource_version = meta.resource_version
        self.terminating = bool(meta.deletion_timestamp)
        self.priority = spec.priority or 0
        self.node_name = spec.node_name or ""
        self.scheduling_gates = tuple(gate.name for gate in spec.scheduling_gates or ())
        self.phase = status.phase or ""
        self.nominated_node_name = status.nominated_node_name or ""
        self.start_s = parse_time(status.start_time) if status.start_time else None
        self.disruption_target = _is_disruption_target(status)
        self.shape = shape
        self._label_items: tuple[tuple[str, str], ...] | None = None
        self._template: tuple[Hashable, ...] | None = None
        self._raw = raw
        self._object: Pod | None = None if raw is not None else pod

    def __repr__(self) -> str:
        where = f" on {self.node_name}" if self.node_name else ""
        return f"<PodInfo {self.key}{where} priority={self.priority}>"

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def object(self) -> Pod:
        """Return the whole wire object."""
        if self._object is None:
            assert self._raw is not None
            self._object = decode_as(Pod, self._raw)
        return self._object

    @property
    def raw(self) -> bytes:
        """Return the whole object as JSON."""
        return self._raw if self._raw is not None else msgspec.json.encode(self.object)

    @property
    def spec(self) -> PodSpec:
        """Return the whole spec."""
        return self.object.spec

    @property
    def status(self) -> PodStatus:
        """Return the whole status."""
        return self.object.status

    @property
    def requests(self) -> Resources:
        """Return what the pod asks for; a resource it does not name is zero."""
        return self.shape.requests

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Return the tolerations."""
        return self.shape.tolerations

    @property
    def scheduler_name(self) -> str:
        """Return the name of the profile that is to place the pod."""
        return self.shape.scheduler_name

    @property
    def terms(self) -> TermSet:
        """Return the compiled pod affinity terms."""
        return self.shape.terms

    @property
    def label_items(self) -> tuple[tuple[str, str], ...]:
        """Return the labels in the order of their keys."""
        if self._label_items is None:
            self._label_items = tuple(sorted(self.labels.items()))
        return self._label_items

    @property
    def template(self) -> tuple[Hashable, ...]:
        """Return what rules can tell pods apart by; pods of one controller mostly share it."""
        if self._template is None:
            self._template = self._template_of(self.shape)
        return self._template

    @property
    def unnamed_template(self) -> tuple[Hashable, ...]:
        """Return the template without the node that the pod names."""
        return self._template_of(self.shape.base)

    def _template_of(self, shape: PodShape) -> tuple[Hashable, ...]:
        owner = self.controller if self.owners else None
        known_as = None if owner is None else (owner.api_version, owner.kind, owner.name)
        return (shape, self.label_items, known_as, self.node_name)

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages the pod, if any."""
        return next((owner for owner in self.owners if owner.controller), None)

    def tolerates(self, key: str, value: str = "", effect: str = "NoSchedule") -> bool:
        """Return whether a taint of that key, value and effect would be tolerated."""
        return tolerates(self.shape.tolerations, Taint(key, value, effect))


class PodShapes:
    """Finds the shape of a pod, compiling each distinct content once."""

    def __init__(self) -> None:
        self._by_content: dict[bytes, PodShape] = {}
        self._families: WeakValueDictionary[bytes, PodFamily] = WeakValueDictionary()
        self._named: WeakValueDictionary[tuple[PodShape, str], PodShape] = WeakValueDictionary()
        """Shapes of pods that name a node, by the shape without that."""

    def pod_info(self, pod: Pod, raw: bytes | None = None) -> PodInfo:
        """Return the pod around its shared shape."""
        return PodInfo(pod, self.shape_of(pod), raw)

    def shape_of(self, pod: Pod) -> PodShape:
        """Return the shared shape of a pod."""
        required = _naming_one_node(pod.spec.affinity)
        if required is None:
            return self._shape_by_content(pod)
        base = self._shape_by_content(_without_required(pod))
        name = required.node_selector_terms[0].match_fields[0].values[0]
        named = self._named.get((base, name))
        if named is None:
            named = self._named[base, name] = replace(
                base,
                required_node_affinity=required,
                family=PodFamily(),
                named_node=name,
                unnamed=base,
            )
        return named

    def _shape_by_content(self, pod: Pod) -> PodShape:
        content = _content_of(pod)
        shape = self._by_content.get(content)
        if shape is None:
            shape = self._by_content[content] = compile_shape(pod, self._family_of(pod))
        return shape

    def _family_of(self, pod: Pod) -> PodFamily:
        content = _family_content_of(pod)
        family = self._families.get(content)
        if family is None:
            family = self._families[content] = PodFamily()
        return family

    def keep_only(self, shapes: Iterable[PodShape]) -> None:
        """Forget all other shapes; pods that still hold one keep it to themselves."""
        kept = set(map(id, shapes))
        self._by_content = {
            content: shape for content, shape in self._by_content.items() if id(shape) in kept
        }

    def __len__(self) -> int:
        return len(self._by_content)


def _naming_one_node(affinity: Affinity | None) -> WireNodeSelector | None:
    """Return the required node affinity if all it says is the name of one node."""
    node_affinity = None if affinity is None else affinity.node_affinity
    if node_affinity is None:
        return None
    required = node_affinity.required_during_scheduling_ignored_during_execution
    if required is None or len(required.node_selector_terms) != 1:
        return None
    term = required.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return None
    field = term.match_fields[0]
    is_name = field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
    return required if is_name and field.values[0] else None


def _without_required(pod: Pod) -> Pod:
    """Return the pod without its required node affinity."""
    affinity = pod.spec.affinity
    assert affinity is not None, "there is something to be left out"
    node_affinity = affinity.node_affinity
    assert node_affinity is not None, "there is something to be left out"
    preferred = node_affinity.preferred_during_scheduling_ignored_during_execution
    left = WireNodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    kept = msgspec.structs.replace(affinity, node_affinity=left if preferred else None)
    others = kept if kept != Affinity() else None
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=others))


def compile_shape(pod: Pod, family: PodFamily | None = None) -> PodShape:
    """Return the shape of a pod, worked out anew; without a family, it is the only one of its."""
    spec = pod.spec
    namespace = pod.metadata.namespace or ""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    preferred = (
        affinity.preferred_during_scheduling_ignored_during_execution
        if affinity is not None
        else None
    )
    init, regular = tuple(spec.init_containers or ()), tuple(spec.containers or ())
    image_volumes = (v.image.reference for v in spec.volumes or () if v.image is not None)
    return PodShape(
        namespace=namespace,
        scheduler_name=spec.scheduler_name or "default-scheduler",
        requests=resources_of(as_integers(pod_requests(pod))),
        limits=resources_of(as_integers(pod_limits(pod))),
        usage=resources_of(as_integers(pod_requests(pod, use_status=True))),
        nonzero_usage=non_zero_requests(pod),
        scoring_requests=resources_of(as_integers(scoring_requests(pod))),
        host_ports=_host_ports(spec),
        tolerations=tuple(spec.tolerations or ()),
        node_selector=spec.node_selector or None,
        required_node_affinity=(
            affinity.required_during_scheduling_ignored_during_execution
            if affinity is not None
            else None
        ),
        preferred_node_affinity=tuple(preferred or ()) or None,
        terms=compile_terms(namespace, spec.affinity),
        spread_constraints=tuple(spec.topology_spread_constraints or ()),
        volumes=_volumes_with_rules(spec.volumes or ()),
        images=(*(c.image or "" for c in (*init, *regular)), *(i or "" for i in image_volumes)),
        container_count=len(init) + len(regular),
        required_features=_required_features(spec),
        preemption_policy=spec.preemption_policy or "PreemptLowerPriority",
        has_resource_claims=bool(spec.resource_claims),
        family=family or PodFamily(),
    )


def _content_of(pod: Pod) -> bytes:
    """Return bytes that are equal for two pods exactly if their shapes are equal."""
    spec, status = pod.spec, pod.status
    volumes = [
        v if v.ephemeral is not None else msgspec.structs.replace(v, name="")
        for v in _volumes_with_rules(spec.volumes or ())
    ]
    content: list[Any] = [
        pod.metadata.namespace,
        spec.scheduler_name,
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        volumes,
        spec.host_network,
        spec.host_users,
        spec.preemption_policy,
        spec.resource_claims,
    ]
    resized = any(
        s.resources is not None
        for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    )
    if resized or status.resources is not None:
        content += [
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            [c for c in status.conditions or () if c.type == "PodResizePending"],
        ]
    return msgspec.json.encode(content, order="sorted")


def _family_content_of(pod: Pod) -> bytes:
    """Return bytes that are equal for two pods only if their shapes are of one family."""
    spec = pod.spec
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    content: list[Any] = [
        pod.metadata.namespace,
        spec.scheduler_name,
        [(c.image, c.ports, c.restart_policy, c.restart_policy_rules) for c in containers],
        len(spec.init_containers or ()),
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        list(map(_without_names, _volumes_with_rules(spec.volumes or ()))),
        spec.host_network,
        spec.host_users,
        spec.preemption_policy,
        spec.resource_claims,
    ]
    return msgspec.json.encode(content, order="sorted")


def _without_names(volume: Volume) -> Volume:
    claim = volume.persistent_volume_claim
    if claim is not None:
        claim = msgspec.structs.replace(claim, claim_name="")
    return msgspec.structs.replace(volume, name="", persistent_volume_claim=claim)


def meets_rules(volume: Volume) -> bool:
    """Return whether any scheduling rule may read a volume."""
    return all(getattr(volume, source, None) is None for source in _SOURCES_WITHOUT_RULES)


def _volumes_with_rules(volumes: Iterable[Volume]) -> tuple[Volume, ...]:
    return tuple(filter(meets_rules, volumes))


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    # Parity: pkg/scheduler/util/utils.go GetHostPorts, v1.36: containers, then sidecars.
    sidecars = (c for c in spec.init_containers or () if is_sidecar(c))
    return tuple(
        HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*(spec.containers or ()), *sidecars)
        for port in container.ports or ()
        if port.host_port and port.host_port > 0
    )


def _required_features(spec: PodSpec) -> tuple[str, ...]:
    # Parity: component-helpers/nodedeclaredfeatures, v1.36, with the gates at their defaults.
    features = []
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    if any(
        rule.action == "RestartAllContainers"
        for container in containers
        for rule in container.restart_policy_rules or ()
    ):
        features.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        features.append("UserNamespacesHostNetworkSupport")
    return tuple(features)


def _is_disruption_target(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
