"""Defaulting and admission of objects, as far as scheduling depends on them.

Turns a handwritten object into the object that the API server would store. Stored objects stay
unchanged. Objects are rejected only for reasons that matter to decisions.
Upstream: pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go,
plugin/pkg/admission/{priority,defaulttolerationseconds,storage/storageclass/setdefault}/admission.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.api.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from kubesched.api.decode import KubeObject
from kubesched.api.documents import seconds_of
from kubesched.api.errors import MalformedObject, short_repr
from kubesched.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubesched.api.namespace import Namespace
from kubesched.api.node import Node
from kubesched.api.pod import Container, Pod, PodSpec, ResourceRequirements
from kubesched.api.quantity import parse_quantity
from kubesched.api.resource_requests import CPU, MEMORY, pod_requests
from kubesched.api.scheduling import PriorityClass
from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.volumes import Volume
from kubesched.api.workloads import ReplicationController

DEFAULT_NAMESPACE = "default"
_DEFAULT_SCHEDULER = "default-scheduler"
_PREEMPT = "PreemptLowerPriority"
_METADATA_NAME_LABEL = "kubernetes.io/metadata.name"
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_NO_EXECUTE_S = 300
_TOLERATED_FOR_A_WHILE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

# Parity: pkg/apis/scheduling/v1/helpers.go SystemPriorityClasses, v1.36: every API server has them.
_SYSTEM_CLASSES = (
    PriorityClass(
        metadata=ObjectMeta(name="system-node-critical"),
        value=2_000_001_000,
        preemption_policy=_PREEMPT,
    ),
    PriorityClass(
        metadata=ObjectMeta(name="system-cluster-critical"),
        value=2_000_000_000,
        preemption_policy=_PREEMPT,
    ),
)

_T = TypeVar("_T")
_ObjectT = TypeVar("_ObjectT", bound=KubeObject)


class Admission:
    """Applies defaults to objects that may refer to each other."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._priority_classes = {
            system_class.metadata.name: system_class for system_class in _SYSTEM_CLASSES
        }
        storage_classes: list[StorageClass] = []
        for obj in objects:
            if isinstance(obj, PriorityClass):
                self._priority_classes[obj.metadata.name] = obj
            elif isinstance(obj, StorageClass):
                storage_classes.append(obj)
        self._default_priority = _default_priority_class(self._priority_classes.values())
        self._default_storage = _default_storage_class(storage_classes)
        self._steps: dict[type, Callable[[Any], Any]] = {
            Pod: self._pod,
            PersistentVolumeClaim: self._claim,
            PersistentVolume: _volume,
            StorageClass: _storage_class,
            Node: _node,
            Namespace: _namespace,
            ReplicationController: _replication_controller,
        }

    def admit(self, obj: _ObjectT) -> _ObjectT:
        """Return the object as it is stored; raise MalformedObject if the API server rejects it."""
        step = self._steps.get(type(obj))
        admitted: _ObjectT = obj if step is None else step(obj)
        return admitted

    def _pod(self, pod: Pod) -> Pod:
        spec = pod.spec
        _reject_negative_resources(pod, "spec.containers", spec.containers)
        _reject_negative_resources(pod, "spec.initContainers", spec.init_containers)
        spec = replace(
            spec,
            scheduler_name=spec.scheduler_name or _DEFAULT_SCHEDULER,
            containers=_each(spec.containers, _container, spec.host_network),
            init_containers=_each(spec.init_containers, _container, spec.host_network),
            tolerations=_tolerations(spec.tolerations),
            affinity=_affinity(spec.affinity, pod.metadata.labels),
            topology_spread_constraints=_each(
                spec.topology_spread_constraints, _constraint, pod.metadata.labels
            ),
            volumes=_each(spec.volumes, _pod_volume),
        )
        spec = self._with_priority(pod, spec)
        return _with_pod_level_requests(replace(pod, spec=spec))

    def _with_priority(self, pod: Pod, spec: PodSpec) -> PodSpec:
        # Parity: priority/admission.go admitPod, v1.36. A pod with a priority is treated as stored:
        # its class may be missing from the files or may have changed since.
        name = spec.priority_class_name
        priority_class = self._priority_classes.get(name) if name else self._default_priority
        if name and priority_class is None:
            if spec.priority is not None:
                return spec
            raise MalformedObject(
                kind=pod.kind,
                key=pod.key,
                field="spec.priorityClassName",
                value=short_repr(name),
                problem=f"no PriorityClass with name {name} was found",
            )
        if spec.priority is not None and not name:
            priority_class = None
        policy = (
            _PREEMPT if priority_class is None else priority_class.preemption_policy or _PREEMPT
        )
        return replace(
            spec,
            priority=(priority_class.value if priority_class else 0)
            if spec.priority is None
            else spec.priority,
            priority_class_name=priority_class.metadata.name if priority_class else name,
            preemption_policy=spec.preemption_policy or policy,
        )

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        spec = claim.spec
        has_class = spec.storage_class_name is not None or _CLASS_ANNOTATION in (
            claim.metadata.annotations
        )
        # A claim with a volume was stored: today's default class need not have been its class.
        if not has_class and not spec.volume_name and self._default_storage is not None:
            spec = replace(spec, storage_class_name=self._default_storage)
        return replace(claim, spec=replace(spec, volume_mode=spec.volume_mode or "Filesystem"))


def with_namespaces(objects: Iterable[KubeObject]) -> list[KubeObject]:
    """Return the objects and the missing namespaces that they are in."""
    existing: dict[str, None] = {}
    used: dict[str, None] = {DEFAULT_NAMESPACE: None}
    result = list(objects)
    for obj in result:
        if isinstance(obj, Namespace):
            existing[obj.metadata.name] = None
        elif obj.metadata.namespace:
            used[obj.metadata.namespace] = None
    missing = (name for name in used if name not in existing)
    created = (
        Namespace(metadata=ObjectMeta(name=name, uid=f"namespace/{name}")) for name in missing
    )
    return [*result, *map(_namespace, created)]


def _default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    # Parity: priority/admission.go getDefaultPriorityClass, v1.36: of several, the lowest.
    defaults = [priority_class for priority_class in classes if priority_class.global_default]
    return min(
        defaults,
        key=lambda priority_class: (priority_class.value, priority_class.metadata.name),
        default=None,
    )


def _default_storage_class(classes: Iterable[StorageClass]) -> str | None:
    # Parity: pkg/volume/util/storageclass.go GetDefaultClass, v1.36: the newest, then by name.
    defaults = [
        storage_class
        for storage_class in classes
        if any(
            storage_class.metadata.annotations.get(key) == "true"
            for key in _DEFAULT_CLASS_ANNOTATIONS
        )
    ]
    metadata = [storage_class.metadata for storage_class in defaults]
    first = min(
        metadata, key=lambda meta: (-seconds_of(meta.creation_timestamp), meta.name), default=None
    )
    return None if first is None else first.name


def _each(items: tuple[_T, ...], change: Callable[..., _T], *more: object) -> tuple[_T, ...]:
    return tuple(change(item, *more) for item in items)


def _reject_negative(obj: KubeObject, field: str, amounts: Mapping[str, Any]) -> None:
    """Raise MalformedObject for an amount below zero."""
    # Parity: validation.go ValidateNonnegativeQuantity, v1.36.
    for name, text in amounts.items():
        if str(text).startswith("-") and parse_quantity(text).sign() < 0:
            raise MalformedObject(
                kind=obj.kind,
                key=obj.key,
                field=f"{field}.{name}",
                value=short_repr(text),
                problem="Invalid value: must be greater than or equal to 0",
            )


def _reject_negative_resources(pod: Pod, field: str, containers: Iterable[Container]) -> None:
    for number, container in enumerate(containers):
        where, resources = f"{field}[{number}].resources", container.resources
        _reject_negative(pod, f"{where}.limits", resources.limits)
        _reject_negative(pod, f"{where}.requests", resources.requests)


# -- pods -----------------------------------------------------------------------------------------


def _container(container: Container, host_network: bool) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    ports = tuple(
        replace(
            port,
            protocol=port.protocol or "TCP",
            host_port=port.host_port or (port.container_port if host_network else 0),
        )
        for port in container.ports
    )
    return replace(container, resources=replace(resources, requests=requests), ports=ports)


def _with_pod_level_requests(pod: Pod) -> Pod:
    """Return the pod with `spec.resources` completed from limits and containers."""
    # Parity: core/v1/defaults.go defaultHugePagePodLimits, defaultPodRequests, v1.36.
    resources = pod.spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return pod
    limits = dict(resources.limits)
    for name, quantity in _container_sum(pod, limits=True).items():
        if _is_huge_page(name) and name not in resources.requests:
            limits.setdefault(name, quantity)
    requests = dict(resources.requests)
    if limits:
        for name, quantity in _container_sum(pod).items():
            if name in (CPU, MEMORY):
                requests.setdefault(name, quantity)
        for name, limit in limits.items():
            if name in (CPU, MEMORY) or _is_huge_page(name):
                requests.setdefault(name, limit)
    resources = replace(resources, limits=limits, requests=requests)
    return replace(pod, spec=replace(pod.spec, resources=resources))


def _container_sum(pod: Pod, *, limits: bool = False) -> dict[str, str]:
    """Return the sum of the containers' requests (or limits), without pod-level resources."""
    spec = replace(pod.spec, overhead={}, resources=None)
    if limits:
        spec = replace(
            spec,
            containers=_each(spec.containers, _limits_as_requests),
            init_containers=_each(spec.init_containers, _limits_as_requests),
        )
    total = pod_requests(Pod(metadata=pod.metadata, spec=spec), pod_level=False)
    return {name: str(quantity) for name, quantity in total.items()}


def _limits_as_requests(container: Container) -> Container:
    limits = container.resources.limits
    return replace(container, resources=ResourceRequirements(requests=limits))


def _is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def _tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    # Parity: defaulttolerationseconds/admission.go Admit, v1.36.
    added = [
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_NO_EXECUTE_S)
        for key in _TOLERATED_FOR_A_WHILE
        if not any(t.key in (key, "") and t.effect in ("NoExecute", "") for t in tolerations)
    ]
    return (*tolerations, *added)


def _affinity(affinity: Affinity | None, labels: Mapping[str, str]) -> Affinity | None:
    if affinity is None:
        return None
    return replace(
        affinity,
        pod_affinity=_pod_affinity(affinity.pod_affinity, labels),
        pod_anti_affinity=_pod_affinity(affinity.pod_anti_affinity, labels),
    )


_AffinityT = TypeVar("_AffinityT", PodAffinity, PodAntiAffinity)


def _pod_affinity(affinity: _AffinityT | None, labels: Mapping[str, str]) -> _AffinityT | None:
    if affinity is None:
        return None
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return replace(
        affinity,
        required_during_scheduling_ignored_during_execution=_each(
            affinity.required_during_scheduling_ignored_during_execution, _term, labels
        ),
        preferred_during_scheduling_ignored_during_execution=tuple(
            replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))
            for weighted in preferred
        ),
    )


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _merged(term.label_selector, term.match_label_keys, "In", labels)
    selector = _merged(selector, term.mismatch_label_keys, "NotIn", labels)
    return replace(term, label_selector=selector)


def _constraint(
    constraint: TopologySpreadConstraint, labels: Mapping[str, str]
) -> TopologySpreadConstraint:
    selector = _merged(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _merged(
    selector: LabelSelector | None, keys: tuple[str, ...], operator: str, labels: Mapping[str, str]
) -> LabelSelector | None:
    # Parity: registry/core/pod/strategy.go applyLabelKeysToLabelSelector, v1.36. Expressions that a
    # stored pod already has are not added again.
    if selector is None:
        return None
    expressions = selector.match_expressions
    for key in keys:
        if key in labels:
            added = LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
            expressions = expressions if added in expressions else (*expressions, added)
    return replace(selector, match_expressions=expressions)


def _pod_volume(volume: Volume) -> Volume:
    if volume.rbd is None or volume.rbd.pool:
        return volume
    return replace(volume, rbd=replace(volume.rbd, pool="rbd"))


# -- other kinds ----------------------------------------------------------------------------------


def _volume(volume: PersistentVolume) -> PersistentVolume:
    mode = volume.spec.volume_mode or "Filesystem"
    return replace(volume, spec=replace(volume.spec, volume_mode=mode))


def _storage_class(storage_class: StorageClass) -> StorageClass:
    return replace(
        storage_class, volume_binding_mode=storage_class.volume_binding_mode or "Immediate"
    )


def _node(node: Node) -> Node:
    status = node.status
    allocatable = status.allocatable or status.capacity
    _reject_negative(node, "status.allocatable", allocatable)
    return replace(node, status=replace(status, allocatable=allocatable))


def _namespace(namespace: Namespace) -> Namespace:
    meta = namespace.metadata
    labels = {**meta.labels, _METADATA_NAME_LABEL: meta.name}
    return replace(namespace, metadata=replace(meta, labels=labels))


def _replication_controller(controller: ReplicationController) -> ReplicationController:
    spec = controller.spec
    if spec.selector or spec.template is None:
        return controller
    return replace(controller, spec=replace(spec, selector=spec.template.metadata.labels))
