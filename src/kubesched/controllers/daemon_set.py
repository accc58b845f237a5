"""DaemonSets: a pod on every node that fits.

Owns which sets are looked at when, the writes and the status. Which pods go and come is
daemon_set_plan's.
Upstream: pkg/controller/daemon/daemon_controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    name_of,
    owner_of,
    selector_of,
    uid_of,
)
from kubesched.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from kubesched.controllers.claiming import claimed, index_orphans, wake_parents
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.controller_revisions import REVISION_LABEL
from kubesched.controllers.daemon_set_history import DaemonSetHistory
from kubesched.controllers.daemon_set_placement import (
    DaemonPlacement,
    concerns_placement,
    target_node,
)
from kubesched.controllers.daemon_set_plan import (
    DaemonPlan,
    Daemons,
    daemon_status,
    daemons_of,
    manage_plan,
    rolling_update_plan,
)
from kubesched.controllers.daemon_set_pods import new_daemon_pod
from kubesched.controllers.pod_control import (
    NAMESPACE_TERMINATING,
    create_pod,
    delete_pod,
    has_cause,
)
from kubesched.controllers.replica_set_status import min_ready_s_of, next_availability_check_s
from kubesched.controllers.slow_start import slow_start_batch

BURST_REPLICAS: Final = 250
"""How many pods of a set are created or deleted in one sync."""

_ON_NODE: Final = "daemon set and node"
_FAILED_S_INITIAL: Final = 1.0
_FAILED_S_MAX: Final = 15 * 60.0
_FEW_PODS: Final = 50
_GATHER_S_PER_POD: Final = 0.0002
_GATHER_S_MAX: Final = 1.0
_OPTIONAL_COUNTS: Final = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")


class DaemonSetController(Controller):
    """Makes DaemonSets produce pods."""

    name: ClassVar[str] = "daemonset"
    component: ClassVar[str] = "daemonset-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sets = self.informers.of(DAEMON_SETS)
        self._pods = self.informers.of(PODS)
        self._nodes = self.informers.of(NODES)
        self._revisions = self.informers.of(CONTROLLER_REVISIONS)
        index_orphans(self._pods)
        index_orphans(self._revisions)
        self._pods.add_index(_ON_NODE, _set_and_node)
        self._placements: dict[str, tuple[int, DaemonPlacement]] = {}
        self._failed_pods = FailedPodBackoff()
        self._sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)
        self._revisions.on_change(self._revision_changed)
        self._nodes.on_change(self._node_changed)

    # -- when a set is looked at ------------------------------------------------------------------

    def _set_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is None:
            self._placements.pop(uid_of(old), None)
        if new is not None:
            self.queue.add(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None or new is None or _concerns_daemons(old, new):
            wake_parents(self._sets, old, new, self._wake)

    def _wake(self, key: str) -> None:
        # The pods of a big set change one by one in quick order, and each look is at all of them.
        daemon_set = self._sets.get(key)
        count = ((daemon_set or {}).get("status") or {}).get("desiredNumberScheduled") or 0
        self.queue.add_after(key, gather_s(count))

    def _revision_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None and owner_of(new) is not None:
            return
        wake_parents(self._sets, old, new, self.queue.add)

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            # Upstream looks only once the pods of the node are gone; this way the count of
            # wanted pods is right at once.
            name = name_of(old or {})
            for _, placement in self._placements.values():
                placement.forget(name)
        elif old is not None and not concerns_placement(old, new):
            return
        for daemon_set in self._sets:
            if new is None or self._is_concerned(daemon_set, new):
                self._wake(key_of(daemon_set))

    def _is_concerned(self, daemon_set: Document, node: Document) -> bool:
        """Return whether a set has something to do because of a node, or says a wrong number.

        Parity: daemon_controller.go syncNodeUpdate, v1.36.
        """
        should_run, may_stay = self._placement(daemon_set).verdict(node)
        if not self._pods.by(_ON_NODE, f"{uid_of(daemon_set)}/{name_of(node)}"):
            return should_run
        misscheduled = (daemon_set.get("status") or {}).get("numberMisscheduled")
        return not may_stay or bool(misscheduled)

    # -- what is done -----------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Bring one set a step closer to what it wants."""
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            return
        if daemon_set["spec"].get("selector") == {}:
            told = "This daemon set is selecting all pods. A non-empty selector is required."
            self.event(daemon_set, "Warning", "SelectingAll", told)
            return
        if is_terminating(daemon_set):
            return
        selector = selector_of(daemon_set["spec"].get("selector"))
        revisions = await claimed(self.api, CONTROLLER_REVISIONS, daemon_set, DAEMON_SETS, selector)
        pods = await claimed(self.api, PODS, daemon_set, DAEMON_SETS, selector)
        history = DaemonSetHistory(self.api, daemon_set, revisions)
        hash_ = labels_of(await history.current(pods))[REVISION_LABEL]
        try:
            await self._update(key, daemon_set, pods, hash_)
            await history.clean_up(pods)
        finally:
            await self._write_status(key, daemon_set, hash_)

    async def _update(
        self, key: str, daemon_set: Document, pods: Sequence[Document], hash_: str
    ) -> None:
        daemons = self._daemons(daemon_set, pods, hash_)
        plan = manage_plan(daemons, lambda node: self._failed_wait_s(daemon_set, node))
        for kind, reason, note in plan.events:
            self.event(daemon_set, kind, reason, note)
        if plan.look_again_s is not None:
            self.queue.add_after(key, plan.look_again_s)
        if not plan.is_empty:
            # What was written wakes the set again; replacing goes on from there.
            await self._carry_out(plan, daemon_set, hash_)
            return
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "RollingUpdate":
            await self._carry_out(rolling_update_plan(daemons), daemon_set, hash_)

    async def _carry_out(self, plan: DaemonPlan, daemon_set: Document, hash_: str) -> None:
        """Create and delete what a plan says.

        Parity: daemon_controller.go syncNodes, v1.36.
        """
        nodes = iter(plan.nodes_to_fill[:BURST_REPLICAS])
        failure: Exception | None = None

        async def create() -> None:
            pod = new_daemon_pod(daemon_set, next(nodes), hash_)
            await create_pod(self, pod, daemon_set)

        try:
            await slow_start_batch(min(len(plan.nodes_to_fill), BURST_REPLICAS), create)
        except Exception as error:  # noqa: BLE001  # Raised below, after the deletions.
            if not has_cause(error, NAMESPACE_TERMINATING):
                failure = error
        outcomes = await asyncio.gather(
            *(delete_pod(self, pod, daemon_set) for pod in plan.to_delete[:BURST_REPLICAS]),
            return_exceptions=True,
        )
        for outcome in (failure, *outcomes):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _write_status(self, key: str, daemon_set: Document, hash_: str) -> None:
        pods = self._pods.owned_by(uid_of(daemon_set))
        daemons = self._daemons(daemon_set, pods, hash_)
        counts = daemon_status(daemons)
        ready_s = min_ready_s_of(daemon_set)
        if ready_s > 0 and counts["numberReady"] != counts["numberAvailable"]:
            next_s = next_availability_check_s(pods, ready_s, daemons.now_s)
            self.queue.add_after(key, ready_s if next_s is None else next_s)
        latest = self._sets.get(key)
        if latest is None or uid_of(latest) != uid_of(daemon_set):
            return
        known = latest.get("status") or {}
        generation = int(daemon_set["metadata"].get("generation") or 0)
        if int(known.get("observedGeneration") or 0) >= generation and all(
            int(known.get(field) or 0) == count for field, count in counts.items()
        ):
            return
        status = {**known, **counts, "observedGeneration": generation}
        for field in _OPTIONAL_COUNTS:
            if not status[field]:
                del status[field]
        await self.api.update_status(DAEMON_SETS, {**latest, "status": status})

    # -- what is asked often ----------------------------------------------------------------------

    def _daemons(self, daemon_set: Document, pods: Iterable[Document], hash_: str) -> Daemons:
        return daemons_of(
            daemon_set,
            self._placement(daemon_set),
            self._nodes,
            pods,
            hash_=hash_,
            now_s=self.clock.now_s(),
        )

    def _placement(self, daemon_set: Document) -> DaemonPlacement:
        """Return the rule of a set's template, compiled once for each generation."""
        uid, generation = uid_of(daemon_set), int(daemon_set["metadata"].get("generation") or 0)
        known = self._placements.get(uid)
        if known is None or known[0] != generation:
            known = self._placements[uid] = generation, DaemonPlacement(daemon_set)
        return known[1]

    def _failed_wait_s(self, daemon_set: Document, node_name: str) -> float | None:
        observed = (daemon_set.get("status") or {}).get("observedGeneration") or 0
        key = f"{uid_of(daemon_set)}/{observed}/{node_name}"
        return self._failed_pods.wait_s(key, self.clock.monotonic_s())


def gather_s(count: int) -> float:
    """Return how long changes of pods are gathered before a set of so many is looked at."""
    return 0.0 if count <= _FEW_PODS else min(count * _GATHER_S_PER_POD, _GATHER_S_MAX)


@dataclass(slots=True)
class _Tried:
    backoff_s: float
    at_s: float


class FailedPodBackoff:
    """How long a failed pod stays: longer each time, so as not to fight with a kubelet.

    Upstream: client-go/util/flowcontrol/backoff.go
    """

    def __init__(self) -> None:
        self._tried: dict[str, _Tried] = {}

    def wait_s(self, key: str, now_s: float) -> float | None:
        """Return how long it is to wait; None, and the next wait is twice as long, if not."""
        tried = self._tried.get(key)
        if tried is None or now_s - tried.at_s > 2 * _FAILED_S_MAX:
            self._forget_old(now_s)
            self._tried[key] = _Tried(_FAILED_S_INITIAL, now_s)
            return None
        if now_s - tried.at_s < tried.backoff_s:
            return tried.backoff_s
        tried.backoff_s = min(2 * tried.backoff_s, _FAILED_S_MAX)
        tried.at_s = now_s
        return None

    def _forget_old(self, now_s: float) -> None:
        old = [key for key, one in self._tried.items() if now_s - one.at_s > 2 * _FAILED_S_MAX]
        for key in old:
            del self._tried[key]


def _set_and_node(pod: Document) -> Iterable[str]:
    owner = owner_of(pod)
    if owner is None or owner.get("kind") != DAEMON_SETS.kind:
        return ()
    node_name = target_node(pod)
    return () if node_name is None else (f"{owner['uid']}/{node_name}",)


def _concerns_daemons(old: Document, new: Document) -> bool:
    """Return whether a pod changed in something that a DaemonSet looks at."""
    return (
        labels_of(old) != labels_of(new)
        or owner_of(old) != owner_of(new)
        or is_terminating(old) != is_terminating(new)
        or old["spec"].get("nodeName") != new["spec"].get("nodeName")
        or old.get("status", {}).get("phase") != new.get("status", {}).get("phase")
        or is_ready(old) != is_ready(new)
    )
