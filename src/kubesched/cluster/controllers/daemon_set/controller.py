"""DaemonSets: a pod on every eligible node.

Owns when a set is synced, the writes and the status. What is created and deleted is `plan`'s.
Upstream: pkg/controller/daemon/daemon_controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from kubesched.api.documents import (
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
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.controller_refs import (
    claim_children,
    enqueue_parents,
    index_orphans,
)
from kubesched.cluster.controllers.controller_revisions import REVISION_LABEL
from kubesched.cluster.controllers.daemon_set.history import DaemonSetHistory
from kubesched.cluster.controllers.daemon_set.plan import (
    DaemonPlan,
    Daemons,
    daemon_status,
    manage_plan,
    new_daemon_pod,
    new_daemons,
    rolling_update_plan,
)
from kubesched.cluster.controllers.pod_control import (
    create_pod,
    delete_pod,
    raise_first,
    slow_start_batch,
)
from kubesched.cluster.controllers.replica_set.status import (
    min_ready_s_of,
    next_availability_check_s,
)
from kubesched.workloads.daemon_set import DaemonPlacement, target_node

BURST_REPLICAS: Final = 250
"""Maximum number of pods created or deleted in one sync."""

_ON_NODE: Final = "daemon set and node"
_FAILED_BACKOFF_S_INITIAL: Final = 1.0
_FAILED_BACKOFF_S_MAX: Final = 15 * 60.0
_FEW_PODS: Final = 50
_BATCH_S_PER_POD: Final = 0.0002
_BATCH_S_MAX: Final = 1.0
_OPTIONAL_COUNTS: Final = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")


class DaemonSetController(Controller):
    """Reconciles DaemonSets."""

    name: ClassVar[str] = "daemonset"
    component: ClassVar[str] = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = self.informers.of(DAEMON_SETS)
        self._pods = self.informers.of(PODS)
        self._nodes = self.informers.of(NODES)
        self._revisions = self.informers.of(CONTROLLER_REVISIONS)
        index_orphans(self._pods)
        index_orphans(self._revisions)
        self._pods.add_index(_ON_NODE, _set_and_node_keys)
        self._placements: dict[str, tuple[int, DaemonPlacement]] = {}
        self._failed_pods = FailedPodBackoff()
        self._sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)
        self._revisions.on_change(self._revision_changed)
        self._nodes.on_change(self._node_changed)

    # -- events -----------------------------------------------------------------------------------

    def _set_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is None:
            self._placements.pop(uid_of(old), None)
        if new is not None:
            self.queue.add(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None or new is None or _pod_matters(old, new):
            enqueue_parents(self._sets, self._enqueue, old, new)

    def _enqueue(self, key: str) -> None:
        # Pods of a large set change in quick succession, and each sync reads all of them.
        daemon_set = self._sets.get(key)
        count = ((daemon_set or {}).get("status") or {}).get("desiredNumberScheduled") or 0
        self.queue.add_after(key, batch_wait_s(count))

    def _revision_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None and owner_of(new) is not None:
            return
        enqueue_parents(self._sets, self.queue.add, old, new)

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            # Upstream syncs only once the node's pods are gone; syncing now makes
            # desiredNumberScheduled right at once.
            name = name_of(old or {})
            for _, placement in self._placements.values():
                placement.forget(name)
        elif old is not None and not concerns_placement(old, new):
            return
        for daemon_set in self._sets:
            if new is None or self._is_affected(daemon_set, new):
                self._enqueue(key_of(daemon_set))

    def _is_affected(self, daemon_set: Document, node: Document) -> bool:
        """Return whether a node gives a set something to do, or its status is outdated.

        Parity: daemon_controller.go syncNodeUpdate, v1.36.
        """
        should_run, may_stay = self._placement(daemon_set).verdict(node)
        if not self._pods.by_index(_ON_NODE, f"{uid_of(daemon_set)}/{name_of(node)}"):
            return should_run
        misscheduled = (daemon_set.get("status") or {}).get("numberMisscheduled")
        return not may_stay or bool(misscheduled)

    # -- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Reconcile one set."""
        daemon_set = self._sets.get(key)
        if daemon_set is None:
            return
        if daemon_set["spec"].get("selector") == {}:
            note = "This daemon set is selecting all pods. A non-empty selector is required."
            self.event(daemon_set, "Warning", "SelectingAll", note)
            return
        if is_terminating(daemon_set):
            return
        selector = selector_of(daemon_set["spec"].get("selector"))
        revisions = await claim_children(
            self.api, CONTROLLER_REVISIONS, daemon_set, DAEMON_SETS, selector
        )
        pods = await claim_children(self.api, PODS, daemon_set, DAEMON_SETS, selector)
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
        plan = manage_plan(daemons, lambda node: self._failed_pod_wait_s(daemon_set, node))
        for kind, reason, note in plan.events:
            self.event(daemon_set, kind, reason, note)
        if plan.requeue_s is not None:
            self.queue.add_after(key, plan.requeue_s)
        if not plan.is_empty:
            # These writes enqueue the set again; the update continues then.
            await self._execute(plan, daemon_set, hash_)
            return
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "RollingUpdate":
            await self._execute(rolling_update_plan(daemons), daemon_set, hash_)

    async def _execute(self, plan: DaemonPlan, daemon_set: Document, hash_: str) -> None:
        """Create and delete the pods of a plan.

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
            if not is_namespace_terminating(error):
                failure = error
        outcomes = await asyncio.gather(
            *(delete_pod(self, pod, daemon_set) for pod in plan.to_delete[:BURST_REPLICAS]),
            return_exceptions=True,
        )
        raise_first((failure, *outcomes))

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
        current = latest.get("status") or {}
        generation = int(daemon_set["metadata"].get("generation") or 0)
        if int(current.get("observedGeneration") or 0) >= generation and all(
            int(current.get(field) or 0) == count for field, count in counts.items()
        ):
            return
        status = {**current, **counts, "observedGeneration": generation}
        for field in _OPTIONAL_COUNTS:
            if not status[field]:
                del status[field]
        await self.api.update_status(DAEMON_SETS, {**latest, "status": status})

    # -- cached placements and backoff ------------------------------------------------------------

    def _daemons(self, daemon_set: Document, pods: Iterable[Document], hash_: str) -> Daemons:
        return new_daemons(
            daemon_set,
            self._placement(daemon_set),
            self._nodes,
            pods,
            hash_=hash_,
            now_s=self.clock.now_s(),
        )

    def _placement(self, daemon_set: Document) -> DaemonPlacement:
        """Return the compiled placement of a set, cached per generation."""
        uid, generation = uid_of(daemon_set), int(daemon_set["metadata"].get("generation") or 0)
        cached = self._placements.get(uid)
        if cached is None or cached[0] != generation:
            cached = self._placements[uid] = generation, DaemonPlacement(daemon_set)
        return cached[1]

    def _failed_pod_wait_s(self, daemon_set: Document, node_name: str) -> float | None:
        observed = (daemon_set.get("status") or {}).get("observedGeneration") or 0
        key = f"{uid_of(daemon_set)}/{observed}/{node_name}"
        return self._failed_pods.wait_s(key, self.clock.monotonic_s())


def batch_wait_s(count: int) -> float:
    """Return how long pod changes of a set are batched, by its number of pods."""
    return 0.0 if count <= _FEW_PODS else min(count * _BATCH_S_PER_POD, _BATCH_S_MAX)


@dataclass(slots=True)
class _BackoffEntry:
    backoff_s: float
    at_s: float


class FailedPodBackoff:
    """Backoff of failed daemon pods, so that controller and kubelet do not fight.

    Upstream: client-go/util/flowcontrol/backoff.go
    """

    def __init__(self) -> None:
        self._entries: dict[str, _BackoffEntry] = {}

    def wait_s(self, key: str, now_s: float) -> float | None:
        """Return the remaining wait; None, doubling the next backoff, if it is over."""
        entry = self._entries.get(key)
        if entry is None or now_s - entry.at_s > 2 * _FAILED_BACKOFF_S_MAX:
            self._remove_expired(now_s)
            self._entries[key] = _BackoffEntry(_FAILED_BACKOFF_S_INITIAL, now_s)
            return None
        if now_s - entry.at_s < entry.backoff_s:
            return entry.backoff_s
        entry.backoff_s = min(2 * entry.backoff_s, _FAILED_BACKOFF_S_MAX)
        entry.at_s = now_s
        return None

    def _remove_expired(self, now_s: float) -> None:
        old = [
            key
            for key, one in self._entries.items()
            if now_s - one.at_s > 2 * _FAILED_BACKOFF_S_MAX
        ]
        for key in old:
            del self._entries[key]


def _set_and_node_keys(pod: Document) -> Iterable[str]:
    owner = owner_of(pod)
    if owner is None or owner.get("kind") != DAEMON_SETS.kind:
        return ()
    node_name = target_node(pod)
    return () if node_name is None else (f"{owner['uid']}/{node_name}",)


def _pod_matters(old: Document, new: Document) -> bool:
    """Return whether a pod changed in a way that matters to its DaemonSet."""
    return (
        labels_of(old) != labels_of(new)
        or owner_of(old) != owner_of(new)
        or is_terminating(old) != is_terminating(new)
        or old["spec"].get("nodeName") != new["spec"].get("nodeName")
        or old.get("status", {}).get("phase") != new.get("status", {}).get("phase")
        or is_ready(old) != is_ready(new)
    )


def concerns_placement(old: Document, new: Document) -> bool:
    """Return whether a change of a node can affect daemon pods.

    Parity: daemon_controller.go shouldIgnoreNodeUpdate, v1.36.
    """
    return labels_of(old) != labels_of(new) or (old["spec"].get("taints") or []) != (
        new["spec"].get("taints") or []
    )
