"""Which daemon pods go and which come.

Owns the choice for every node: pods that are missing, too many, failed, or of an old template.
Never writes anything: who asks gets a plan.
Upstream: pkg/controller/daemon/daemon_controller.go manage, podsShouldBeOnNode; update.go
rollingUpdate
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubesched.client.cached.documents import (
    Document,
    is_available,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
)
from kubesched.controllers.controller_revisions import REVISION_LABEL
from kubesched.controllers.daemon_set_placement import DaemonPlacement, Verdict
from kubesched.controllers.daemon_set_pods import (
    by_node,
    is_updated,
    oldest_first,
    template_generation,
)
from kubesched.controllers.deployment_sizes import scaled_value
from kubesched.controllers.replica_set_status import min_ready_s_of


@dataclass(slots=True)
class DaemonPlan:
    """What is to be done."""

    to_delete: list[Document] = field(default_factory=list)
    nodes_to_fill: list[str] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and note of what is told about the set."""
    look_again_s: float | None = None
    """In how long a failed pod may be deleted that has to wait now."""

    @property
    def is_empty(self) -> bool:
        """Return whether everything is as it should be."""
        return not self.to_delete and not self.nodes_to_fill


FailedWait = Callable[[str], float | None]
"""Says of a node how long its failed pod has to wait; None, and it counts as tried, if not."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """One DaemonSet, its nodes and its pods, at one moment."""

    daemon_set: Document
    placement: DaemonPlacement
    nodes: Mapping[str, Document]
    pods: Mapping[str, Sequence[Document]]
    """By node; those that are over and on their way out are left out."""
    hash_: str
    now_s: float
    ready_s: int
    """For how long a pod has to be ready to be available."""
    generation: str | None
    """The generation of the template, as an old annotation says it."""

    def verdict(self, node_name: str) -> Verdict:
        """Return what holds for a node; nothing should be on one that is gone."""
        node = self.nodes.get(node_name)
        return Verdict(False, False) if node is None else self.placement.verdict(node)

    def is_available(self, pod: Document) -> bool:
        """Return whether a pod has been ready for long enough."""
        return is_available(pod, self.ready_s, self.now_s)

    def is_updated(self, pod: Document) -> bool:
        """Return whether a pod is of the template as it is now."""
        return is_updated(pod, self.hash_, self.generation)

    def wanted_nodes(self) -> list[str]:
        """Return the nodes that should have a pod."""
        return [name for name, node in self.nodes.items() if self.placement.verdict(node)[0]]


def daemons_of(
    daemon_set: Document,
    placement: DaemonPlacement,
    nodes: Iterable[Document],
    pods: Iterable[Document],
    *,
    hash_: str,
    now_s: float,
) -> Daemons:
    """Return a DaemonSet with its nodes and pods; what is over and on its way out is left out."""
    return Daemons(
        daemon_set=daemon_set,
        placement=placement,
        nodes={name_of(node): node for node in nodes},
        pods=by_node(pod for pod in pods if not _is_over_and_going(pod)),
        hash_=hash_,
        now_s=now_s,
        ready_s=min_ready_s_of(daemon_set),
        generation=template_generation(daemon_set),
    )


def _is_over_and_going(pod: Document) -> bool:
    """Return whether a pod has ended and is being deleted: somebody else finishes that."""
    return is_terminating(pod) and pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


# -- every node has its pod -----------------------------------------------------------------------


def manage_plan(daemons: Daemons, failed_wait_s: FailedWait) -> DaemonPlan:
    """Return what brings one pod to every node that should have one, and takes the others away.

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
            running = _without_finished(name, pods, plan, failed_wait_s)
            if allows_surge:
                _prune_surging(daemons, name, running, plan, should_run=should_run)
            else:
                plan.to_delete += sorted(running, key=oldest_first)[1:]
        elif pods is not None:
            plan.to_delete += [pod for pod in pods if not is_terminating(pod)]
    plan.to_delete += _meant_for_no_node(daemons)
    return plan


def _without_finished(
    node_name: str, pods: Sequence[Document], plan: DaemonPlan, failed_wait_s: FailedWait
) -> list[Document]:
    """Return the pods that run or may; those that are over are deleted."""
    running = []
    for pod in pods:
        if is_terminating(pod):
            continue
        phase = pod.get("status", {}).get("phase")
        if phase == "Failed":
            wait_s = failed_wait_s(node_name)
            if wait_s is not None:
                plan.look_again_s = min(wait_s, plan.look_again_s or wait_s)
                continue
            told = f"Found failed daemon pod {key_of(pod)} on node {node_name}, will try to kill it"
            plan.events.append(("Warning", "FailedDaemonPod", told))
            plan.to_delete.append(pod)
        elif phase == "Succeeded":
            told = (
                f"Found succeeded daemon pod {key_of(pod)} on node {node_name}, "
                "will try to delete it"
            )
            plan.events.append(("Normal", "SucceededDaemonPod", told))
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
    """Leave a node its oldest new pod, and beside it an old one until the new is available."""
    if not running:
        if should_run:
            plan.nodes_to_fill.append(node_name)
        return
    if len(running) == 1:
        return
    new: Document | None = None
    old: Document | None = None
    for pod in sorted(running, key=oldest_first):
        is_new = labels_of(pod).get(REVISION_LABEL) == daemons.hash_
        if is_new and new is None:
            new = pod
        elif not is_new and old is None:
            old = pod
        else:
            plan.to_delete.append(pod)
    if new is not None and old is not None and (not is_ready(old) or daemons.is_available(new)):
        plan.to_delete.append(old)


def _meant_for_no_node(daemons: Daemons) -> list[Document]:
    """Return pods that wait for a node that is gone: nobody else deletes them.

    Parity: daemon_controller.go getUnscheduledPodsWithoutNode, v1.36.
    """
    return [
        pod
        for name, pods in daemons.pods.items()
        if name not in daemons.nodes
        for pod in pods
        if not pod["spec"].get("nodeName") and not is_terminating(pod)
    ]


# -- every pod is of the new template -------------------------------------------------------------


def rolling_update_plan(daemons: Daemons) -> DaemonPlan:
    """Return what replaces the next old pods, within what may be missing or too many.

    Parity: update.go rollingUpdate, v1.36.
    """
    wanted = daemons.wanted_nodes()
    surge = _scaled(daemons.daemon_set, "maxSurge", len(wanted))
    unavailable = _scaled(daemons.daemon_set, "maxUnavailable", len(wanted))
    if wanted and not surge and not unavailable:
        unavailable = 1
    # Nodes that should have a pod and have none count too.
    names = list(dict.fromkeys((*daemons.pods, *wanted)))
    if surge == 0:
        return _replaced_in_place(daemons, names, unavailable)
    return _Surge(daemons, surge, len(wanted)).plan(names)


def _replaced_in_place(daemons: Daemons, names: Sequence[str], unavailable_max: int) -> DaemonPlan:
    """Delete old pods: those that are of no use at once, and of the others as many as may be."""
    unavailable = 0
    useless: list[Document] = []
    candidates: list[Document] = []
    for name in names:
        pair = _new_and_old(daemons, daemons.pods.get(name, ()))
        if pair is None or (pair[0] is None) == (pair[1] is None):
            # Too many, or none, or one of each: the other half of the sync sees to it.
            unavailable += 1
            continue
        new, old = pair
        if old is None:
            unavailable += not (new is not None and daemons.is_available(new))
        elif not daemons.is_available(old):
            useless.append(old)
            unavailable += 1
        elif unavailable < unavailable_max:
            candidates.append(old)
    room = max(unavailable_max - unavailable, 0)
    return DaemonPlan(to_delete=useless + candidates[:room])


class _Surge:
    """An update that creates the new pod beside the old one, and then deletes the old one."""

    def __init__(self, daemons: Daemons, surge_max: int, wanted_count: int) -> None:
        self._daemons = daemons
        self._surge_max = surge_max
        self._wanted_count = wanted_count
        self._surging = 0
        self._available = 0
        self._to_delete: list[Document] = []
        self._misplaced: list[Document] = []
        self._useless_on: list[str] = []
        self._candidates: list[str] = []

    def plan(self, names: Sequence[str]) -> DaemonPlan:
        """Return what is to be done."""
        for name in names:
            pair = _new_and_old(self._daemons, self._daemons.pods.get(name, ()))
            if pair is None:
                self._surging += 1
            else:
                self._look_at(name, *pair)
        # A pod where none should be is deleted only when enough others are available: who asks
        # for surge wants nothing to be missing, after a move to other nodes too.
        spare = max(self._available - self._wanted_count, 0)
        room = max(self._surge_max - self._surging, 0)
        return DaemonPlan(
            to_delete=self._to_delete + self._misplaced[:spare],
            nodes_to_fill=self._useless_on + self._candidates[:room],
        )

    def _look_at(self, name: str, new: Document | None, old: Document | None) -> None:
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
            self._useless_on.append(name)
        elif self._surging < self._surge_max:
            self._candidates.append(name)


def _new_and_old(
    daemons: Daemons, pods: Sequence[Document]
) -> tuple[Document | None, Document | None] | None:
    """Return the new and the old pod of a node, those that are going aside; None if more."""
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


# -- what the status says -------------------------------------------------------------------------


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
        pod = min(pods, key=oldest_first) if len(pods) > 1 else pods[0]
        if is_ready(pod):
            counts["numberReady"] += 1
            counts["numberAvailable"] += not daemons.ready_s or daemons.is_available(pod)
        counts["updatedNumberScheduled"] += daemons.is_updated(pod)
    counts["numberUnavailable"] = counts["desiredNumberScheduled"] - counts["numberAvailable"]
    return counts
