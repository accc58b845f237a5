"""Calls to the extenders of a configuration during a scheduling attempt.

Owns the order of extenders, the nodes that remain while they filter one after another, the sums of
their scores, and the log lines. Watches continue during a call; their changes are applied after the
attempt. Never decides: the attempt (`attempt.schedule_pod`) does.
Upstream: pkg/scheduler/schedule_one.go findNodesThatPassExtenders, prioritizeNodes;
pkg/scheduler/extender.go Filter, Prioritize
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
from msgspec import Raw

from kubesched.api.decode import decode_as
from kubesched.api.errors import MalformedObject
from kubesched.api.node import Node
from kubesched.attempt.diagnosis import SchedulingError
from kubesched.attempt.request import ScheduleResult
from kubesched.attempt.schedule_pod import (
    ExtenderFilter,
    ExtenderFilterOutcome,
    ExtenderOutcome,
    ExtenderPrioritize,
    ExtenderPrioritizeOutcome,
    ExtenderRequest,
    PodScheduling,
)
from kubesched.extender.client.http_extender import HTTPExtender, node_json, pod_json
from kubesched.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
    NodeList,
)
from kubesched.framework.handle import ExtenderError
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.golang.strconv import go_quote
from kubesched.kit.log import Log, Ref
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

PRIORITIZING_EXTENDER: Final = "prioritizing_extender"
_SCALE: Final = NODE_SCORE_MAX // MAX_EXTENDER_PRIORITY
_SKIPPED: Final = "Skipping extender as it returned error and has ignorable flag set"
_NO_SCORES: Final = "Failed to run extender's priority function. No score given by this extender."
ResponseT = TypeVar("ResponseT")
_SPARE: Final = 1024


class AbandonedError(Exception):
    """The call was abandoned because scheduling stops."""


class Extenders:
    """All extenders of a configuration, in call order."""

    def __init__(
        self,
        members: Sequence[HTTPExtender],
        *,
        placeholder_rows: PlaceholderRows,
        log: Log,
        metrics: SchedulerMetrics,
    ) -> None:
        self._members = tuple(members)
        self._placeholder_rows = placeholder_rows
        self._log = log
        self._running = metrics.goroutines
        self._returned = ReturnedNodes()
        self._failing: dict[HTTPExtender, None] = {}
        """Extenders whose last prioritize call failed."""
        self._waiting: dict[asyncio.Task[Any], None] = {}

    def __repr__(self) -> str:
        return f"<Extenders {', '.join(extender.name for extender in self._members)}>"

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[HTTPExtender]:
        return iter(self._members)

    @property
    def has_filters(self) -> bool:
        """Return whether an extender filters."""
        return any(extender.is_filter for extender in self._members)

    @property
    def has_prioritizers(self) -> bool:
        """Return whether an extender scores."""
        return any(extender.is_prioritizer for extender in self._members)

    async def close(self) -> None:
        """Close the connections."""
        for extender in self._members:
            await extender.close()

    # -- waiting ----------------------------------------------------------------------------------

    async def wait_for(self, call: Coroutine[Any, Any, ResponseT]) -> ResponseT:
        """Wait for a call; AbandonedError if `give_up` abandons it."""
        task = asyncio.get_running_loop().create_task(call, name="extender call")
        self._waiting[task] = None
        try:
            return await task
        finally:
            # Even if the response arrived at the same moment. Cancellation of the caller wins.
            caller = asyncio.current_task()
            is_abandoned = self._waiting.pop(task, self) is self
            if is_abandoned and not (caller is not None and caller.cancelling()):
                raise AbandonedError

    def give_up(self) -> None:
        """Abandon all calls."""
        while self._waiting:
            task, _ = self._waiting.popitem()
            task.cancel()

    async def drive(self, attempt: PodScheduling, request: ExtenderRequest) -> ScheduleResult:
        """Make the calls that an attempt requests until it returns its result."""
        try:
            while True:
                try:
                    outcome: ExtenderOutcome = await self.wait_for(self._call(request))
                except ExtenderError as problem:
                    request = attempt.throw(SchedulingError(str(problem)))
                else:
                    request = attempt.send(outcome)
        except StopIteration as done:
            result: ScheduleResult = done.value
            return result
        finally:
            attempt.close()

    async def _call(self, request: ExtenderRequest) -> ExtenderOutcome:
        if isinstance(request, ExtenderFilter):
            return await self._filter(request.pod, request.nodes)
        assert isinstance(request, ExtenderPrioritize)
        return await self._prioritize(request.pod, request.nodes)

    # -- filter -----------------------------------------------------------------------------------

    async def _filter(self, pod: PodInfo, nodes: NodeTable) -> ExtenderFilterOutcome:
        candidates = Candidates(nodes.names, nodes)
        raw_pod = pod_json(pod)
        statuses: dict[str, Status] = {}
        rejected_by: dict[str, str] = {}
        for extender in self._members:
            if not len(candidates):
                break
            if not extender.is_filter or not extender.is_interested(pod):
                continue
            try:
                result = await extender.filter(candidates.args(extender, raw_pod))
                kept = candidates.apply_result(extender, result, self._returned)
            except ExtenderError as problem:
                if not extender.is_ignorable:
                    raise
                self._log.info(_SKIPPED, extender=extender.name, err=str(problem))
                continue
            failed = _statuses(result)
            statuses.update(failed)
            if failed or kept is not candidates:
                rejected = (name for name in (*candidates.names, *failed) if name not in kept)
                rejected_by.update(dict.fromkeys(rejected, extender.name))
            candidates = kept
        return ExtenderFilterOutcome(
            candidates.table(nodes.view, self._placeholder_rows), statuses, rejected_by
        )

    # -- prioritize -------------------------------------------------------------------------------

    async def _prioritize(self, pod: PodInfo, nodes: NodeTable) -> ExtenderPrioritizeOutcome:
        candidates = Candidates(nodes.names, nodes)
        interested = [extender for extender in self._members if extender.is_interested(pod)]
        calls = (self._scores_of(extender, pod, candidates) for extender in interested)
        lists = await asyncio.gather(*calls)
        added: dict[str, IntColumn] = {}
        scored = np.zeros(len(nodes), dtype=np.bool_)
        for extender, scores in zip(interested, lists, strict=True):
            if scores is None:
                continue
            scored |= np.fromiter(
                (name in scores for name in candidates.names), np.bool_, len(nodes)
            )
            column = np.array([scores.get(name, 0) for name in candidates.names], dtype=np.int64)
            added[extender.name] = added.get(extender.name, 0) + column
        return ExtenderPrioritizeOutcome(added, scored)

    async def _scores_of(
        self, extender: HTTPExtender, pod: PodInfo, candidates: Candidates
    ) -> Mapping[str, int] | None:
        """Return the scores that an extender adds by node name; None if the call fails."""
        running = self._running.labels(PRIORITIZING_EXTENDER)
        running.inc()
        try:
            if not extender.is_prioritizer:
                # Parity: extender.go Prioritize, v1.36: zeros, which still shuffle equal nodes.
                return dict.fromkeys(candidates.names, 0)
            listed = await extender.prioritize(candidates.args(extender, pod_json(pod)))
        except ExtenderError as problem:
            self._log_failure(extender, pod, problem)
            return None
        finally:
            running.dec()
        if self._failing.pop(extender, self) is None:
            self._log.info("Extender's priority function works again", extender=extender.name)
        for entry in listed if self._log.enabled(10) else ():
            self._log.info(
                "Extender scored node for pod",
                level=10,
                pod=Ref(pod.namespace, pod.name),
                extender=extender.name,
                node=entry.host,
                score=entry.score,
            )
        return _sums(listed, extender.weight)

    def _log_failure(self, extender: HTTPExtender, pod: PodInfo, problem: ExtenderError) -> None:
        ref, text = Ref(pod.namespace, pod.name), str(problem)
        self._log.info(_NO_SCORES, level=5, error=text, pod=ref, extender=extender.name)
        if extender not in self._failing:
            # Differs: upstream logs this at level 5 only, and an extender that is down for weeks
            # goes unnoticed.
            self._failing[extender] = None
            self._log.info(
                "Extender's priority function fails; pods are scheduled without its scores. "
                "This is logged once until it works again",
                err=text,
                pod=ref,
                extender=extender.name,
            )


def _statuses(result: ExtenderFilterResult) -> dict[str, Status]:
    failed = result.failed_nodes or {}
    unresolvably = result.failed_and_unresolvable_nodes or {}
    # A node in both maps is unresolvable.
    return {
        **{name: unschedulable(message) for name, message in failed.items()},
        **{name: unresolvable(message) for name, message in unresolvably.items()},
    }


def _sums(listed: Sequence[HostPriority], weight: int) -> dict[str, int]:
    """Return the sum of scores by node name."""
    sums: dict[str, int] = {}
    factor = weight * _SCALE
    for entry in listed:
        sums[entry.host] = sums.get(entry.host, 0) + entry.score * factor
    # Overflow wraps as in Go.
    return {host: (score + 2**63) % 2**64 - 2**63 for host, score in sums.items()}


PlaceholderRows = Callable[[Sequence[NodeInfo]], Rows]
"""Adds placeholder rows without pods for nodes, and returns the rows."""


class ReturnedNodes:
    """A cache of parsed nodes that extenders returned."""

    def __init__(self) -> None:
        self._parsed: dict[bytes, NodeInfo] = {}

    def infos(self, items: Sequence[Raw]) -> list[NodeInfo]:
        """Parse nodes; ExtenderError if one is malformed."""
        if len(self._parsed) > 2 * len(items) + _SPARE:
            self._parsed.clear()
        return [self._info(bytes(raw)) for raw in items]

    def _info(self, data: bytes) -> NodeInfo:
        if data not in self._parsed:
            text = b"{}" if data == b"null" else data  # As Go decodes it.
            try:
                self._parsed[data] = NodeInfo(decode_as(Node, text), text)
            except (MalformedObject, ValueError) as problem:
                raise ExtenderError(f"json: cannot unmarshal a node: {problem}") from problem
        return self._parsed[data]


class Candidates:
    """The remaining nodes in order: rows of the cluster, or objects that an extender returned."""

    def __init__(self, names: list[str], nodes: NodeTable | Sequence[NodeInfo]) -> None:
        self.names = names
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._name_set

    @cached_property
    def _name_set(self) -> frozenset[str]:
        return frozenset(self.names)

    def args(self, extender: HTTPExtender, pod: Raw) -> ExtenderArgs:
        """Return the arguments of a call, with nodes or their names as configured."""
        if extender.node_cache_capable:
            return ExtenderArgs(pod=pod, node_names=self.names)
        nodes = self._nodes
        infos = map(nodes.info, range(len(nodes))) if isinstance(nodes, NodeTable) else nodes
        return ExtenderArgs(pod=pod, nodes=NodeList(items=list(map(node_json, infos))))

    def apply_result(
        self, extender: HTTPExtender, result: ExtenderFilterResult, returned: ReturnedNodes
    ) -> Candidates:
        """Return the nodes that an extender kept; ExtenderError for an inconsistent result."""
        if extender.node_cache_capable and result.node_names is not None:
            return self._chosen(extender, result.node_names)
        items = None if result.nodes is None else result.nodes.items
        infos = returned.infos(items or ())
        return Candidates([info.name for info in infos], infos)

    def _chosen(self, extender: HTTPExtender, names: list[str]) -> Candidates:
        if names == self.names:
            return self
        places = {name: place for place, name in enumerate(self.names)}
        chosen: list[int] = []
        for name in names:
            place = places.get(name)
            if place is None:
                raise ExtenderError(
                    f"extender {go_quote(extender.name)} claims a filtered node {go_quote(name)} "
                    "which is not found in the input node list"
                )
            chosen.append(place)
        nodes = self._nodes
        if isinstance(nodes, NodeTable):
            return Candidates(names, nodes.take(np.array(chosen, dtype=np.int64)))
        return Candidates(names, [nodes[place] for place in chosen])

    def table(self, view: ClusterView, placeholder_rows: PlaceholderRows) -> NodeTable:
        """Return the nodes as a table of the cluster."""
        if isinstance(self._nodes, NodeTable):
            return self._nodes
        # A single node is not scored, so that its returned content does not matter.
        row = view.row_of(self.names[0]) if len(self) == 1 else -1
        rows = placeholder_rows(self._nodes) if row < 0 else np.array([row], dtype=np.int64)
        return view.nodes_at(rows)
