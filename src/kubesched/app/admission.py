"""What an API server fills in when an object is created, as far as decisions depend on it.

Owns the step from an object as a user writes it to an object as it is stored. An object that is
already stored comes out as it went in. Never refuses what an API server would refuse for reasons
that no decision depends on.
Upstream: pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go,
plugin/pkg/admission/{priority,defaulttolerationseconds,storage/storageclass/setdefault}/admission.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.model.resources import CPU, MEMORY, pod_requests
from kubesched.objects.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from kubesched.objects.decode import KubeObject
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubesched.objects.namespace import Namespace
from kubesched.objects.node import Node
from kubesched.objects.pod import Container, ContainerPort, Pod, PodSpec, ResourceRequirements
from kubesched.objects.quantity import parse_quantity
from kubesched.objects.scheduling import PriorityClass
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.objects.times import parse_time
from kubesched.objects.volumes import Volume
from kubesched.objects.workloads import ReplicationController

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


class Admission:
    """Fills in objects that may refer to each other."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._priority_classes = {one.metadata.name: one for one in _SYSTEM_CLASSES}
        storage_classes: list[StorageClass] = []
        for obj in objects:
            if isinstance(obj, PriorityClass):
                self._priority_classes[obj.metadata.name] = obj
            elif isinstance(obj, StorageClass):
                storage_classes.append(obj)
        self._default_priority = _default_priority_class(self._priority_classes.values())
        self._default_storage = _default_storage_class(storage_classes)
        self._steps: dict[type, Callable[[Any], KubeObject]] = {
            Pod: self._pod,
            PersistentVolumeClaim: self._claim,
            PersistentVolume: _volume,
            StorageClass: _storage_class,
            Node: _node,
            Namespace: _namespace,
            ReplicationController: _replication_controller,
        }

    def admit(self, obj: KubeObject) -> KubeObject:
        """Return the object as it would be stored; raise MalformedObject if it would be refused."""
        step = self._steps.get(type(obj))
        return obj if step is None else step(obj)

    def _pod(self, pod: Pod) -> Pod:
        spec = pod.spec
        _refuse_negative_resources(pod, "spec.containers", spec.containers)
        _refuse_negative_resources(pod, "spec.initContainers", spec.init_containers)
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
        # Parity: priority/admission.go admitPod, v1.36. A pod that already has a priority is taken
        # for one that was stored: its class may have been left out, or have changed since.
        name = spec.priority_class_name
        found = self._priority_classes.get(name) if name else self._default_priority
        if name and found is None:
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
            found = None
        policy = _PREEMPT if found is None else found.preemption_policy or _PREEMPT
        return replace(
            spec,
            priority=(found.value if found else 0) if spec.priority is None else spec.priority,
            priority_class_name=found.metadata.name if found else name,
            preemption_policy=spec.preemption_policy or policy,
        )

    def _claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        spec = claim.spec
        has_class = spec.storage_class_name is not None or _CLASS_ANNOTATION in (
            claim.metadata.annotations
        )
        # A claim that has its volume was stored: a default class of today was not its class.
        if not has_class and not spec.volume_name and self._default_storage is not None:
            spec = replace(spec, storage_class_name=self._default_storage)
        return replace(claim, spec=replace(spec, volume_mode=spec.volume_mode or "Filesystem"))


def with_namespaces(objects: Iterable[KubeObject]) -> list[KubeObject]:
    """Return the objects and the namespaces they are in, where those were left out."""
    known: dict[str, None] = {}
    used: dict[str, None] = {DEFAULT_NAMESPACE: None}
    result = list(objects)
    for obj in result:
        if isinstance(obj, Namespace):
            known[obj.metadata.name] = None
        elif obj.metadata.namespace:
            used[obj.metadata.namespace] = None
    missing = (name for name in used if name not in known)
    made = (Namespace(metadata=ObjectMeta(name=name, uid=f"namespace/{name}")) for name in missing)
    return [*result, *map(_namespace, made)]


def _default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    # Parity: priority/admission.go getDefaultPriorityClass, v1.36: of several, the lowest.
    defaults = [one for one in classes if one.global_default]
    return min(defaults, key=lambda one: (one.value, one.metadata.name), default=None)


def _default_storage_class(classes: Iterable[StorageClass]) -> str | None:
    # Parity: pkg/volume/util/storageclass.go GetDefaultClass, v1.36: the newest, then by name.
    defaults = [
        one
        for one in classes
        if any(one.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS_ANNOTATIONS)
    ]
    first = min(defaults, key=lambda one: (-_created_s(one), one.metadata.name), default=None)
    return None if first is None else first.metadata.name


def _created_s(obj: StorageClass) -> float:
    created = obj.metadata.creation_timestamp
    return parse_time(created) if created else 0.0


def _each(items: tuple[_T, ...], change: Callable[..., _T], *more: object) -> tuple[_T, ...]:
    return tuple(change(item, *more) for item in items)


def _refuse_negative(obj: KubeObject, field: str, amounts: Mapping[str, Any]) -> None:
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


def _refuse_negative_resources(pod: Pod, field: str, containers: Iterable[Container]) -> None:
    for number, container in enumerate(containers):
        where, resources = f"{field}[{number}].resources", container.resources
        _refuse_negative(pod, f"{where}.limits", resources.limits)
        _refuse_negative(pod, f"{where}.requests", resources.requests)


# -- pods -----------------------------------------------------------------------------------------


def _container(container: Container, host_network: bool) -> Container:
    resources = container.resources
    requests = {**resources.limits, **resources.requests}
    ports = tuple(
        replace(
            port,
            protocol=port.protocol or "TCP",
            host_port=port.host_port or _host_port(port, host_network),
        )
        for port in container.ports
    )
    return replace(container, resources=replace(resources, requests=requests), ports=ports)


def _host_port(port: ContainerPort, host_network: bool) -> int:
    return port.container_port if host_network else 0


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
    """Return what the containers ask for together (or are limited to), pod-level aside."""
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
            replace(one, pod_affinity_term=_term(one.pod_affinity_term, labels))
            for one in preferred
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
    # Parity: registry/core/pod/strategy.go applyLabelKeysToLabelSelector, v1.36. What a stored pod
    # already has is not added again.
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
    _refuse_negative(node, "status.allocatable", allocatable)
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
