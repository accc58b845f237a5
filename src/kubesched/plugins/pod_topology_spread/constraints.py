"""Spread constraints, compiled: the pod's own, or the defaults with the selector of its owners.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go,
pkg/scheduler/framework/plugins/helper/spread.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kubesched.api.affinity import TopologySpreadConstraint
from kubesched.api.label_selectors import Selector, label_selector, selector_from_set
from kubesched.api.meta import LabelSelector, OwnerReference
from kubesched.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kubesched.plugins.pod_changes import (
    PodChange,
    RejectedPod,
    distinct_texts,
    selector_text,
    without_part,
)
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CONSTRAINTS_COUNT_MAX = 4096
SELECTING_STORES = ("services", "replication_controllers", "replica_sets", "stateful_sets")
"""Where the selectors of default constraints come from."""

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)

_HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with everything defaulted and its selector compiled."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


Constraints: TypeAlias = tuple[Constraint, ...]


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> Constraints:
    """Return the constraints of one action; ValueError if a selector does not parse."""
    # Parity: podtopologyspread/common.go filterTopologySpreadConstraints, v1.36.
    return tuple(
        Constraint(
            max_skew=wire.max_skew,
            topology_key=wire.topology_key,
            selector=_selector(wire, labels),
            min_domains=1 if wire.min_domains is None else wire.min_domains,
            honors_affinity=wire.node_affinity_policy in (None, _HONOR),
            honors_taints=wire.node_taints_policy == _HONOR,
        )
        for wire in constraints
        if wire.when_unsatisfiable == action
    )


def _selector(wire: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = label_selector(wire.label_selector)
    own = {key: labels[key] for key in wire.match_label_keys if key in labels}
    if not own or not selector.selectable:
        return selector
    return selector_from_set(own).with_requirements(*selector.requirements)


class ConstraintSource:
    """Finds the constraints of pods; keeps those of a template until a service or owner changes.

    Until then, all pods of a template get the identical tuple.
    """

    def __init__(
        self, objects: Callable[[], ObjectStores], defaults: Sequence[TopologySpreadConstraint]
    ) -> None:
        self.defaults = tuple(defaults)
        # Default constraints have no selector that could fail to parse or depend on a pod's labels.
        self._defaults = {
            action: compile_constraints(self.defaults, {}, action)
            for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        }
        self._objects = objects
        self._own: dict[object, Constraints] = {}
        self._from_defaults: dict[object, Constraints] = {}
        self._source: tuple[ObjectStores | None, int] = (None, -1)
        """The stores and their epoch from which the defaults were made."""
        self._services = ServicesByLabel(())
        self._services_source: tuple[ObjectStores | None, int] = (None, -1)

    def constraints_of(self, pod: PodInfo, action: str) -> Constraints:
        """Return the pod's own constraints of an action, or the defaults if it lists none at all.

        Raises:
            ValueError: with upstream's text, if a selector does not parse.
        """
        own = pod.shape.spread_constraints
        if not own:
            defaults = self._defaults[action]
            return self._default_constraints(pod, action, defaults) if defaults else ()
        key = (action, pod.template)
        constraints = self._own.get(key)
        if constraints is None:
            constraints = _own_constraints(pod, action)
            if len(self._own) >= CONSTRAINTS_COUNT_MAX:
                self._own.clear()
            self._own[key] = constraints
        return constraints

    def _default_constraints(self, pod: PodInfo, action: str, defaults: Constraints) -> Constraints:
        # Parity: podtopologyspread/common.go buildDefaultConstraints, v1.36.
        objects = self._objects()
        if pod.controller is None and not len(objects.store_of(Service)):
            return ()
        epoch = sum(getattr(objects, name).epoch for name in SELECTING_STORES)
        source = (objects, epoch)
        if source != self._source or len(self._from_defaults) >= CONSTRAINTS_COUNT_MAX:
            services = objects.store_of(Service)
            if (objects, services.epoch) != self._services_source:
                self._services = ServicesByLabel(services)
                self._services_source = (objects, services.epoch)
            self._from_defaults, self._source = {}, source
        key = (action, pod.template)
        constraints = self._from_defaults.get(key)
        if constraints is None:
            selector = default_selector(pod, objects, self._services)
            used = () if selector.is_empty else defaults
            constraints = tuple(replace(constraint, selector=selector) for constraint in used)
            self._from_defaults[key] = constraints
        return constraints


def _own_constraints(pod: PodInfo, action: str) -> Constraints:
    try:
        return compile_constraints(pod.shape.spread_constraints, pod.labels, action)
    except ValueError as problem:
        hardness = "hard" if action == DO_NOT_SCHEDULE else "soft"
        raise ValueError(
            f"obtaining pod's {hardness} topology spread constraints: {problem}"
        ) from problem


class ServicesByLabel:
    """Services by one label of their selector, so that few of them are compared with a pod."""

    def __init__(self, services: Iterable[Service]) -> None:
        self._by_label: dict[tuple[str, str, str], list[Service]] = {}
        for service in services:
            for label, value in service.spec.selector.items():
                key = (service.metadata.namespace or "", label, value)
                self._by_label.setdefault(key, []).append(service)
                break  # One label is enough to find the service.

    def selected_by(self, pod: PodInfo) -> dict[str, str]:
        """Return the labels of all services that select a pod, merged."""
        labels: dict[str, str] = {}
        for label, value in pod.labels.items():
            for service in self._by_label.get((pod.namespace, label, value), ()):
                if service.spec.selector.items() <= pod.labels.items():
                    labels.update(service.spec.selector)
        return labels


def default_selector(pod: PodInfo, objects: ObjectStores, services: ServicesByLabel) -> Selector:
    """Return a selector that combines those of the pod's services and of its controller."""
    # Parity: plugins/helper/spread.go DefaultSelector, v1.36.
    labels = services.selected_by(pod)
    owner = pod.controller
    if owner is not None and _is_kind(owner, "v1", "ReplicationController"):
        controller = objects.store_of(ReplicationController).get(f"{pod.namespace}/{owner.name}")
        if controller is not None:
            labels.update(controller.spec.selector)
    selector = selector_from_set(labels)
    other = None if owner is None else _set_selector(pod.namespace, owner, objects)
    return selector if other is None else _with_parsed(selector, other)


def _set_selector(
    namespace: str, owner: OwnerReference, objects: ObjectStores
) -> LabelSelector | None:
    controller: ReplicaSet | StatefulSet | None = None
    if _is_kind(owner, "apps/v1", "ReplicaSet"):
        controller = objects.store_of(ReplicaSet).get(f"{namespace}/{owner.name}")
    elif _is_kind(owner, "apps/v1", "StatefulSet"):
        controller = objects.store_of(StatefulSet).get(f"{namespace}/{owner.name}")
    return None if controller is None else controller.spec.selector


def _is_kind(owner: OwnerReference, api_version: str, kind: str) -> bool:
    # Upstream splits at the slash, so that the group before it may be empty.
    return owner.kind == kind and owner.api_version in (api_version, f"/{api_version}")


def _with_parsed(selector: Selector, wire: LabelSelector) -> Selector:
    try:
        other = label_selector(wire)
    except ValueError:
        # Parity: upstream leaves out the selector of an owner that does not parse.
        return selector
    return selector.with_requirements(*other.requirements) if other.selectable else selector


def spread_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield the pod without each of its hard spread constraints."""
    constraints = rejected.pod.object.spec.topology_spread_constraints
    hard = {
        number: (wire.topology_key, f"maxSkew {wire.max_skew}", selector_text(wire.label_selector))
        for number, wire in enumerate(constraints)
        if wire.when_unsatisfiable == DO_NOT_SCHEDULE
    }
    for number, text in distinct_texts(hard, least=2).items():
        yield PodChange(
            "spread-constraint",
            f"spec.topologySpreadConstraints[{number}]",
            f"without the spread constraint over {text}",
            without_part("topology_spread_constraints", constraints[number]),
        )
