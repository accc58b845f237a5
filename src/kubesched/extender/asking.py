"""Asks extenders on behalf of an attempt, and reads their answers as upstream does.

Owns who is asked in which order about which nodes, what an answer means for the attempt, and what
is logged about it. While it waits, whoever watches the cluster goes on; nothing is applied until
the attempt is over. Never decides: the attempt (`engine.schedule_pod`) asks and goes on.
Upstream: pkg/scheduler/schedule_one.go findNodesThatPassExtenders, prioritizeNodes;
pkg/scheduler/extender.go Filter, Prioritize
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import NodeTable
from kubesched.engine.diagnosis import SchedulingError
from kubesched.engine.schedule_pod import (
    Answer,
    ExtenderFilter,
    ExtenderFilterAnswer,
    ExtenderPrioritize,
    ExtenderPrioritizeAnswer,
    Question,
    ResultT,
)
from kubesched.engine.search import ScheduleResult
from kubesched.extender.candidates import Candidates, ReturnedNodes, StandIn
from kubesched.extender.http_extender import ExtenderError, HTTPExtender
from kubesched.extender.object_json import pod_json
from kubesched.extender.wire import MAX_EXTENDER_PRIORITY, ExtenderFilterResult, HostPriority
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.kit.log import Log, Ref
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo

PRIORITIZING_EXTENDER: Final = "prioritizing_extender"
_SCALE: Final = NODE_SCORE_MAX // MAX_EXTENDER_PRIORITY
_SKIPPED: Final = "Skipping extender as it returned error and has ignorable flag set"
_NO_SCORES: Final = "Failed to run extender's priority function. No score given by this extender."
AnswerT = TypeVar("AnswerT")


class GivenUpError(Exception):
    """Nobody is to wait for extenders any longer: pods are placed no more."""


class Extenders:
    """All extenders of a configuration, in the order in which they are asked."""

    def __init__(
        self,
        members: Sequence[HTTPExtender],
        *,
        stand_in: StandIn,
        log: Log,
        metrics: SchedulerMetrics,
    ) -> None:
        self._members = tuple(members)
        self._stand_in = stand_in
        self._log = log
        self._running = metrics.goroutines
        self._returned = ReturnedNodes()
        self._failing: dict[HTTPExtender, None] = {}
        """Those whose last prioritize failed."""
        self._waiting: dict[asyncio.Task[Any], None] = {}

    def __repr__(self) -> str:
        return f"<Extenders {', '.join(one.name for one in self._members)}>"

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[HTTPExtender]:
        return iter(self._members)

    @property
    def has_filters(self) -> bool:
        """Return whether one of them filters."""
        return any(one.is_filter for one in self._members)

    @property
    def has_prioritizers(self) -> bool:
        """Return whether one of them scores."""
        return any(one.is_prioritizer for one in self._members)

    async def close(self) -> None:
        """Close the connections."""
        for one in self._members:
            await one.close()

    # -- waiting ----------------------------------------------------------------------------------

    async def waited(self, asking: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Wait for an answer; GivenUpError if it is not worth waiting for any more."""
        task = asyncio.get_running_loop().create_task(asking, name="asking an extender")
        self._waiting[task] = None
        try:
            return await task
        finally:
            # Also if the answer came in the very same moment; but whoever is ended ends.
            asker = asyncio.current_task()
            is_given_up = self._waiting.pop(task, self) is self
            if is_given_up and not (asker is not None and asker.cancelling()):
                raise GivenUpError

    def give_up(self) -> None:
        """Have nobody wait any longer."""
        while self._waiting:
            task, _ = self._waiting.popitem()
            task.cancel()

    async def drive(self, attempt: ResultT, question: Question) -> ScheduleResult:
        """Answer an attempt's questions, from the first one on, until it has come to a result."""
        try:
            while True:
                try:
                    answer: Answer = await self.waited(self._answer(question))
                except ExtenderError as problem:
                    question = attempt.throw(SchedulingError(str(problem)))
                else:
                    question = attempt.send(answer)
        except StopIteration as done:
            result: ScheduleResult = done.value
            return result
        finally:
            attempt.close()

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, ExtenderFilter):
            return await self._filter(question.pod, question.nodes)
        assert isinstance(question, ExtenderPrioritize)
        return await self._prioritize(question.pod, question.nodes)

    # -- filter -----------------------------------------------------------------------------------

    async def _filter(self, pod: PodInfo, nodes: NodeTable) -> ExtenderFilterAnswer:
        left = Candidates.of_table(nodes)
        whole = pod_json(pod)
        statuses: dict[str, Status] = {}
        refused_by: dict[str, str] = {}
        for one in self._members:
            if not len(left):
                break
            if not one.is_filter or not one.is_interested(pod):
                continue
            try:
                result = await one.filter(whole, **left.given(one))
                kept = left.kept_by(one, result, self._returned)
            except ExtenderError as problem:
                if not one.is_ignorable:
                    raise
                self._log.info(_SKIPPED, extender=one.name, err=str(problem))
                continue
            said = _statuses(result)
            statuses.update(said)
            if said or kept is not left:
                gone = (name for name in (*left.names, *said) if name not in kept)
                refused_by.update(dict.fromkeys(gone, one.name))
            left = kept
        return ExtenderFilterAnswer(left.table(nodes.view, self._stand_in), statuses, refused_by)

    # -- prioritize -------------------------------------------------------------------------------

    async def _prioritize(self, pod: PodInfo, nodes: NodeTable) -> ExtenderPrioritizeAnswer:
        asked = Candidates.of_table(nodes)
        interested = [one for one in self._members if one.is_interested(pod)]
        lists = await asyncio.gather(*(self._scores_of(one, pod, asked) for one in interested))
        added: dict[str, IntColumn] = {}
        scored = np.zeros(len(nodes), dtype=np.bool_)
        for one, scores in zip(interested, lists, strict=True):
            if scores is None:
                continue
            scored |= np.fromiter((name in scores for name in asked.names), np.bool_, len(nodes))
            column = np.array([scores.get(name, 0) for name in asked.names], dtype=np.int64)
            added[one.name] = added[one.name] + column if one.name in added else column
        return ExtenderPrioritizeAnswer(added, scored)

    async def _scores_of(
        self, one: HTTPExtender, pod: PodInfo, asked: Candidates
    ) -> Mapping[str, int] | None:
        """Return what an extender adds to the nodes it names; None if it cannot say."""
        running = self._running.labels(PRIORITIZING_EXTENDER)
        running.inc()
        try:
            if not one.is_prioritizer:
                # Parity: extender.go Prioritize, v1.36: zeros, by which equals draw lots.
                return dict.fromkeys(asked.names, 0)
            listed = await one.prioritize(pod_json(pod), **asked.given(one))
        except ExtenderError as problem:
            self._note_failure(one, pod, problem)
            return None
        finally:
            running.dec()
        if self._failing.pop(one, self) is None:
            self._log.info("Extender's priority function works again", extender=one.name)
        self._say_scores(one, pod, listed)
        return _sums(listed, one.weight)

    def _note_failure(self, one: HTTPExtender, pod: PodInfo, problem: ExtenderError) -> None:
        ref, text = Ref(pod.namespace, pod.name), str(problem)
        self._log.info(_NO_SCORES, level=5, error=text, pod=ref, extender=one.name)
        if one not in self._failing:
            # Differs: upstream never says this at a level that anybody has on, and an extender
            # that is down for weeks goes unseen.
            self._failing[one] = None
            self._log.info(
                "Extender's priority function fails; pods are placed without its scores, and this "
                "is said once until it works again",
                err=text,
                pod=ref,
                extender=one.name,
            )

    def _say_scores(self, one: HTTPExtender, pod: PodInfo, listed: Sequence[HostPriority]) -> None:
        if self._log.verbosity < 10:
            return
        for entry in listed:
            self._log.info(
                "Extender scored node for pod",
                level=10,
                pod=Ref(pod.namespace, pod.name),
                extender=one.name,
                node=entry.host,
                score=entry.score,
            )


def _statuses(result: ExtenderFilterResult) -> dict[str, Status]:
    failed = result.failed_nodes or {}
    unresolvably = result.failed_and_unresolvable_nodes or {}
    # Whoever is in both maps is beyond remedy.
    return {
        **{name: unschedulable(message) for name, message in failed.items()},
        **{name: unresolvable(message) for name, message in unresolvably.items()},
    }


def _sums(listed: Sequence[HostPriority], weight: int) -> dict[str, int]:
    """Return what each node gets; one that is named twice gets both."""
    sums: dict[str, int] = {}
    factor = weight * _SCALE
    for entry in listed:
        sums[entry.host] = sums.get(entry.host, 0) + entry.score * factor
    # As Go's integers hold them.
    return {host: (score + 2**63) % 2**64 - 2**63 for host, score in sums.items()}
