"""The parts in which pods wait, and what it takes to get from one to another.

Owns that a pod is in one of them at most, and that whoever is to be tried passes the gate. Never
decides when a pod moves.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (moveToActiveQ, moveToBackoffQ)
"""

from __future__ import annotations

from typing import Final

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.cluster_event import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.active_queue import ACTIVE, ActiveQueue
from kubesched.queue.backoff_queue import BACKOFF, BackoffQueue
from kubesched.queue.hints import Strategy
from kubesched.queue.interface import QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.recorder import Recorder
from kubesched.queue.rules import RULES_CHANGED, QueueRules
from kubesched.queue.unschedulable_pods import UNSCHEDULABLE, UnschedulablePods

GATED: Final = "Gated"
_NOMINATING_EVENTS: Final = frozenset((UNSCHEDULED_POD_ADD.label, UNSCHEDULED_POD_UPDATE.label))


class Parts:
    """Active, backing off, and unschedulable or gated pods."""

    def __init__(
        self,
        rules: QueueRules,
        settings: QueueSettings,
        *,
        nominator: Nominator,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> None:
        self.active = ActiveQueue(rules.order, recorder, log)
        self.backoff = BackoffQueue(rules.order, settings, clock=clock, recorder=recorder, log=log)
        self.unschedulable = UnschedulablePods(recorder)
        self._settings = settings
        self._gate = rules.gate
        self._nominator = nominator
        self._clock = clock
        self._recorder = recorder
        self._log = log

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return a waiting pod."""
        return self.backoff.get(key) or self.unschedulable.get(key) or self.active.get(key)

    def where(self, key: str) -> str | None:
        """Return the part a pod is in, gated pods apart; None if it is in none."""
        if key in self.active:
            return ACTIVE
        if key in self.backoff:
            return BACKOFF
        queued = self.unschedulable.get(key)
        if queued is None:
            return None
        return GATED if queued.is_gated else UNSCHEDULABLE

    def pods(self) -> dict[str, list[PodInfo]]:
        """Return the waiting pods by part."""
        return {
            ACTIVE: [queued.pod for queued in self.active.heap],
            BACKOFF: [queued.pod for queued in self.backoff],
            UNSCHEDULABLE: [queued.pod for queued in self.unschedulable],
        }

    @property
    def summary(self) -> str:
        """Return how many pods wait where, in upstream's words."""
        return (
            f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; "
            f"unschedulablePods:{len(self.unschedulable)}"
        )

    # -- moving -----------------------------------------------------------------------------------

    def requeue(self, queued: QueuedPodInfo, strategy: Strategy, event: str) -> str:
        """Put a pod where the strategy has it; return the part it came to."""
        # Parity: scheduling_queue.go requeuePodWithQueueingStrategy, v1.36.
        if strategy is Strategy.SKIP:
            self.unschedulable.add_or_update(queued, event, gated_before=queued.is_gated)
            return UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_pod_backing_off(queued):
            return BACKOFF if self._move_to_backoff(queued, event) else UNSCHEDULABLE
        return ACTIVE if self.move_to_active(queued, event) else UNSCHEDULABLE

    def move_to_active(
        self, queued: QueuedPodInfo, event: str, *, from_backoff: bool = False
    ) -> bool:
        """Have a pod tried, unless it is gated; return whether it will be."""
        # Parity: scheduling_queue.go moveToActiveQ, v1.36.
        gated_before = queued.is_gated
        if not (from_backoff and self._settings.pop_from_backoff_queue):
            self._gate.run(queued)
        if queued.is_gated:
            if queued.key not in self.active and queued.key not in self.backoff:
                message = "Pod moved to an internal scheduling queue, because the pod is gated"
                self._hold_back(queued, event, message, gated_before)
            return False
        if queued.initial_attempt_timestamp_s is None:
            queued.initial_attempt_timestamp_s = self._clock.now_s()
        self.unschedulable.remove(queued.key, gated=gated_before)
        self.backoff.remove(queued.key)
        self.active.add(queued, event)
        if event in _NOMINATING_EVENTS:
            self._nominator.add_nominated_pod(queued.pod)
        return True

    def _move_to_backoff(self, queued: QueuedPodInfo, event: str) -> bool:
        # Parity: scheduling_queue.go moveToBackoffQ, v1.36.
        gated_before = queued.is_gated
        if self._settings.pop_from_backoff_queue:
            self._gate.run(queued)
            if queued.is_gated:
                message = "Pod moved to an internal scheduling queue"
                self._hold_back(queued, event, message, gated_before)
                return False
        self.unschedulable.remove(queued.key, gated=gated_before)
        self.backoff.add(queued, event)
        return True

    def _hold_back(
        self, queued: QueuedPodInfo, event: str, message: str, gated_before: bool
    ) -> None:
        if queued.key not in self.unschedulable and self._log.enabled(5):
            self._log.info(
                message,
                level=5,
                pod=Ref(queued.pod.namespace, queued.pod.name),
                event=event,
                queue=UNSCHEDULABLE,
            )
        # A flushed pod that is gated is not tried, so nobody else would clear this.
        queued.was_flushed_from_unschedulable = False
        self.unschedulable.add_or_update(queued, event, gated_before=gated_before)

    # -- other rules ------------------------------------------------------------------------------

    def swap(self, rules: QueueRules) -> None:
        """Go by other rules: whoever waits to be tried passes the new gate, refused pods return."""
        self._gate = rules.gate
        self.active.reorder(rules.order)
        self.backoff.reorder(rules.order)
        # All are taken out before the first returns: what ends a gate is known by group.
        refused = list(self.unschedulable)
        for queued in refused:
            self.unschedulable.remove(queued.key, gated=queued.is_gated)
        for queued in list(self.active.heap):
            self._pass_gate_again(queued, self.active)
        if self._settings.pop_from_backoff_queue:  # Otherwise the gate is at the way out.
            for queued in list(self.backoff):
                self._pass_gate_again(queued, self.backoff)
        for queued in refused:
            self.requeue(queued, Strategy.AFTER_BACKOFF, RULES_CHANGED)

    def _pass_gate_again(self, queued: QueuedPodInfo, part: ActiveQueue | BackoffQueue) -> None:
        self._gate.run(queued)
        if queued.is_gated:
            part.remove(queued.key)
            message = "Pod moved to an internal scheduling queue, because the pod is gated"
            self._hold_back(queued, RULES_CHANGED, message, gated_before=False)

    def is_poppable(self, part: str) -> bool:
        """Return whether `pop` may give a pod of a part."""
        return part == ACTIVE or (part == BACKOFF and self._settings.pop_from_backoff_queue)

    def count_rejectors(self, queued: QueuedPodInfo, sign: int) -> None:
        """Count a pod as refused by its plugins, or with -1 no longer."""
        if queued.has_rejectors:
            profile = queued.pod.scheduler_name
            for plugin in sorted(queued.rejector_plugins):
                self._recorder.rejected_by[plugin, profile].inc(sign)
