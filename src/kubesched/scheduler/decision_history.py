"""The decision history: the last decision on each pod, in bounded memory.

Keeps up to 20,000 pods without a node, dropping the least recently tried, and the last 2,000 bound
pods for an hour. A decision is recorded as numbers before the cache changes; its texts are built
when a report is requested. Never decides, and never calls the API server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.explanation.report import NotPlacedSummary, Rejected, Summary
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.kit.clock import Clock
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

PENDING_MAX: Final = 20_000
BOUND_MAX: Final = 2_000
BOUND_S_MAX: Final = 3600.0
TOP: Final = 5
"""Number of best nodes kept of a decision."""
EXAMPLES: Final = 3
"""Number of nodes of each group kept by name."""
_NOBODY: Final = Rejected(0, ())


class RecordedEvent(NamedTuple):
    """An event about a pod."""

    kind: str
    reason: str
    note: str
    at_s: float


class PodRecord:
    """The history of one pod."""

    __slots__ = ("attempts", "bound_s", "decided_s", "last_event", "summary", "uid", "victims")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.attempts = 0
        self.summary: Summary | None = None
        """Summary of the last decision."""
        self.decided_s = 0.0
        self.victims: tuple[str, ...] = ()
        """The uids of the victims of that decision."""
        self.last_event: RecordedEvent | None = None
        """The last event about the pod."""
        self.bound_s: float | None = None


class DecisionHistory:
    """Pod records by `namespace/name`."""

    def __init__(
        self, clock: Clock, *, pending_max: int = PENDING_MAX, bound_max: int = BOUND_MAX
    ) -> None:
        self._clock = clock
        self._pending_max = pending_max
        self._bound_max = bound_max
        # Both ordered by last use, the oldest first.
        self._pending: dict[str, PodRecord] = {}
        self._bound: dict[str, PodRecord] = {}
        self._last_rejected = _NOBODY
        self._unchecked: list[str] = []
        """Keys of records that `forget` has not checked yet."""

    def __len__(self) -> int:
        return len(self._pending) + len(self._bound)

    def get(self, key: str) -> PodRecord | None:
        """Return the record of the pod that last had this name."""
        return self._pending.get(key) or self._bound.get(key)

    # -- recording --------------------------------------------------------------------------------

    def record_decision(self, queued: QueuedPodInfo, attempt: AttemptRecord) -> None:
        """Record a decision; must be called before the cache changes."""
        summary = attempt.summary(top=TOP, examples=EXAMPLES)
        if isinstance(summary, NotPlacedSummary):
            summary = self._compact(summary)
        record = self._record_of(queued.key, attempt.pod.uid)
        record.attempts = queued.attempts
        record.summary = summary
        record.decided_s = self._clock.now_s()
        victims = None if attempt.plan is None else attempt.plan.victims
        record.victims = () if victims is None else tuple(victim.uid for victim in victims.pods)
        record.bound_s = None

    def record_event(
        self, regarding: PodInfo | BoundPod, kind: str, reason: str, note: str
    ) -> None:
        """Record an event about a pod that has a record, or that has just failed."""
        key, now_s = regarding.key, self._clock.now_s()
        if reason == "Scheduled":
            self._bind(key, regarding.uid, now_s)
            return
        record = self.get(key)
        if record is None or record.uid != regarding.uid:
            if reason != "FailedScheduling":
                return
            record = self._record_of(key, regarding.uid)
        # Most often the decision has the same text.
        record.last_event = RecordedEvent(kind, reason, sys.intern(note), now_s)

    def _record_of(self, key: str, uid: str) -> PodRecord:
        """Return the record of a pod without a node, as the most recently used."""
        record = self._pop(key, uid)
        self._pending[key] = record
        if len(self._pending) > self._pending_max:
            del self._pending[next(iter(self._pending))]
        return record

    def _pop(self, key: str, uid: str) -> PodRecord:
        record = self._pending.pop(key, None) or self._bound.pop(key, None)
        return record if record is not None and record.uid == uid else PodRecord(uid)

    def _bind(self, key: str, uid: str, now_s: float) -> None:
        record = self._pop(key, uid)
        record.bound_s, record.last_event = now_s, None
        self._bound[key] = record
        if len(self._bound) > self._bound_max:
            del self._bound[next(iter(self._bound))]

    def _compact(self, summary: NotPlacedSummary) -> NotPlacedSummary:
        """Return a summary that shares equal values with those of other pods."""
        if summary.rejected != self._last_rejected:
            self._last_rejected = summary.rejected
        message = sys.intern(summary.message)
        return summary._replace(rejected=self._last_rejected, message=message)

    # -- forgetting -------------------------------------------------------------------------------

    def forget(self, is_there: Callable[[str, str], bool], count: int) -> int:
        """Check some records; drop those of pods that are deleted or were bound long ago.

        Every call checks the next records, until all were checked.

        Args:
            is_there: Returns whether a pod exists, by `namespace/name` and uid.
            count: Number of records to check.

        Returns:
            The number of dropped records.
        """
        if not self._unchecked:
            self._unchecked = [*self._pending, *self._bound]
        before, long_ago_s = len(self), self._clock.now_s() - BOUND_S_MAX
        keys, self._unchecked = self._unchecked[-count:], self._unchecked[:-count]
        for key in keys:
            record = self.get(key)
            if record is None:
                continue
            is_recent = record.bound_s is None or record.bound_s > long_ago_s
            if not is_recent or not is_there(key, record.uid):
                self._pending.pop(key, None)
                self._bound.pop(key, None)
        return before - len(self)


class HistoryRecorder:
    """Forwards events to another recorder, and adds them to the history."""

    def __init__(self, recorder: Any, history: DecisionHistory) -> None:
        self._forward = recorder.event
        self._record_event = history.record_event

    def event(self, regarding: Any, *, kind: str, reason: str, note: str, **fields: Any) -> None:
        """Record an event; the arguments are those of the other recorder."""
        self._forward(regarding, kind=kind, reason=reason, note=note, **fields)
        if isinstance(regarding, PodInfo | BoundPod):
            self._record_event(regarding, kind, reason, note)
