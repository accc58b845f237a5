"""Runs a sequence on both sides, step by step.

Owns the order of a run: empty, apply, wait, compare; and the number of repeated runs of a sequence
that differs. Never knows what a step does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, TypeAlias, TypeVar

from conformance.side_by_side.compare import (
    Difference,
    Rest,
    event_differences,
    is_race,
    is_tie,
    is_transient,
    rest_differences,
    settled_notes,
)
from conformance.side_by_side.scores import best_nodes
from conformance.side_by_side.side import Side
from conformance.side_by_side.state import Events
from conformance.side_by_side.steps import Obj, Sequence, Step

T = TypeVar("T")
Status: TypeAlias = Literal["equal", "tied", "raced", "unsteady", "sometimes", "different", "error"]
"""The result of a sequence.

- tied: stopped at a pod with several best nodes, placed on a different one of them
- raced: stopped at pending pods that took each other's place
- unsteady: stopped at a result that a repeated run of the reference also had
- sometimes: stopped at a difference that a second run of both sides did not show
"""

# Longer than the longest backoff: after it the sides do not change.
_LATE_S_MAX = 13.0
_LATE_S_MIN = 1.0
_REPEAT_S_MAX = 3.0
_TIED_RUNS_MAX = 3
_REFERENCE_RUNS = 4
_EVENTS = "events"


@dataclass(slots=True)
class Record:
    """The result of one run of a sequence on both sides."""

    rests: list[Rest] = field(default_factory=list)
    """The reference's states, step by step."""
    events: Events = field(default_factory=Events)
    differences: list[Difference] = field(default_factory=list)
    stopped_at: str = ""
    """The step after which the sides differed."""
    late: dict[str, float] = field(default_factory=dict)
    """The delay of one side's idle state in seconds, if more than one."""
    is_tied: bool = False
    transient: int = 0
    """Events of attempts that only one side made, with the same result."""


@dataclass(slots=True)
class Outcome:
    """The verdict on one sequence."""

    sequence: Sequence
    status: Status
    seconds: float
    compared: int
    """The number of steps after which both sides were equal."""
    events: int
    late: dict[str, float]
    transient: int = 0
    stopped_at: str = ""
    differences: list[Difference] = field(default_factory=list)
    error: str = ""

    def document(self) -> Obj:
        """Return the verdict as a line of the report."""
        document: Obj = {
            "sequence": self.sequence.name,
            "family": self.sequence.family,
            "seed": self.sequence.seed,
            "status": self.status,
            "seconds": round(self.seconds, 2),
            "steps": len(self.sequence.steps),
            "compared": self.compared,
            "events": self.events,
            "transientEvents": self.transient,
        }
        if self.late:
            document["late"] = {step: round(late_s, 1) for step, late_s in self.late.items()}
        if self.stopped_at:
            document["stoppedAt"] = self.stopped_at
            document["differences"] = [one._asdict() for one in self.differences]
        if self.error:
            document["error"] = self.error
        return document


class Pair:
    """The reference and the scheduler under test."""

    def __init__(self, reference: Side, tested: Side) -> None:
        self.reference = reference
        self.tested = tested
        self._threads = ThreadPoolExecutor(2)

    def start(self) -> None:
        """Start or restart both schedulers."""
        self._both(lambda side: side.start_scheduler())

    def run(self, sequence: Sequence) -> Outcome:
        """Run a sequence; repeat it after random choices or if the reference is unstable."""
        start = perf_counter()
        record = Record()
        try:
            for _ in range(_TIED_RUNS_MAX):
                record = self._run_once(sequence)
                if not record.is_tied:
                    break
            status = self._status_of(sequence, record)
            error = ""
        except (RuntimeError, OSError, AssertionError) as failed:
            status, error = "error", f"{type(failed).__name__}: {failed}"
        if status in {"sometimes", "different", "error"}:
            # A failure must not affect the next sequence.
            self.start()
        return Outcome(
            sequence=sequence,
            status=status,
            seconds=perf_counter() - start,
            compared=len(record.rests) - (record.stopped_at not in {"", _EVENTS}),
            events=len(record.events.written),
            late=record.late,
            transient=record.transient,
            stopped_at=record.stopped_at,
            differences=record.differences,
            error=error,
        )

    def _status_of(self, sequence: Sequence, record: Record) -> Status:
        if not record.differences:
            return "equal"
        if record.is_tied:
            return "tied"
        before = record.rests[-2].state if len(record.rests) > 1 else {}
        if record.stopped_at != _EVENTS and is_race(record.differences, before):
            return "raced"
        if self._is_reference_unsteady(sequence, record):
            return "unsteady"
        return "different" if self._run_once(sequence).differences else "sometimes"

    def _run_once(self, sequence: Sequence) -> Record:
        record = Record()
        self._both(lambda side: side.empty())
        log_position = self.reference.log_size()
        for number, step in enumerate(sequence.steps, start=1):
            title = f"step {number}: {step}"
            codes = self._both(lambda side, step=step: side.apply(step))  # type: ignore[misc]
            pair, late_s = self._rest_until_equal(codes, log_position)
            record.rests.append(pair[0])
            record.differences = rest_differences(*pair)
            if record.differences:
                record.stopped_at = title
                record.is_tied = self._is_tied(record.differences, log_position)
                return record
            if late_s > _LATE_S_MIN:
                record.late[title] = late_s
        return self._with_events(record)

    def _is_tied(self, differences: list[Difference], log_position: int) -> bool:
        is_placement = any(one.field == "nodeName" for one in differences)
        return is_placement and is_tie(
            differences, best_nodes(self.reference.log_since(log_position))
        )

    def _rest_until_equal(
        self, codes: tuple[list[int], list[int]], log_position: int
    ) -> tuple[tuple[Rest, Rest], float]:
        """Wait until both sides are idle and equal, or until the timeout.

        A side with a pod in backoff looks idle; the other side may already have retried it.
        """

        def at_rest(side: Side, codes: list[int]) -> Rest:
            unsettled = side.rest()
            return Rest(side.state(), tuple(codes), unsettled)

        start = 0.0
        while True:
            ours = self._threads.submit(at_rest, self.tested, codes[1])
            pair = (at_rest(self.reference, codes[0]), ours.result())
            start = start or perf_counter()
            late_s = perf_counter() - start
            differences = rest_differences(*pair)
            is_over = late_s > _LATE_S_MAX or pair[0].codes != pair[1].codes
            if not differences or is_over or self._is_tied(differences, log_position):
                return pair, late_s
            self._both(lambda side: side.wait_change(0.1))

    def _with_events(self, record: Record) -> Record:
        start = perf_counter()
        settled = settled_notes(rest.state for rest in record.rests)
        while True:
            record.events, ours = self._both(lambda side: side.events())
            differences = event_differences(record.events, ours)
            record.differences = [
                one for one in differences if not is_transient(one, settled, record.events, ours)
            ]
            record.transient = len(differences) - len(record.differences)
            if not record.differences or perf_counter() - start > _LATE_S_MAX:
                break
            self._both(lambda side: side.wait_change(0.1))
        if record.differences:
            record.stopped_at = _EVENTS
        return record

    def _is_reference_unsteady(self, sequence: Sequence, record: Record) -> bool:
        """Return whether repeated runs of the reference have the tested side's result."""
        unseen = set(record.differences)
        for _ in range(_REFERENCE_RUNS):
            unseen -= self._seen_again(sequence, record)
            if not unseen:
                return True
        return False

    def _seen_again(self, sequence: Sequence, record: Record) -> set[Difference]:
        """Run the reference alone; return the differences whose tested value it now has."""
        side = self.reference
        side.empty()
        last = Rest({})
        for step, expected in zip(sequence.steps, record.rests, strict=False):
            last = _rest_like(side, step, expected)
        if record.stopped_at != _EVENTS:
            return {one for one in record.differences if one.is_tested_value_in(last.state)}
        _wait_until(lambda: side.events() == record.events, side, _REPEAT_S_MAX)
        events = side.events()
        return {one for one in record.differences if one.is_tested_event_in(events)}

    def _both(self, act: Callable[[Side], T]) -> tuple[T, T]:
        ours = self._threads.submit(act, self.tested)
        theirs = act(self.reference)
        return theirs, ours.result()


def _rest_like(side: Side, step: Step, expected: Rest) -> Rest:
    """Apply a step; return the state once it is as expected, or after the timeout."""
    codes = tuple(side.apply(step))
    last = Rest({})

    def is_equal() -> bool:
        nonlocal last
        last = Rest(unsettled=side.rest(), state=side.state(), codes=codes)
        return not rest_differences(expected, last)

    _wait_until(is_equal, side, _REPEAT_S_MAX)
    return last


def _wait_until(condition: Callable[[], bool], side: Side, timeout_s: float) -> bool:
    start = perf_counter()
    while not condition():
        if perf_counter() - start > timeout_s:
            return False
        side.wait_change(0.1)
    return True
