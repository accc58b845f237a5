"""Spread constraints, compiled: the pod's own, or the defaults with the selector of its owners.

Owns which constraints hold for a pod and which pods they speak of. Never counts pods.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go,
pkg/scheduler/framework/plugins/helper/spread.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kubesched.columns.object_store import ObjectStores
from kubesched.model.pod_info import PodInfo
from kubesched.objects.affinity import TopologySpreadConstraint
from kubesched.objects.meta import LabelSelector, OwnerReference
from kubesched.objects.selectors import Selector, label_selector, selector_from_set

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SELECTOR_COUNT_MAX = 4096

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
    """Finds the constraints of pods; keeps default selectors until a service or owner changes."""

    def __init__(
        self,
        objects: Callable[[], ObjectStores],
        defaults: Sequence[TopologySpreadConstraint],
    ) -> None:
        self.defaults = tuple(defaults)
        self._objects = objects
        self._selectors: dict[object, Selector] = {}
        self._epochs: tuple[object, ...] = ()

    def constraints_of(self, pod: PodInfo, action: str) -> Constraints:
        """Return the pod's own constraints of an action, or the defaults if it lists none at all.

        Raises:
            ValueError: with upstream's text, if a selector does not parse.
        """
        hardness = "hard" if action == DO_NOT_SCHEDULE else "soft"
        own = pod.shape.spread_constraints
        if not own:
            return self._default_constraints(pod, action)
        try:
            return compile_constraints(own, pod.labels, action)
        except ValueError as problem:
            raise ValueError(
                f"obtaining pod's {hardness} topology spread constraints: {problem}"
            ) from problem

    def _default_constraints(self, pod: PodInfo, action: str) -> Constraints:
        # Parity: podtopologyspread/common.go buildDefaultConstraints, v1.36. Default constraints
        # have no selector of their own, hence nothing that could fail to parse.
        constraints = compile_constraints(self.defaults, pod.labels, action)
        if not constraints:
            return ()
        selector = self._default_selector(pod)
        if selector.is_empty:
            return ()
        return tuple(replace(constraint, selector=selector) for constraint in constraints)

    def _default_selector(self, pod: PodInfo) -> Selector:
        objects = self._objects()
        epochs = (
            objects,
            objects.services.epoch,
            objects.replication_controllers.epoch,
            objects.replica_sets.epoch,
            objects.stateful_sets.epoch,
        )
        if epochs != self._epochs or len(self._selectors) >= SELECTOR_COUNT_MAX:
            self._selectors, self._epochs = {}, epochs
        owner = pod.controller
        key = (
            pod.namespace,
            frozenset(pod.labels.items()),
            None if owner is None else (owner.api_version, owner.kind, owner.name),
        )
        selector = self._selectors.get(key)
        if selector is None:
            selector = self._selectors[key] = default_selector(pod, objects)
        return selector


def default_selector(pod: PodInfo, objects: ObjectStores) -> Selector:
    """Return what the services and the controller of a pod select, all of it together."""
    # Parity: plugins/helper/spread.go DefaultSelector, v1.36.
    labels: dict[str, str] = {}
    for service in objects.services.in_namespace(pod.namespace):
        wanted = service.spec.selector
        if wanted and selector_from_set(wanted).matches(pod.labels):
            labels.update(wanted)
    owner = pod.controller
    if owner is not None and _is_kind(owner, "v1", "ReplicationController"):
        controller = objects.replication_controllers.get(f"{pod.namespace}/{owner.name}")
        if controller is not None:
            labels.update(controller.spec.selector)
    selector = selector_from_set(labels)
    other = None if owner is None else _set_selector(pod.namespace, owner, objects)
    return selector if other is None else _with_parsed(selector, other)


def _set_selector(
    namespace: str, owner: OwnerReference, objects: ObjectStores
) -> LabelSelector | None:
    key = f"{namespace}/{owner.name}"
    if _is_kind(owner, "apps/v1", "ReplicaSet"):
        replica_set = objects.replica_sets.get(key)
        return None if replica_set is None else replica_set.spec.selector
    if _is_kind(owner, "apps/v1", "StatefulSet"):
        stateful_set = objects.stateful_sets.get(key)
        return None if stateful_set is None else stateful_set.spec.selector
    return None


def _is_kind(owner: OwnerReference, api_version: str, kind: str) -> bool:
    # Upstream splits at the slash, so that an empty group may be written out.
    return owner.kind == kind and owner.api_version in (api_version, f"/{api_version}")


def _with_parsed(selector: Selector, wire: LabelSelector) -> Selector:
    try:
        other = label_selector(wire)
    except ValueError:
        # Parity: upstream leaves out the selector of an owner that does not parse.
        return selector
    return selector.with_requirements(*other.requirements) if other.selectable else selector
