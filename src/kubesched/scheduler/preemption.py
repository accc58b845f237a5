"""Executes a preemption: evicts the victims, and gates the preemptor meanwhile.

Owns the order of evictions, their events and conditions, and how long a preemptor is gated. Never
chooses a victim: the PostFilter plugin does.
Upstream: pkg/scheduler/framework/preemption/executor.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubesched.api.field_errors import aggregate_text
from kubesched.api.times import time_text
from kubesched.framework.handle import ApiCallError, ApiClient, EventRecorder, Logger
from kubesched.framework.interface import Victims
from kubesched.framework.runtime.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.framework.status import Status, error
from kubesched.kit.clock import Clock
from kubesched.kit.log import Ref
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.scheduler.parallel_calls import ParallelCalls
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

_ALREADY_TERMINATING = "Victim Pod is already being deleted, skipping the API call for it"
_CANNOT_CLEAR = (
    "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
)


@dataclass(frozen=True, slots=True)
class _Preemption:
    """One preemption, for one pod."""

    profile_name: str
    plugin_name: str
    preemptor: PodInfo
    victims: Victims

    @property
    def node_name(self) -> str:
        return self.victims.node_name


@dataclass(slots=True, kw_only=True)
class PreemptionExecutor:
    """Evicts victims, asynchronously or while the attempt waits."""

    client: ApiClient
    recorder_of: Callable[[str], EventRecorder]
    """Returns the event recorder of a profile."""
    activate: Callable[[Iterable[PodInfo]], None]
    nominated_pods: Callable[[str], Sequence[PodInfo]]
    """Returns the pods nominated to a node."""
    waiting_pods: WaitingPodsMap
    pods_in_pre_bind: PodsInPreBind
    bound_pod: Callable[[str], BoundPod | None]
    """Returns a bound pod as last watched, by uid."""
    tasks: Tasks
    clock: Clock
    log: Logger
    metrics: SchedulerMetrics
    _preempting: dict[str, str] = field(default_factory=dict, init=False)
    """Preemptors by uid, each with the uid of its last victim once only that one is left."""

    def is_preempting(self, uid: str) -> bool:
        """Return whether victims of this preemptor are still being evicted."""
        # Parity: executor.go isRunningPreemption, v1.36: once the last victim is seen terminating,
        # its event requeues the preemptor, which must not be gated then.
        last_victim = self._preempting.get(uid)
        if not last_victim:
            return last_victim is not None
        shown = self.bound_pod(last_victim)
        return shown is not None and not shown.terminating

    # -- asynchronous preemption ------------------------------------------------------------------

    def start(
        self, profile_name: str, plugin_name: str, preemptor: PodInfo, victims: Victims
    ) -> None:
        """Evict the victims in the background; the preemptor is gated meanwhile."""
        # Parity: executor.go prepareCandidateAsync, v1.36.
        preemption = _Preemption(profile_name, plugin_name, preemptor, victims)
        to_evict = self._not_terminating(preemption)
        if not to_evict:
            return
        self.metrics.preemption_victims.observe(len(victims.pods))
        self._preempting[preemptor.uid] = ""
        self.tasks.start(self._run(preemption, to_evict), name=f"preemption for {preemptor.key}")

    async def _run(self, preemption: _Preemption, to_evict: Sequence[BoundPod]) -> None:
        counts = {"numVictims": len(preemption.victims.pods), "numVictimsToDelete": len(to_evict)}
        self._log_info(2, "Start the preemption asynchronously", preemption, **counts)
        is_done = False
        try:
            is_cleared = await self._clear_nominations(preemption, _CANNOT_CLEAR)
            is_done = await self._evict_in_order(preemption, to_evict) and is_cleared
        finally:
            self._preempting.pop(preemption.preemptor.uid, None)
            result = "success" if is_done else "error"
            self._log_info(2, "Async Preemption finished completely", preemption, result=result)
            if not is_done:
                # No other event may requeue it.
                self.activate([preemption.preemptor])
            # Parity: executor.go prepareCandidateAsync, v1.36: the arguments of its deferred calls
            # are evaluated at the start, so every run counts as a success that took no time.
            self.metrics.preemption_goroutines_execution_total.labels("success").inc()
            self.metrics.preemption_goroutines_duration_seconds.labels("success").observe(0.0)

    async def _evict_in_order(self, preemption: _Preemption, to_evict: Sequence[BoundPod]) -> bool:
        """Evict all but the last in parallel, then the last; return whether all succeeded."""
        *others, last = to_evict
        failed = await self._evict_all(preemption, others)
        if failed is not None:
            self.log.error("Error occurred during async preemption", err=failed)
            return False
        self._preempting[preemption.preemptor.uid] = last.uid
        failed = await self._try_to_evict(preemption, last)
        if failed is not None:
            text = "Error occurred during async preemption of the last victim"
            self.log.error(text, err=failed)
        return failed is None

    # -- synchronous preemption -------------------------------------------------------------------

    async def evict(
        self, profile_name: str, plugin_name: str, preemptor: PodInfo, victims: Victims
    ) -> Status | None:
        """Evict the victims while the attempt waits; return an error if that fails."""
        # Parity: executor.go prepareCandidate, v1.36 (SchedulerAsyncPreemption is off).
        preemption = _Preemption(profile_name, plugin_name, preemptor, victims)
        self.metrics.preemption_victims.observe(len(victims.pods))
        failed = await self._evict_all(preemption, self._not_terminating(preemption))
        if failed is not None:
            return error(str(failed))
        await self._clear_nominations(preemption, "Cannot clear 'NominatedNodeName' field")
        return None

    # -- steps ------------------------------------------------------------------------------------

    def _not_terminating(self, preemption: _Preemption) -> list[BoundPod]:
        for victim in preemption.victims.pods:
            if victim.terminating:
                self._log_info(2, _ALREADY_TERMINATING, preemption, victim=_ref(victim))
        return [victim for victim in preemption.victims.pods if not victim.terminating]

    async def _clear_nominations(self, preemption: _Preemption, failure_text: str) -> bool:
        """Clear nominations of lower-priority pods to the node; return whether all succeeded."""
        # Parity: executor.go clearNominatedNodeName, v1.36: such pods are retried sooner.
        problems: list[str] = []
        for pod in self.nominated_pods(preemption.node_name):
            if pod.priority >= preemption.preemptor.priority or not pod.nominated_node_name:
                continue
            try:
                await self.client.patch_pod_status(
                    namespace=pod.namespace,
                    name=pod.name,
                    patch={"status": {"nominatedNodeName": None}},
                )
            except ApiCallError as problem:
                problems.append(problem.message)
        if problems:
            self.log.error(failure_text, err=aggregate_text(problems), node=preemption.node_name)
        return not problems

    async def _evict_all(
        self, preemption: _Preemption, to_evict: Sequence[BoundPod]
    ) -> Exception | None:
        """Evict in parallel; return the first failure, which cancels the rest."""
        calls = [self._try_to_evict(preemption, victim) for victim in to_evict]
        failed = await ParallelCalls[Exception]().run(calls)
        return None if failed is None else failed[1]

    async def _try_to_evict(self, preemption: _Preemption, victim: BoundPod) -> Exception | None:
        try:
            await self._evict(preemption, victim)
        except Exception as problem:  # noqa: BLE001 - the preemptor must not stay gated
            return problem
        return None

    async def _evict(self, preemption: _Preemption, victim: BoundPod) -> None:
        """Evict one victim: in memory if it is not bound yet, otherwise through the API."""
        # Parity: executor.go PreemptPod, v1.36.
        note = f"Preempted by pod {preemption.preemptor.uid} on node {preemption.node_name}"
        if self._stop_in_memory(preemption, victim):
            note += " (in kube-scheduler memory)."
        elif not await self._evict_through_api(preemption, victim):
            return
        # Upstream tries to set the preemptor as related, in vain: its wrapper has no known kind.
        self.recorder_of(preemption.profile_name).event(
            victim, kind="Normal", reason="Preempted", action="Preempting", note=note
        )

    def _stop_in_memory(self, preemption: _Preemption, victim: BoundPod) -> bool:
        """End the attempt of a victim that is not bound yet; return whether that succeeded."""
        fields = {"preemptorType": "pod"}
        waiting = self.waiting_pods.get(victim.uid)
        if waiting is not None:
            if not waiting.preempt(preemption.plugin_name, "preempted"):
                return False
            text = "Preemptor preempted a waiting pod"
            self._log_info(2, text, preemption, **fields, waitingPod=_ref(victim))
            return True
        pre_binding = self.pods_in_pre_bind.get(victim.uid)
        if pre_binding is None:
            return False
        if not pre_binding.cancel(f"preempted by {preemption.plugin_name}"):
            text = "Failed to reject a pod in preBind, falling back to deletion via api call"
            self._log_info(5, text, preemption, podInPreBind=_ref(victim))
            return False
        text = "Preemptor rejected a pod in preBind"
        self._log_info(2, text, preemption, **fields, podInPreBind=_ref(victim))
        return True

    async def _evict_through_api(self, preemption: _Preemption, victim: BoundPod) -> bool:
        """Write the victim's condition and delete it; return False if it is already gone."""
        refs = {"victim": _ref(victim), "preemptor": _ref(preemption.preemptor)}
        failure = "Could not add DisruptionTarget condition due to preemption"
        try:
            await self.client.patch_pod_status(
                namespace=victim.namespace,
                name=victim.name,
                patch=self._disruption(preemption, victim),
            )
            failure, refs["pod"] = "Tried to preempted pod", refs.pop("victim")
            await self.client.delete_pod(namespace=victim.namespace, name=victim.name)
        except ApiCallError as problem:
            if problem.is_not_found:
                self._log_info(2, "Victim Pod is already deleted", preemption, victim=_ref(victim))
                return False
            self.log.error(failure, err=problem, **refs)
            raise
        self._log_info(2, "Preemptor Pod preempted victim Pod", preemption, victim=_ref(victim))
        return True

    def _disruption(self, preemption: _Preemption, victim: BoundPod) -> dict[str, Any]:
        """Return the status patch with the DisruptionTarget condition."""
        # Differs: upstream's patch contains the order of all conditions, so that the new one comes
        # last. We do not keep the conditions of bound pods, and their order has no meaning.
        name = preemption.preemptor.scheduler_name
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{name}: preempting to accommodate a higher priority pod",
        }
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        if not victim.disruption_target:  # Otherwise the condition keeps its time.
            condition["lastTransitionTime"] = time_text(self.clock.now_s())
        return {"status": {"conditions": [condition]}}

    def _log_info(self, level: int, text: str, preemption: _Preemption, **fields: object) -> None:
        refs = {"preemptor": _ref(preemption.preemptor), "node": preemption.node_name}
        self.log.info(text, level=level, **refs, **fields)


def _ref(pod: PodInfo | BoundPod) -> Ref:
    return Ref(pod.namespace, pod.name)
