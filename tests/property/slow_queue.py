"""A plain model of the scheduling queue: every call looks at every pod.

Owns a reference implementation for the property tests: no heaps, no groups, no caches; the state is
one record per pod and one list of all events.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kubesched.snapshot.pod_info import PodInfo

INITIAL_S, MAX_S, LEFT_OVER_S = 1, 10, 300
SKIP, AFTER_BACKOFF, IMMEDIATELY = "skip", "after backoff", "immediately"


@dataclass
class Record:
    """The state of one pod."""

    pod: PodInfo
    timestamp_s: float
    part: str = ""
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rejected_by: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gate: str = ""
    flushed_s: float = -math.inf
    popped_at: int = -1
    """The number of events before it was popped."""

    @property
    def rejectors(self) -> frozenset[str]:
        return self.rejected_by | self.pending

    @property
    def expiry_s(self) -> float:
        count = self.errors or self.rejections
        if count == 0:
            return -math.inf
        return math.floor(self.timestamp_s + min(MAX_S, INITIAL_S * 2 ** (count - 1)))


@dataclass
class SlowQueue:
    """The queue as a list."""

    now_s: Callable[[], float]
    holds: Callable[[str, PodInfo], bool]
    """Whether a gate holds a pod back."""
    gates: tuple[str, ...]
    registered: Callable[[str, str], bool]
    """Whether a plugin registered for an event."""
    hint: Callable[[str, str, PodInfo, Any, Any], bool]
    """A plugin's hint for an event."""
    records: dict[str, Record] = field(default_factory=dict)
    occurrences: list[tuple[str, Any, Any]] = field(default_factory=list)

    # -- operations -------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        record = self.records[pod.name] = Record(pod, self.now_s())
        self._to_active(record)

    def update(self, old: PodInfo, new: PodInfo, events: list[str]) -> None:
        record = self.records.get(new.name)
        if record is None:
            self.add(new)
        elif record.part == "InFlight":
            self.occurrences += [(event, old, new) for event in events]
        else:
            record.pod = new
            if record.part in ("Unschedulable", "Gated"):
                for event in events:
                    self._requeue(record, self._verdict(record, event, old, new))
                    if record.part in ("Active", "Backoff"):
                        break

    def delete(self, name: str) -> None:
        record = self.records.get(name)
        if record is not None and record.part != "InFlight":
            del self.records[name]

    def pop(self) -> str | None:
        active = [r for r in self.records.values() if r.part == "Active"]
        early = [r for r in self.records.values() if r.part == "Backoff" and r.rejectors]
        if active:
            best = min(active, key=lambda r: (-r.pod.priority, r.timestamp_s))
        elif early:
            best = min(early, key=lambda r: (r.expiry_s, -r.pod.priority, r.timestamp_s))
        else:
            return None
        best.part, best.popped_at = "InFlight", len(self.occurrences)
        best.attempts += 1
        return best.pod.name

    def fail(self, pod: PodInfo, plugins: frozenset[str], pending: frozenset[str]) -> None:
        record = self.records[pod.name]
        record.pod, record.rejected_by, record.pending, record.gate = pod, plugins, pending, ""
        if record.rejectors:
            record.rejections, record.errors = record.rejections + 1, 0
        else:
            record.errors += 1
        record.timestamp_s, record.flushed_s = self.now_s(), -math.inf
        answers = [
            self._verdict(record, *occurrence)
            for occurrence in self.occurrences[record.popped_at :]
        ]
        if not record.rejectors:
            answers = [AFTER_BACKOFF]
        self._requeue(record, _best(answers))

    def done(self, name: str) -> None:
        del self.records[name]

    def happen(self, event: str, old: Any, new: Any, check: Callable[[PodInfo], bool]) -> None:
        for record in list(self.records.values()):
            if record.part == "Gated" and not self.registered(record.gate, event):
                continue
            if record.part in ("Unschedulable", "Gated") and check(record.pod):
                answer = self._verdict(record, event, old, new)
                if answer != SKIP:
                    self._requeue(record, answer)
        self.occurrences.append((event, old, new))

    def activate(self, pod: PodInfo) -> None:
        record = self.records.get(pod.name)
        if record is None:
            return
        if record.part in ("Unschedulable", "Gated"):
            self._to_active(record)
        elif record.part == "Backoff":
            record.part = "Active"
        elif record.part == "InFlight":
            self.occurrences.append(("*", None, pod))

    def flush(self) -> None:
        now_s = self.now_s()
        for record in self.records.values():
            if record.part == "Backoff" and record.expiry_s < math.floor(now_s):
                record.part = "Active"

    def flush_left_over(self) -> None:
        now_s = self.now_s()
        is_any = False
        for record in self.records.values():
            waits_since_s = max(record.timestamp_s, record.flushed_s)
            waits = record.part in ("Unschedulable", "Gated")
            if waits and now_s - waits_since_s > LEFT_OVER_S:
                record.flushed_s, is_any = now_s, True
                self._requeue(record, AFTER_BACKOFF)
        if is_any:
            self.occurrences.append(("*", None, None))

    # -- rules ------------------------------------------------------------------------------------

    def _verdict(self, record: Record, event: str, old: Any, new: Any) -> str:
        if not record.rejectors:
            return AFTER_BACKOFF
        if event == "*":
            return AFTER_BACKOFF if new is None or new.uid == record.pod.uid else SKIP
        helped = [
            plugin
            for plugin in record.rejectors
            if self.registered(plugin, event) and self.hint(plugin, event, record.pod, old, new)
        ]
        return _best([IMMEDIATELY if p in record.pending else AFTER_BACKOFF for p in helped])

    def _requeue(self, record: Record, answer: str) -> None:
        if answer == SKIP:
            record.part = "Gated" if record.gate else "Unschedulable"
        elif answer == AFTER_BACKOFF and record.expiry_s >= math.floor(self.now_s()):
            record.part = "Backoff" if self._passes(record) else "Gated"
        else:
            self._to_active(record)

    def _to_active(self, record: Record) -> None:
        record.part = "Active" if self._passes(record) else "Gated"

    def _passes(self, record: Record) -> bool:
        order = sorted(self.gates, key=lambda gate: gate != record.gate)
        holding = next((gate for gate in order if self.holds(gate, record.pod)), "")
        record.gate = holding
        if holding:
            record.rejected_by |= {holding}
        return not holding


def _best(answers: list[str]) -> str:
    return max(answers, default=SKIP, key=(SKIP, AFTER_BACKOFF, IMMEDIATELY).index)
