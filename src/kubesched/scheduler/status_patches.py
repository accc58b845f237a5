"""Status patches of pods: the PodScheduled condition and nominatedNodeName.

Owns the content of a patch and the order of the patches of one pod: one is sent at a time, later
ones are merged while they wait, and none follows a binding. A failed patch is logged; the next
attempt writes the status again.
Upstream: pkg/scheduler/schedule_one.go updatePod, pkg/scheduler/util/utils.go PatchPodStatus
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.times import time_text
from kubesched.client.errors import NotFoundError
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.tasks import Tasks
from kubesched.snapshot.pod_info import PodInfo

POD_SCHEDULED: Final = "PodScheduled"
SENDING_MAX: Final = 32
"""Patches that are sent at once. The others wait here, so that a binding overtakes the patches of
other pods."""


@dataclass(frozen=True, slots=True)
class UnschedulableCondition:
    """Reason and message of the condition PodScheduled=False."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _StatusUpdate:
    """The desired status of a pod."""

    pod: PodInfo
    unschedulable: UnschedulableCondition | None
    nominated: str | None
    is_known: bool
    """Whether `pod.status` includes all our earlier patches."""

    def after(self, earlier: _StatusUpdate | None) -> _StatusUpdate:
        """Return the merge with an earlier update, whose fields fill in those that are None."""
        if earlier is None:
            return self
        return _StatusUpdate(
            self.pod,
            earlier.unschedulable if self.unschedulable is None else self.unschedulable,
            earlier.nominated if self.nominated is None else self.nominated,
            self.is_known and earlier.is_known,
        )


class StatusPatches:
    """Sends status patches, one at a time per pod."""

    def __init__(self, client: Client, tasks: Tasks, clock: Clock, log: Log) -> None:
        self._client = client
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._waiting: dict[str, _StatusUpdate] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._expecting: set[str] = set()
        """Pods that were nominated to the node they are being bound to."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sending)

    def write(
        self, pod: PodInfo, unschedulable: UnschedulableCondition | None, nominated: str | None
    ) -> bool:
        """Update the pod's status if it differs; return whether a patch is sent.

        Args:
            pod: The pod as last watched.
            unschedulable: The condition PodScheduled=False; None leaves conditions alone.
            nominated: The nominated node; empty clears it, None leaves it alone.
        """
        self._log_update(pod, unschedulable, nominated)
        uid = pod.uid
        is_known = uid not in self._sending and (nominated is None or uid not in self._expecting)
        update = _StatusUpdate(pod, unschedulable, nominated, is_known).after(
            self._waiting.get(uid)
        )
        if nominated is not None:
            self._expecting.discard(uid)
        if not self._patch_of(update):
            self._waiting.pop(uid, None)
            return False
        self._waiting[uid] = update
        self._send_more()
        return True

    def expect(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to the node that it is being bound to."""
        if self.write(pod, None, node_name):
            self._expecting.add(pod.uid)

    async def settle(self, uid: str) -> None:
        """Drop the waiting patch of a pod, and wait for the one being sent.

        The API server sets condition and nomination when a pod is bound; no earlier decision may
        overwrite them.
        """
        self._waiting.pop(uid, None)
        sending = self._sending.get(uid)
        if sending is not None:
            await asyncio.wait({sending})

    def bound(self, uid: str) -> None:
        """Record that a pod is bound, which clears its nomination."""
        self._expecting.discard(uid)

    def _send_more(self) -> None:
        while len(self._sending) < SENDING_MAX:
            uid = next((uid for uid in self._waiting if uid not in self._sending), None)
            if uid is None:
                return
            update = self._waiting.pop(uid)
            name = f"status of {update.pod.key}"
            self._sending[uid] = self._tasks.start(self._send(update), name=name)

    async def _send(self, update: _StatusUpdate) -> None:
        pod = update.pod
        ref = Ref(pod.namespace, pod.name)
        try:
            await self._client.patch_pod_status(
                namespace=pod.namespace,
                name=pod.name,
                patch={"status": self._patch_of(update)},
                uid=pod.uid,
            )
        except NotFoundError as gone:
            self._log.info("Error updating pod", level=3, pod=ref, err=str(gone))
        except Exception as problem:  # noqa: BLE001 - also a message that cannot be encoded
            self._log.error("Error updating pod", err=problem, pod=ref)
        finally:
            del self._sending[pod.uid]
        self._send_more()

    def _log_update(
        self, pod: PodInfo, unschedulable: UnschedulableCondition | None, nominated: str | None
    ) -> None:
        if self._log.verbosity < 3:
            return
        fields: dict[str, object] = {"pod": Ref(pod.namespace, pod.name)}
        if unschedulable is not None:
            fields |= {
                "conditionType": POD_SCHEDULED,
                "conditionStatus": "False",
                "conditionReason": unschedulable.reason,
            }
        if nominated is not None:
            fields |= {"nominatedNodeName": nominated, "nominatingMode": 1}
        self._log.info("Updating pod condition and nominated node name", level=3, **fields)

    def _patch_of(self, update: _StatusUpdate) -> dict[str, Any]:
        """Return the fields of the status to patch; empty if the status is right."""
        patch: dict[str, Any] = {}
        status, nominated = update.pod.status, update.nominated
        if update.unschedulable is not None:
            new = self._condition(update.pod, update.unschedulable, is_known=update.is_known)
            if new is not None:
                types = [condition.type for condition in status.conditions]
                if POD_SCHEDULED not in types:
                    types.append(POD_SCHEDULED)
                patch["$setElementOrder/conditions"] = [{"type": kind} for kind in types]
                patch["conditions"] = [new]
        if nominated is not None and (
            nominated != status.nominated_node_name or not update.is_known
        ):
            patch["nominatedNodeName"] = nominated or None
        return patch

    def _condition(
        self, pod: PodInfo, unschedulable: UnschedulableCondition, *, is_known: bool
    ) -> dict[str, Any] | None:
        """Return the condition to write; None if the pod has it already."""
        # Parity: pkg/api/v1/pod/util.go UpdatePodCondition, v1.36: a new generation alone is no
        # reason to write.
        old = next((c for c in pod.status.conditions if c.type == POD_SCHEDULED), None)
        if is_known and old is not None and old.last_probe_time is None:
            written = (old.status, old.reason, old.message)
            if written == ("False", unschedulable.reason, unschedulable.message):
                return None
        kept = old.last_transition_time if old is not None and old.status == "False" else None
        condition: dict[str, Any] = {
            "type": POD_SCHEDULED,
            "status": "False",
            "reason": unschedulable.reason,
            "message": unschedulable.message,
            "lastProbeTime": None,
            "lastTransitionTime": kept or time_text(self._clock.now_s()),
        }
        if pod.generation:
            condition["observedGeneration"] = pod.generation
        return condition
