"""A pod as the scheduler reads it: `PodInfo`, and the `PodShape` that equal pods share.

When are two pods the same? There is one notion for each purpose, from coarse to fine:

| notion | pods share it if they have the same | kept by it |
|---|---|---|
| shape: `pod.shape` | namespace and spec fields that rules read (`SHAPE_SPEC_FIELDS`) | compiled
  terms and requests, usage by shape, queueing hints that read `shape` |
| template: `pod.template` | shape, labels, controller and node name | verdicts and scores of local
  plugins, counts of coupled plugins, queueing hints that read `template` |
| template and fields: `framework.pod_keys` | template, and the other fields that an out-of-tree
plugin has read | the same, in profiles with such plugins |

A plugin's `fragment` does not identify pods: it names a column that several templates share.
Upstream: pkg/scheduler/framework/types.go PodInfo
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from kubesched.api.affinity import (
    Affinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
)
from kubesched.api.affinity import NodeAffinity as WireNodeAffinity
from kubesched.api.affinity import NodeSelector as WireNodeSelector
from kubesched.api.decode import decode_as
from kubesched.api.meta import Condition, ObjectMeta, OwnerReference
from kubesched.api.pod import Pod, PodSpec, PodStatus
from kubesched.api.resource_requests import (
    as_integers,
    is_sidecar,
    non_zero_requests,
    pod_limits,
    pod_requests,
    scoring_requests,
)
from kubesched.api.times import parse_time
from kubesched.api.tolerations import Taint, tolerates
from kubesched.api.volumes import Volume
from kubesched.snapshot.affinity_terms import TermSet, compile_terms

# No scheduling rule reads volumes of these sources, and the service account's volume has a random
# name in every pod: with it no two pods would share a shape.
_SOURCES_WITHOUT_RULES = (
    "config_map",
    "secret",
    "empty_dir",
    "host_path",
    "projected",
    "downward_api",
)
# A shape is compiled from these fields, the volumes and the status of a resize alone, and they are
# its key: a rule cannot read a field that the key lacks.
SHAPE_SPEC_FIELDS: Final = (
    "scheduler_name",
    "containers",
    "init_containers",
    "overhead",
    "resources",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "host_network",
    "host_users",
    "preemption_policy",
    "resource_claims",
)
_RESIZE_FIELDS: Final = (
    "container_statuses",
    "init_container_statuses",
    "resources",
    "allocated_resources",
)
_spec_values = attrgetter(*SHAPE_SPEC_FIELDS)
_resize_values = attrgetter(*_RESIZE_FIELDS)

TEMPLATE_FIELDS: Final = frozenset(
    (
        "controller",
        "label_items",
        "labels",
        "namespace",
        "node_name",
        "requests",
        "scheduler_name",
        "shape",
        "template",
        "terms",
        "tolerates",
        "tolerations",
    )
)
"""The attributes of `PodInfo` that are the same for all pods of one template."""


class ResourceMap(dict[str, int]):
    """Integers by resource name; a missing name is zero."""

    def __missing__(self, name: str) -> int:
        return 0


Resources = Mapping[str, int]


def resources_of(values: Mapping[str, int]) -> Resources:
    """Return a read-only map in which a missing name is zero."""
    return MappingProxyType(ResourceMap(values))


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A host port of a pod."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Return whether one node cannot have both."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodShape:
    """The fields of a pod that rules read, compiled once for all pods with the same content."""

    namespace: str
    scheduler_name: str
    requests: Resources
    """Requested amounts: millicores, bytes, units."""
    limits: Resources
    usage: Resources
    """The amounts that count on the pod's node, including a resize in progress."""
    nonzero_usage: tuple[int, int]
    """Cpu and memory for scoring, with defaults for what the pod does not request."""
    scoring_requests: Resources
    """The amounts that NodeResourcesFit scores by, with the same defaults."""
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
    """Number of init containers and containers."""
    required_features: tuple[str, ...]
    preemption_policy: str
    has_resource_claims: bool
    named_node: str = ""
    """The only node that required node affinity allows, if it names the node and nothing else."""
    unnamed: PodShape | None = None
    """For a pod with a named node, as those of DaemonSets have: its shape without the name."""

    @property
    def base(self) -> PodShape:
        """Return the shape without the named node, which all pods of a DaemonSet share."""
        return self.unnamed or self

    def changed(self, **parts: Any) -> PodShape:
        """Return a new shape with some parts changed."""
        return replace(self, named_node="", unnamed=None, **parts)


class PodInfo:
    """One pod: its own names, labels and times, and a shape that it shares with other pods.

    `spec` and `status` are the wire objects, decoded at their first use.
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
        # Every stored pod has a uid; a manifest may lack it, and then the name identifies the pod.
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
        if self._object is None:
            assert self._raw is not None
            self._object = decode_as(Pod, self._raw)
        return self._object

    @property
    def raw(self) -> bytes:
        return self._raw if self._raw is not None else msgspec.json.encode(self.object)

    @property
    def spec(self) -> PodSpec:
        return self.object.spec

    @property
    def status(self) -> PodStatus:
        return self.object.status

    @property
    def requests(self) -> Resources:
        """Return the requested amounts; other resources are zero."""
        return self.shape.requests

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        return self.shape.tolerations

    @property
    def scheduler_name(self) -> str:
        return self.shape.scheduler_name

    @property
    def terms(self) -> TermSet:
        return self.shape.terms

    @property
    def label_items(self) -> tuple[tuple[str, str], ...]:
        """Return the labels in the order of their keys."""
        if self._label_items is None:
            self._label_items = tuple(sorted(self.labels.items()))
        return self._label_items

    @property
    def template(self) -> tuple[Hashable, ...]:
        """Return the key of all fields that rules read; most pods of one controller share it."""
        if self._template is None:
            owner = self.controller if self.owners else None
            owner_fields = None if owner is None else msgspec.structs.astuple(owner)
            self._template = (self.shape, self.label_items, owner_fields, self.node_name)
        return self._template

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that manages the pod, if any."""
        return next((owner for owner in self.owners if owner.controller), None)

    def tolerates(self, key: str, value: str = "", effect: str = "NoSchedule") -> bool:
        """Return whether the pod tolerates a taint."""
        return tolerates(self.shape.tolerations, Taint(key, value, effect))


class PodShapes:
    """The shapes of pods; each distinct content is compiled once."""

    def __init__(self) -> None:
        self._by_content: dict[bytes, PodShape] = {}
        self._named: WeakValueDictionary[tuple[PodShape, str], PodShape] = WeakValueDictionary()
        """Shapes with a named node, by the shape without it and the name."""

    def pod_info(self, pod: Pod, raw: bytes | None = None) -> PodInfo:
        """Return the pod with its shared shape."""
        return PodInfo(pod, self.shape_of(pod), raw)

    def shape_of(self, pod: Pod) -> PodShape:
        required = _naming_one_node(pod.spec.affinity)
        if required is None:
            return self._shape_by_content(pod)
        base = self._shape_by_content(_without_required(pod))
        name = required.node_selector_terms[0].match_fields[0].values[0]
        named = self._named.get((base, name))
        if named is None:
            named = self._named[base, name] = replace(
                base, required_node_affinity=required, named_node=name, unnamed=base
            )
        return named

    def _shape_by_content(self, pod: Pod) -> PodShape:
        source = _source_of(pod)
        content = msgspec.json.encode(source, order="sorted")
        shape = self._by_content.get(content)
        if shape is None:
            shape = self._by_content[content] = _compiled(source)
        return shape

    def keep_only(self, shapes: Iterable[PodShape]) -> None:
        """Forget all other shapes; pods that have one keep it."""
        kept = set(map(id, shapes))
        self._by_content = {
            content: shape for content, shape in self._by_content.items() if id(shape) in kept
        }

    def __len__(self) -> int:
        return len(self._by_content)


def _naming_one_node(affinity: Affinity | None) -> WireNodeSelector | None:
    """Return the required node affinity if it consists of the name of one node."""
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
    affinity = pod.spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or WireNodeAffinity()
    preferred = node_affinity.preferred_during_scheduling_ignored_during_execution
    left = WireNodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    affinity = msgspec.structs.replace(affinity, node_affinity=left if preferred else None)
    others = affinity if affinity != Affinity() else None
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=others))


def compile_shape(pod: Pod) -> PodShape:
    """Return a new shape of a pod."""
    return _compiled(_source_of(pod))


class _Source(NamedTuple):
    """All fields that a shape is compiled from; encoded, they are its key."""

    namespace: str
    spec: tuple[Any, ...]
    """By `SHAPE_SPEC_FIELDS`."""
    volumes: tuple[Volume, ...]
    resize: tuple[Any, ...]
    """By `_RESIZE_FIELDS`, if a resize is in progress or done."""
    pending: tuple[Condition, ...]

    def as_pod(self) -> Pod:
        """Return a pod of these fields alone."""
        spec = PodSpec(**dict(zip(SHAPE_SPEC_FIELDS, self.spec, strict=True)), volumes=self.volumes)
        resize = dict(zip(_RESIZE_FIELDS, self.resize, strict=False))
        return Pod(
            metadata=ObjectMeta(namespace=self.namespace),
            spec=spec,
            status=PodStatus(**resize, conditions=self.pending),
        )


def _source_of(pod: Pod) -> _Source:
    spec, status = pod.spec, pod.status
    # Rules identify a claim by its own name; the names of other volumes occur in messages.
    volumes = tuple(
        [
            v if v.persistent_volume_claim is None else msgspec.structs.replace(v, name="")
            for v in _volumes_with_rules(spec.volumes or ())
        ]
    )
    source = _Source(pod.metadata.namespace, _spec_values(spec), volumes, (), ())
    is_resized = status.resources is not None or any(
        s.resources is not None
        for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    )
    if not is_resized:
        return source
    pending = tuple([c for c in status.conditions or () if c.type == "PodResizePending"])
    return source._replace(resize=_resize_values(status), pending=pending)


def _compiled(source: _Source) -> PodShape:
    pod = source.as_pod()
    spec = pod.spec
    namespace = pod.metadata.namespace or ""
    affinity = (spec.affinity and spec.affinity.node_affinity) or WireNodeAffinity()
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
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
        required_node_affinity=affinity.required_during_scheduling_ignored_during_execution,
        preferred_node_affinity=tuple(preferred or ()) or None,
        terms=compile_terms(namespace, spec.affinity),
        spread_constraints=tuple(spec.topology_spread_constraints or ()),
        volumes=_volumes_with_rules(spec.volumes or ()),
        images=(*(c.image or "" for c in (*init, *regular)), *(i or "" for i in image_volumes)),
        container_count=len(init) + len(regular),
        required_features=_required_features(spec),
        preemption_policy=spec.preemption_policy or "PreemptLowerPriority",
        has_resource_claims=bool(spec.resource_claims),
    )


def meets_rules(volume: Volume) -> bool:
    """Return whether a scheduling rule may read a volume."""
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
