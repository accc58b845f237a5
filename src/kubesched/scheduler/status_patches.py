"""Writing conditions and nominations of pods, beside scheduling.

Owns what a status patch says and the order of patches of one pod: one is under way, the newest
waits, what it replaces is never sent. A patch that fails is logged; the next attempt writes anew.
Upstream: pkg/scheduler/schedule_one.go updatePod, pkg/scheduler/util/utils.go PatchPodStatus
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.tasks import Tasks
from kubesched.model.pod_info import PodInfo
from kubesched.objects.meta import Condition
from kubesched.objects.times import time_text

POD_SCHEDULED: Final = "PodScheduled"


class StatusClient(Protocol):
    """What writes a status."""

    async def patch_pod_status(
        self, *, namespace: str, name: str, patch: dict[str, Any], uid: str = ""
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod was not bound, as its condition says it."""

    reason: str
    message: str


@dataclass(slots=True)
class _Waiting:
    pod: PodInfo
    patch: dict[str, Any]


class StatusPatches:
    """Sends status patches, one at a time per pod."""

    def __init__(self, client: StatusClient, tasks: Tasks, clock: Clock, log: Log) -> None:
        self._client = client
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._under_way: dict[str, _Waiting | None] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated: str | None) -> bool:
        """Have the pod's status say so, if it does not; return whether anything is written.

        Args:
            pod: as last seen.
            verdict: the condition PodScheduled=False; None leaves conditions alone.
            nominated: the node it is promised, empty to take that back, None to leave it.
        """
        self._say(pod, verdict, nominated)
        patch = self._patch_of(pod, verdict, nominated)
        if not patch:
            # What is still to be sent was decided on earlier, and is overtaken by this.
            if self._under_way.get(pod.uid) is not None:
                self._under_way[pod.uid] = None
            return False
        waiting = _Waiting(pod, {"status": patch})
        if pod.uid in self._under_way:
            self._under_way[pod.uid] = waiting
        else:
            self._under_way[pod.uid] = None
            self._tasks.start(self._send(waiting), name=f"status of {pod.key}")
        return True

    async def _send(self, waiting: _Waiting | None) -> None:
        uid = "" if waiting is None else waiting.pod.uid
        try:
            while waiting is not None:
                await self._send_one(waiting.pod, waiting.patch)
                waiting, self._under_way[uid] = self._under_way[uid], None
        finally:
            self._under_way.pop(uid, None)

    async def _send_one(self, pod: PodInfo, patch: dict[str, Any]) -> None:
        try:
            await self._client.patch_pod_status(
                namespace=pod.namespace, name=pod.name, patch=patch, uid=pod.uid
            )
        except NotFoundError as gone:
            self._log.info(
                "Error updating pod", level=3, pod=Ref(pod.namespace, pod.name), err=str(gone)
            )
        except (ApiError, TransportError) as problem:
            self._log.error("Error updating pod", err=problem, pod=Ref(pod.namespace, pod.name))

    def _say(self, pod: PodInfo, verdict: Verdict | None, nominated: str | None) -> None:
        if self._log.verbosity < 3:
            return
        fields: dict[str, object] = {"pod": Ref(pod.namespace, pod.name)}
        if verdict is not None:
            fields |= {
                "conditionType": POD_SCHEDULED,
                "conditionStatus": "False",
                "conditionReason": verdict.reason,
            }
        if nominated is not None:
            fields |= {"nominatedNodeName": nominated, "nominatingMode": 1}
        self._log.info("Updating pod condition and nominated node name", level=3, **fields)

    def _patch_of(
        self, pod: PodInfo, verdict: Verdict | None, nominated: str | None
    ) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        status = pod.status
        if verdict is not None:
            condition = self._condition(pod, verdict)
            if condition is not None:
                types = [one.type for one in status.conditions]
                if POD_SCHEDULED not in types:
                    types.append(POD_SCHEDULED)
                patch["$setElementOrder/conditions"] = [{"type": kind} for kind in types]
                patch["conditions"] = [condition]
        if nominated is not None and nominated != status.nominated_node_name:
            patch["nominatedNodeName"] = nominated or None
        return patch

    def _condition(self, pod: PodInfo, verdict: Verdict) -> dict[str, Any] | None:
        """Return the condition to write; None if it is there already."""
        # Parity: pkg/api/v1/pod/util.go UpdatePodCondition, v1.36.
        old = next((one for one in pod.status.conditions if one.type == POD_SCHEDULED), None)
        if old is not None and _is_said(old, pod, verdict):
            return None
        kept = old.last_transition_time if old is not None and old.status == "False" else None
        condition: dict[str, Any] = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": verdict.reason,
            "message": verdict.message,
            "lastProbeTime": None,
            "lastTransitionTime": kept or time_text(self._clock.now_s()),
        }
        if pod.generation:
            condition["observedGeneration"] = pod.generation
        return condition


def _is_said(old: Condition, pod: PodInfo, verdict: Verdict) -> bool:
    return (
        old.status == "False"
        and old.reason == verdict.reason
        and old.message == verdict.message
        and old.observed_generation == pod.generation
    )
