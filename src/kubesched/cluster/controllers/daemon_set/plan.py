"""Which pods a DaemonSet creates and deletes.

Owns the decision per node (missing, surplus, failed and outdated pods), new daemon pods, and the
status counts. Never writes.
Upstream: pkg/controller/daemon/daemon_controller.go manage, podsShouldBeOnNode; update.go
rollingUpdate; util/daemonset_util.go
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    is_available,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
)
from kubesched.cluster.controllers.controller_pods import pod_from_template
from kubesched.cluster.controllers.controller_revisions import REVISION_LABEL
from kubesched.cluster.controllers.deployment.sizes import scaled_value
from kubesched.cluster.controllers.replica_set.status import min_ready_s_of
from kubesched.workloads.daemon_set import (
    DaemonPlacement,
    NodeSuitability,
    daemon_pod_spec,
    target_node,
)

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(slots=True)
class DaemonPlan:
    """Pods to create and delete, and events to record."""

    to_delete: list[Document] = field(default_factory=list)
    nodes_to_fill: list[str] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and note of events about the set."""
    requeue_s: float | None = None
    """Seconds until a failed pod in backoff may be deleted."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to create or delete."""
        return not self.to_delete and not self.nodes_to_fill


FailedWait = Callable[[str], float | None]
"""Returns the remaining backoff of a node's failed pod; None, and it counts as tried, if over."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """One DaemonSet with its nodes and pods."""

    daemon_set: Document
    placement: DaemonPlacement
    nodes: Mapping[str, Document]
    pods: Mapping[str, Sequence[Document]]
    """By node, without finished pods that are terminating."""
    hash_: str
    now_s: float
    ready_s: int
    """minReadySeconds."""
    generation: str | None
    """Template generation in the deprecated annotation."""

    def verdict(self, node_name: str) -> NodeSuitability:
        """Return whether a pod should run on a node; never on a missing one."""
        node = self.nodes.get(node_name)
        return NodeSuitability(False, False) if node is None else self.placement.verdict(node)

    def is_available(self, pod: Document) -> bool:
        """Return whether a pod has been ready for minReadySeconds."""
        return is_available(pod, self.ready_s, self.now_s)

    def is_updated(self, pod: Document) -> bool:
        """Return whether a pod has the current template."""
        return is_updated(pod, self.hash_, self.generation)

    def target_nodes(self) -> list[str]:
        """Return the nodes that should have a pod."""
        return [name for name, node in self.nodes.items() if self.placement.verdict(node)[0]]


def new_daemons(
    daemon_set: Document,
    placement: DaemonPlacement,
    nodes: Iterable[Document],
    pods: Iterable[Document],
    *,
    hash_: str,
    now_s: float,
) -> Daemons:
    """Return a DaemonSet with its nodes and pods, without finished terminating pods."""
    return Daemons(
        daemon_set=daemon_set,
        placement=placement,
        nodes={name_of(node): node for node in nodes},
        pods=pods_by_node(pod for pod in pods if not _is_finished_and_terminating(pod)),
        hash_=hash_,
        now_s=now_s,
        ready_s=min_ready_s_of(daemon_set),
        generation=template_generation(daemon_set),
    )


def _is_finished_and_terminating(pod: Document) -> bool:
    """Return whether a pod has finished and is being deleted."""
    return is_terminating(pod) and pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


# -- placement ------------------------------------------------------------------------------------


def manage_plan(daemons: Daemons, failed_wait_s: FailedWait) -> DaemonPlan:
    """Plan one pod for every eligible node and the deletion of all others.

    Parity: daemon_controller.go manage, v1.36.
    """
    plan = DaemonPlan()
    allows_surge = _scaled(daemons.daemon_set, "maxSurge", 1) > 0
    for name, node in daemons.nodes.items():
        should_run, may_stay = daemons.placement.verdict(node)
        pods = daemons.pods.get(name)
        if should_run and pods is None:
            plan.nodes_to_fill.append(name)
        elif may_stay and pods is not None:
            running = _running_pods(name, pods, plan, failed_wait_s)
            if allows_surge:
                _prune_surging(daemons, name, running, plan, should_run=should_run)
            else:
                plan.to_delete += sorted(running, key=pod_order)[1:]
        elif pods is not None:
            plan.to_delete += [pod for pod in pods if not is_terminating(pod)]
    plan.to_delete += _pods_of_missing_nodes(daemons)
    return plan


def _running_pods(
    node_name: str, pods: Sequence[Document], plan: DaemonPlan, failed_wait_s: FailedWait
) -> list[Document]:
    """Return the pods that run or may run; plan the deletion of finished ones."""
    running = []
    for pod in pods:
        if is_terminating(pod):
            continue
        phase = pod.get("status", {}).get("phase")
        if phase == "Failed":
            wait_s = failed_wait_s(node_name)
            if wait_s is not None:
                plan.requeue_s = min(wait_s, plan.requeue_s or wait_s)
                continue
            note = f"Found failed daemon pod {key_of(pod)} on node {node_name}, will try to kill it"
            plan.events.append(("Warning", "FailedDaemonPod", note))
            plan.to_delete.append(pod)
        elif phase == "Succeeded":
            note = (
                f"Found succeeded daemon pod {key_of(pod)} on node {node_name}, "
                "will try to delete it"
            )
            plan.events.append(("Normal", "SucceededDaemonPod", note))
            plan.to_delete.append(pod)
        else:
            running.append(pod)
    return running


def _prune_surging(
    daemons: Daemons,
    node_name: str,
    running: Sequence[Document],
    plan: DaemonPlan,
    *,
    should_run: bool,
) -> None:
    """Keep the oldest new pod of a node, and an old one until the new one is available."""
    if not running:
        if should_run:
            plan.nodes_to_fill.append(node_name)
        return
    if len(running) == 1:
        return
    new: Document | None = None
    old: Document | None = None
    for pod in sorted(running, key=pod_order):
        is_new = labels_of(pod).get(REVISION_LABEL) == daemons.hash_
        if is_new and new is None:
            new = pod
        elif not is_new and old is None:
            old = pod
        else:
            plan.to_delete.append(pod)
    if new is not None and old is not None and (not is_ready(old) or daemons.is_available(new)):
        plan.to_delete.append(old)


def _pods_of_missing_nodes(daemons: Daemons) -> list[Document]:
    """Return unscheduled pods whose target node is gone: nobody else deletes them.

    Parity: daemon_controller.go getUnscheduledPodsWithoutNode, v1.36.
    """
    return [
        pod
        for name, pods in daemons.pods.items()
        if name not in daemons.nodes
        for pod in pods
        if not pod["spec"].get("nodeName") and not is_terminating(pod)
    ]


# -- rolling update -------------------------------------------------------------------------------


def rolling_update_plan(daemons: Daemons) -> DaemonPlan:
    """Plan the replacement of old pods within maxUnavailable or maxSurge.

    Parity: update.go rollingUpdate, v1.36.
    """
    targets = daemons.target_nodes()
    surge = _scaled(daemons.daemon_set, "maxSurge", len(targets))
    unavailable = _scaled(daemons.daemon_set, "maxUnavailable", len(targets))
    if targets and not surge and not unavailable:
        unavailable = 1
    # Eligible nodes without a pod count as well.
    names = list(dict.fromkeys((*daemons.pods, *targets)))
    if surge == 0:
        return _replace_in_place(daemons, names, unavailable)
    return _Surge(daemons, surge, len(targets)).plan(names)


def _replace_in_place(daemons: Daemons, names: Sequence[str], unavailable_max: int) -> DaemonPlan:
    """Delete unavailable old pods at once, and others up to maxUnavailable."""
    unavailable = 0
    unavailable_pods: list[Document] = []
    candidates: list[Document] = []
    for name in names:
        pair = _new_and_old(daemons, daemons.pods.get(name, ()))
        if pair is None or (pair[0] is None) == (pair[1] is None):
            # No pod, surplus pods, or one of each: manage_plan handles these.
            unavailable += 1
            continue
        new, old = pair
        if old is None:
            unavailable += not (new is not None and daemons.is_available(new))
        elif not daemons.is_available(old):
            unavailable_pods.append(old)
            unavailable += 1
        elif unavailable < unavailable_max:
            candidates.append(old)
    room = max(unavailable_max - unavailable, 0)
    return DaemonPlan(to_delete=unavailable_pods + candidates[:room])


class _Surge:
    """A rolling update that creates the new pod before it deletes the old one."""

    def __init__(self, daemons: Daemons, surge_max: int, target_count: int) -> None:
        self._daemons = daemons
        self._surge_max = surge_max
        self._target_count = target_count
        self._surging = 0
        self._available = 0
        self._to_delete: list[Document] = []
        self._misplaced: list[Document] = []
        self._nodes_with_unavailable: list[str] = []
        self._candidates: list[str] = []

    def plan(self, names: Sequence[str]) -> DaemonPlan:
        """Return the plan."""
        for name in names:
            pair = _new_and_old(self._daemons, self._daemons.pods.get(name, ()))
            if pair is None:
                self._surging += 1
            else:
                self._add_node(name, *pair)
        # A pod on an ineligible node is deleted only when enough others are available: with surge
        # nothing may be missing, even after a move to other nodes.
        spare = max(self._available - self._target_count, 0)
        room = max(self._surge_max - self._surging, 0)
        return DaemonPlan(
            to_delete=self._to_delete + self._misplaced[:spare],
            nodes_to_fill=self._nodes_with_unavailable + self._candidates[:room],
        )

    def _add_node(self, name: str, new: Document | None, old: Document | None) -> None:
        daemons = self._daemons
        serving = old if old is not None else new
        is_served = serving is not None and daemons.is_available(serving)
        self._available += is_served
        if old is None:
            return
        if new is not None:
            if daemons.is_available(new):
                self._to_delete.append(old)
            else:
                self._surging += 1
        elif not daemons.verdict(name).should_run:
            (self._misplaced if is_served else self._to_delete).append(old)
        elif not is_served:
            self._nodes_with_unavailable.append(name)
        elif self._surging < self._surge_max:
            self._candidates.append(name)


def _new_and_old(
    daemons: Daemons, pods: Sequence[Document]
) -> tuple[Document | None, Document | None] | None:
    """Return the new and the old pod of a node, ignoring terminating ones; None if more."""
    new: Document | None = None
    old: Document | None = None
    for pod in pods:
        if is_terminating(pod):
            continue
        if daemons.is_updated(pod):
            if new is not None:
                return None
            new = pod
        elif old is not None:
            return None
        else:
            old = pod
    return new, old


def _scaled(daemon_set: Document, field_name: str, total: int) -> int:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") != "RollingUpdate":
        return 0
    value = (strategy.get("rollingUpdate") or {}).get(field_name)
    return scaled_value(value, total, round_up=True)


# -- status ---------------------------------------------------------------------------------------


def daemon_status(daemons: Daemons) -> dict[str, int]:
    """Return the counts of the status.

    Parity: daemon_controller.go updateDaemonSetStatus, v1.36.
    """
    counts = dict.fromkeys(
        (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberMisscheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ),
        0,
    )
    for name, node in daemons.nodes.items():
        pods = daemons.pods.get(name)
        if not daemons.placement.verdict(node).should_run:
            counts["numberMisscheduled"] += bool(pods)
            continue
        counts["desiredNumberScheduled"] += 1
        if not pods:
            continue
        counts["currentNumberScheduled"] += 1
        pod = min(pods, key=pod_order) if len(pods) > 1 else pods[0]
        if is_ready(pod):
            counts["numberReady"] += 1
            counts["numberAvailable"] += not daemons.ready_s or daemons.is_available(pod)
        counts["updatedNumberScheduled"] += daemons.is_updated(pod)
    counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    return counts


def template_generation(daemon_set: Document) -> str | None:
    """Return the template generation in the deprecated annotation; None if absent."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION)
    if text is None or not _INTEGER.fullmatch(text):
        return None
    return str(int(text))


def new_daemon_pod(daemon_set: Document, node_name: str, hash_: str) -> Document:
    """Return the pod for a node, to be bound there by the scheduler.

    Parity: daemonset_util.go CreatePodTemplate, v1.36.
    """
    pod = pod_from_template(daemon_set["spec"]["template"], daemon_set)
    labels = pod["metadata"].setdefault("labels", {})
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    labels[REVISION_LABEL] = hash_
    pod["spec"] = daemon_pod_spec(pod["spec"], node_name)
    return pod


def is_updated(pod: Document, hash_: str, generation: str | None) -> bool:
    """Return whether a pod was created from the current template."""
    labels = labels_of(pod)
    by_generation = generation is not None and labels.get(GENERATION_LABEL) == generation
    return by_generation or (bool(hash_) and labels.get(REVISION_LABEL) == hash_)


def pods_by_node(pods: Iterable[Document]) -> dict[str, list[Document]]:
    """Return pods by target node."""
    by_node: dict[str, list[Document]] = {}
    for pod in pods:
        node_name = target_node(pod)
        if node_name is not None:
            by_node.setdefault(node_name, []).append(pod)
    return by_node


def pod_order(pod: Document) -> tuple[Any, ...]:
    """Sort key: scheduled pods first, then by age.

    Parity: daemon_controller.go podByCreationTimestampAndPhase, v1.36.
    """
    return (
        not pod["spec"].get("nodeName"),
        pod["metadata"].get("creationTimestamp") or "",
        name_of(pod),
    )
