"""Carries out a preemption: victims are evicted, and who waits for their room is held back.

Owns the order of evictions, what each says, and until when a preemptor is held back. Never chooses
a victim: the post-filter plugin's plan does.
Upstream: pkg/scheduler/framework/preemption/executor.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kubesched.columns.pod_columns import BoundPod
from kubesched.framework.handle import ApiCallError, ApiClient, EventRecorder, Logger
from kubesched.framework.interface import Victims
from kubesched.framework.status import Status, error
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.kit.log import Ref
from kubesched.kit.tasks import Tasks
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text
from kubesched.objects.times import time_text
from kubesched.scheduler.side_by_side import SideBySide

_ALREADY_LEAVING = "Victim Pod is already being deleted, skipping the API call for it"
_ALREADY_GONE = "Victim Pod is already deleted"
_CANNOT_CLEAR = (
    "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
)


class BoundPods(Protocol):
    """What the watch has shown of pods that have a node; the cache is one."""

    def bound_pod(self, uid: str) -> BoundPod | None: ...


class NominatedPods(Protocol):
    """Who was promised a node, as last shown; the queue's nominator is one."""

    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]: ...


@dataclass(frozen=True, slots=True)
class _Preemption:
    """One plan, for one pod."""

    profile_name: str
    plugin_name: str
    preemptor: PodInfo
    victims: Victims

    @property
    def preemptor_ref(self) -> Ref:
        return _ref(self.preemptor)

    @property
    def node_name(self) -> str:
        return self.victims.node_name


class PreemptionExecutor:
    """Evicts the victims of plans, beside scheduling or at once."""

    def __init__(  # noqa: PLR0913  # Evicting touches that many parts of the scheduler.
        self,
        *,
        client: ApiClient,
        recorder_of: Callable[[str], EventRecorder],
        activate: Callable[[Iterable[PodInfo]], None],
        nominator: NominatedPods,
        waiting_pods: WaitingPodsMap,
        pods_in_pre_bind: PodsInPreBind,
        cache: BoundPods,
        tasks: Tasks,
        clock: Clock,
        log: Logger,
        metrics: Any = None,
    ) -> None:
        """Make an executor.

        Args:
            client: what evicts.
            recorder_of: gives the recorder of a profile.
            activate: has pods tried again.
            nominator: tells who was promised a node.
            waiting_pods: those that permit plugins hold.
            pods_in_pre_bind: those that are about to be bound.
            cache: tells whether a victim is still there.
            tasks: what runs beside scheduling.
            clock: what conditions are dated by.
            log: where lines go.
            metrics: the scheduler's, if there are any.
        """
        self._client = client
        self._recorder_of = recorder_of
        self._activate = activate
        self._nominator = nominator
        self._waiting_pods = waiting_pods
        self._pods_in_pre_bind = pods_in_pre_bind
        self._cache = cache
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._metrics = metrics
        # Preemptors by uid, each with the uid of its last victim once only that one is left.
        self._preempting: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<PreemptionExecutor for {len(self._preempting)} pods>"

    def is_preempting(self, uid: str) -> bool:
        """Return whether pods are still being evicted to make room for this one."""
        # Parity: executor.go isRunningPreemption, v1.36: once the last victim is seen to go its
        # going wakes the preemptor, which must not be held back then.
        last_victim = self._preempting.get(uid)
        if not last_victim:
            return last_victim is not None
        shown = self._cache.bound_pod(last_victim)
        return shown is not None and not shown.terminating

    # -- beside scheduling ------------------------------------------------------------------------

    def start(
        self, profile_name: str, plugin_name: str, preemptor: PodInfo, victims: Victims
    ) -> None:
        """Evict the victims beside scheduling; the preemptor is held back meanwhile."""
        # Parity: executor.go prepareCandidateAsync, v1.36.
        one = _Preemption(profile_name, plugin_name, preemptor, victims)
        to_evict = self._not_yet_leaving(one)
        if not to_evict:
            return
        self._count_victims(one)
        self._preempting[preemptor.uid] = ""
        self._tasks.start(self._run(one, to_evict), name=f"preemption for {preemptor.key}")

    async def _run(self, one: _Preemption, to_evict: Sequence[BoundPod]) -> None:
        counts = {"numVictims": len(one.victims.pods), "numVictimsToDelete": len(to_evict)}
        self._say(2, "Start the preemption asynchronously", one, **counts)
        is_done = False
        try:
            is_cleared = await self._clear_nominations(one, _CANNOT_CLEAR)
            is_done = await self._evict_in_order(one, to_evict) and is_cleared
        finally:
            self._preempting.pop(one.preemptor.uid, None)
            result = "success" if is_done else "error"
            self._say(2, "Async Preemption finished completely", one, result=result)
            if not is_done:
                # Nothing else may ever wake it.
                self._activate([one.preemptor])
            self._count_run()

    async def _evict_in_order(self, one: _Preemption, to_evict: Sequence[BoundPod]) -> bool:
        """Evict all but the last together, then the last; return whether nothing failed."""
        *others, last = to_evict
        failed = await self._evict_all(one, others)
        if failed is not None:
            self._log.error("Error occurred during async preemption", err=failed)
            return False
        self._preempting[one.preemptor.uid] = last.uid
        failed = await self._try_to_evict(one, last)
        if failed is not None:
            text = "Error occurred during async preemption of the last victim"
            self._log.error(text, err=failed)
        return failed is None

    # -- at once ----------------------------------------------------------------------------------

    async def evict(
        self, profile_name: str, plugin_name: str, preemptor: PodInfo, victims: Victims
    ) -> Status | None:
        """Evict the victims before anything else happens; return an error if that fails."""
        # Parity: executor.go prepareCandidate, v1.36 (SchedulerAsyncPreemption is off).
        one = _Preemption(profile_name, plugin_name, preemptor, victims)
        self._count_victims(one)
        failed = await self._evict_all(one, self._not_yet_leaving(one))
        if failed is not None:
            return error(str(failed))
        await self._clear_nominations(one, "Cannot clear 'NominatedNodeName' field")
        return None

    # -- steps ------------------------------------------------------------------------------------

    def _not_yet_leaving(self, one: _Preemption) -> list[BoundPod]:
        for victim in one.victims.pods:
            if victim.terminating:
                self._say(2, _ALREADY_LEAVING, one, victim=_ref(victim))
        return [victim for victim in one.victims.pods if not victim.terminating]

    async def _clear_nominations(self, one: _Preemption, failure_text: str) -> bool:
        """Break the promises of the node to less important pods; return whether that worked."""
        # Parity: executor.go clearNominatedNodeName, v1.36: these pods are tried elsewhere sooner.
        problems: list[str] = []
        for pod in self._nominator.nominated_pods(one.node_name):
            if pod.priority >= one.preemptor.priority or not pod.nominated_node_name:
                continue
            try:
                await self._client.patch_pod_status(
                    namespace=pod.namespace,
                    name=pod.name,
                    patch={"status": {"nominatedNodeName": None}},
                )
            except ApiCallError as problem:
                problems.append(problem.message)
        if problems:
            self._log.error(failure_text, err=aggregate_text(problems), node=one.node_name)
        return not problems

    async def _evict_all(self, one: _Preemption, to_evict: Sequence[BoundPod]) -> Exception | None:
        """Evict together; the first failure ends the rest, and is returned."""
        calls = [self._try_to_evict(one, victim) for victim in to_evict]
        failed = await SideBySide[Exception]().run(calls)
        return None if failed is None else failed[1]

    async def _try_to_evict(self, one: _Preemption, victim: BoundPod) -> Exception | None:
        try:
            await self._evict(one, victim)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the preemptor must not stay behind its gate
            return problem
        return None

    async def _evict(self, one: _Preemption, victim: BoundPod) -> None:
        """Have one victim leave, in the gentlest way that is left."""
        # Parity: executor.go PreemptPod, v1.36.
        note = f"Preempted by pod {one.preemptor.uid} on node {one.node_name}"
        if self._stop_in_memory(one, victim):
            note += " (in kube-scheduler memory)."
        elif not await self._evict_through_api(one, victim):
            return
        # Upstream names the preemptor as related, and fails to: its wrapper is of no known kind.
        self._recorder_of(one.profile_name).event(
            victim, kind="Normal", reason="Preempted", action="Preempting", note=note
        )

    def _stop_in_memory(self, one: _Preemption, victim: BoundPod) -> bool:
        """End the victim's own attempt, if it is not bound yet; return whether that was in time."""
        fields = {"preemptorType": "pod"}
        waiting = self._waiting_pods.get(victim.uid)
        if waiting is not None:
            if not waiting.preempt(one.plugin_name, "preempted"):
                return False
            text = "Preemptor preempted a waiting pod"
            self._say(2, text, one, **fields, waitingPod=_ref(victim))
            return True
        pre_binding = self._pods_in_pre_bind.get(victim.uid)
        if pre_binding is None:
            return False
        if not pre_binding.cancel(f"preempted by {one.plugin_name}"):
            text = "Failed to reject a pod in preBind, falling back to deletion via api call"
            self._say(5, text, one, podInPreBind=_ref(victim))
            return False
        text = "Preemptor rejected a pod in preBind"
        self._say(2, text, one, **fields, podInPreBind=_ref(victim))
        return True

    async def _evict_through_api(self, one: _Preemption, victim: BoundPod) -> bool:
        """Tell the victim why it goes, and delete it; return false if it was gone already."""
        refs = {"victim": _ref(victim), "preemptor": one.preemptor_ref}
        try:
            await self._client.patch_pod_status(
                namespace=victim.namespace, name=victim.name, patch=self._disruption(one, victim)
            )
        except ApiCallError as problem:
            if problem.is_not_found:
                self._say(2, _ALREADY_GONE, one, victim=_ref(victim))
                return False
            text = "Could not add DisruptionTarget condition due to preemption"
            self._log.error(text, err=problem, **refs)
            raise
        try:
            await self._client.delete_pod(namespace=victim.namespace, name=victim.name)
        except ApiCallError as problem:
            if problem.is_not_found:
                self._say(2, _ALREADY_GONE, one, victim=_ref(victim))
                return False
            refs["pod"] = refs.pop("victim")
            self._log.error("Tried to preempted pod", err=problem, **refs)
            raise
        self._say(2, "Preemptor Pod preempted victim Pod", one, victim=_ref(victim))
        return True

    def _disruption(self, one: _Preemption, victim: BoundPod) -> dict[str, Any]:
        """Return the patch that says why the victim goes."""
        # Differs: upstream's patch has the order of all conditions in it, so that the new one is
        # the last. We do not keep the conditions of bound pods, and their order means nothing.
        name = one.preemptor.scheduler_name
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{name}: preempting to accommodate a higher priority pod",
        }
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        if not victim.disruption_target:  # Else the condition keeps the time it has.
            condition["lastTransitionTime"] = time_text(self._clock.now_s())
        return {"status": {"conditions": [condition]}}

    # -- telling ----------------------------------------------------------------------------------

    def _say(self, level: int, text: str, one: _Preemption, **fields: object) -> None:
        refs = {"preemptor": one.preemptor_ref, "node": one.node_name}
        self._log.info(text, level=level, **refs, **fields)

    def _count_victims(self, one: _Preemption) -> None:
        if self._metrics is not None:
            self._metrics.preemption_victims.observe(len(one.victims.pods))

    def _count_run(self) -> None:
        # Parity: executor.go prepareCandidateAsync, v1.36: the arguments of its deferred calls are
        # worked out before anything is done, so that every run is a success that took no time.
        if self._metrics is not None:
            self._metrics.preemption_goroutines_execution_total.labels("success").inc()
            self._metrics.preemption_goroutines_duration_seconds.labels("success").observe(0.0)


def _ref(pod: PodInfo | BoundPod) -> Ref:
    return Ref(pod.namespace, pod.name)
