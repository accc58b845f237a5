"""Writing conditions and nominations of pods, beside scheduling.

Owns what a status patch says and the order of patches of one pod: one is under way, what came after
it waits as one, and nothing follows a binding. A patch that fails is logged; the next attempt
writes anew.
Upstream: pkg/scheduler/schedule_one.go updatePod, pkg/scheduler/util/utils.go PatchPodStatus
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kubesched.client.errors import NotFoundError
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.tasks import Tasks
from kubesched.model.pod_info import PodInfo
from kubesched.objects.meta import Condition
from kubesched.objects.times import time_text

POD_SCHEDULED: Final = "PodScheduled"
SENDING_MAX: Final = 32
"""How many patches are with the client at once. What waits here can still be overtaken, so that a
binding never waits for the patches of other pods."""


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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a pod's status is to say."""

    pod: PodInfo
    verdict: Verdict | None
    nominated: str | None
    is_known: bool
    """Whether the pod as last seen is what the API server has, as far as we changed it."""

    def after(self, earlier: _Wanted | None) -> _Wanted:
        """Return both in one: what this one leaves alone stays as it was wanted before."""
        if earlier is None:
            return self
        return _Wanted(
            self.pod,
            earlier.verdict if self.verdict is None else self.verdict,
            earlier.nominated if self.nominated is None else self.nominated,
            self.is_known and earlier.is_known,
        )


class StatusPatches:
    """Sends status patches, one at a time per pod."""

    def __init__(self, client: StatusClient, tasks: Tasks, clock: Clock, log: Log) -> None:
        self._client = client
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._waiting: dict[str, _Wanted] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._expecting: set[str] = set()
        """Pods whose status was made to name a node while they are being bound."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sending)

    def write(self, pod: PodInfo, verdict: Verdict | None, nominated: str | None) -> bool:
        """Have the pod's status say so, if it does not; return whether anything is written.

        Args:
            pod: as last seen.
            verdict: the condition PodScheduled=False; None leaves conditions alone.
            nominated: the node it is promised, empty to take that back, None to leave it.
        """
        self._say(pod, verdict, nominated)
        uid = pod.uid
        is_known = uid not in self._sending and (nominated is None or uid not in self._expecting)
        wanted = _Wanted(pod, verdict, nominated, is_known).after(self._waiting.get(uid))
        if nominated is not None:
            self._expecting.discard(uid)
        if not self._patch_of(wanted):
            self._waiting.pop(uid, None)
            return False
        self._waiting[uid] = wanted
        self._send_more()
        return True

    def expect(self, pod: PodInfo, node_name: str) -> None:
        """Have the pod's status name the node it is being bound to."""
        if self.write(pod, None, node_name):
            self._expecting.add(pod.uid)

    async def settle(self, uid: str) -> None:
        """Have nothing more written about a pod: what waits is dropped, the rest waited for.

        The API server sets condition and nomination when a pod is bound; nothing that was decided
        before may come after that.
        """
        self._waiting.pop(uid, None)
        sending = self._sending.get(uid)
        if sending is not None:
            await asyncio.wait({sending})

    def bound(self, uid: str) -> None:
        """Take note that a pod is bound: there is no nomination any more."""
        self._expecting.discard(uid)

    def _send_more(self) -> None:
        while len(self._sending) < SENDING_MAX:
            uid = next((one for one in self._waiting if one not in self._sending), None)
            if uid is None:
                return
            wanted = self._waiting.pop(uid)
            name = f"status of {wanted.pod.key}"
            self._sending[uid] = self._tasks.start(self._send(wanted), name=name)

    async def _send(self, wanted: _Wanted) -> None:
        pod = wanted.pod
        ref = Ref(pod.namespace, pod.name)
        try:
            await self._client.patch_pod_status(
                namespace=pod.namespace,
                name=pod.name,
                patch={"status": self._patch_of(wanted)},
                uid=pod.uid,
            )
        except NotFoundError as gone:
            self._log.info("Error updating pod", level=3, pod=ref, err=str(gone))
        except Exception as problem:  # noqa: BLE001 - also a text that no request can carry
            self._log.error("Error updating pod", err=problem, pod=ref)
        finally:
            del self._sending[pod.uid]
        self._send_more()

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

    def _patch_of(self, wanted: _Wanted) -> dict[str, Any]:
        """Return what has to change; nothing if the pod's status says it all."""
        patch: dict[str, Any] = {}
        status, verdict, nominated = wanted.pod.status, wanted.verdict, wanted.nominated
        if verdict is not None:
            condition = self._condition(wanted.pod, verdict, is_known=wanted.is_known)
            if condition is not None:
                types = [one.type for one in status.conditions]
                if POD_SCHEDULED not in types:
                    types.append(POD_SCHEDULED)
                patch["$setElementOrder/conditions"] = [{"type": kind} for kind in types]
                patch["conditions"] = [condition]
        if nominated is not None and (
            nominated != status.nominated_node_name or not wanted.is_known
        ):
            patch["nominatedNodeName"] = nominated or None
        return patch

    def _condition(
        self, pod: PodInfo, verdict: Verdict, *, is_known: bool
    ) -> dict[str, Any] | None:
        """Return the condition to write; None if it is there already."""
        # Parity: pkg/api/v1/pod/util.go UpdatePodCondition, v1.36: a generation that moved on is
        # no reason to write.
        old = next((one for one in pod.status.conditions if one.type == POD_SCHEDULED), None)
        if is_known and old is not None and _is_said(old, verdict):
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


def _is_said(old: Condition, verdict: Verdict) -> bool:
    return (
        old.status == "False"
        and old.reason == verdict.reason
        and old.message == verdict.message
        and old.last_probe_time is None
    )
