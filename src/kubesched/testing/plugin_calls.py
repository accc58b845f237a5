"""Calls of a plugin's methods for one pod, in the scheduler's order, with checks of the results.

Owns the rules for results. Broken rules are collected, not raised, so that one run finds them all.
Only methods that decide are called: not those that write (reserve, permit, bind).
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    NODE_SCORE_MAX,
    NODE_SCORE_MIN,
    AllReasons,
    EventRegistration,
    PreFilterResult,
)
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import Code, Status, StatusError
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

Rejection = tuple[str, tuple[str, ...]]
"""The name of a code, and the reasons."""

_REJECTIONS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_INVALID: Final = object()
"""In place of a result that breaks a rule."""
_SORTED_PODS_MAX: Final = 12
_ORDER: Final = "less() is an order"


class Fault(NamedTuple):
    """A broken rule."""

    rule: str
    example: str


@dataclass(slots=True)
class Results:
    """What a plugin returned for one pod."""

    pre_enqueue: Rejection | None = None
    pre_filter: Rejection | tuple[str, ...] | None = None
    """A rejection, or the names of the only nodes."""
    verdicts: dict[str, Rejection] = field(default_factory=dict)
    """The rejections by node."""
    raw: dict[str, int] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    """By node, normalized."""
    faults: list[Fault] = field(default_factory=list)


class Subject(NamedTuple):
    """A pod in a cluster."""

    view: ClusterView
    pod: PodInfo
    nodes: NodeTable
    """All nodes, in some order."""
    fitting: Rows
    """The rows that pass every in-tree filter."""


def call_plugin(plugin: Any, subject: Subject) -> Results:
    """Call every method of a plugin that takes part in the decision for a pod."""
    calls = _Calls(plugin, subject.pod)
    verdicts = calls.results.verdicts
    calls.events()
    calls.pre_enqueue()
    nodes = calls.pre_filter(subject.nodes)
    if nodes is not None:
        calls.filter(nodes)
    fits = np.isin(subject.nodes.rows, subject.fitting)
    fits &= np.array([name not in verdicts for name in subject.nodes.names], dtype=np.bool_)
    scored = subject.nodes.take(fits)
    if len(scored) and calls.pre_score(scored):
        calls.score(scored)
    return calls.results


@dataclass(slots=True)
class _Calls:
    """The calls for one pod."""

    plugin: Any
    pod: PodInfo
    results: Results = field(default_factory=Results)
    state: CycleState = field(default_factory=CycleState)

    def _has(self, method: str) -> bool:
        return callable(getattr(self.plugin, method, None))

    def _fault(self, rule: str, example: str) -> None:
        self.results.faults.append(Fault(rule, example))

    def _call(self, method: str, *arguments: Any, about: str = "") -> Any:
        """Return the result of a method; _INVALID if it raises or has to be awaited."""
        call: Callable[..., Any] = getattr(self.plugin, method)
        try:
            result = call(*arguments)
        except StatusError as error:
            return error.status
        except Exception as error:  # noqa: BLE001 - a user's plugin may raise anything
            text = f"{type(error).__name__}: {error} {_place_of(error)}".strip()
            self._fault(f"{method}() raises", f"{text}{about}")
            return _INVALID
        if inspect.isawaitable(result):
            self._fault(f"{method}() returns an awaitable", f"{result!r}{about}")
            getattr(result, "close", lambda: None)()
            return _INVALID
        return result

    def _status(self, method: str, result: Any, allowed: Sequence[Code], about: str = "") -> Any:
        """Return the status of a result, None for success; _INVALID if it breaks a rule."""
        if result is _INVALID or result is None:
            return result
        if not isinstance(result, Status):
            self._fault(
                f"{method}() returns something other than a Status or None",
                f"{type(result).__name__} {result!r:.60}{about}",
            )
            return _INVALID
        if result.code not in (Code.SUCCESS, *allowed, Code.ERROR):
            self._fault(f"{method}() may not return {result.code.wire_name}", f"{result}{about}")
            return _INVALID
        return None if result.is_success else result

    # -- before filters ---------------------------------------------------------------------------

    def events(self) -> None:
        if not self._has("events_to_register"):
            return
        events = self._call("events_to_register")
        is_list = isinstance(events, Sequence)
        if events is not _INVALID and not (
            is_list and all(isinstance(event, EventRegistration) for event in events)
        ):
            rule = "events_to_register() returns something other than registrations"
            self._fault(rule, f"{events}")

    def pre_enqueue(self) -> None:
        if self._has("pre_enqueue"):
            result = self._call("pre_enqueue", self.pod)
            status = self._status("pre_enqueue", result, (*_REJECTIONS, Code.PENDING))
            self.results.pre_enqueue = _rejection(status)

    def pre_filter(self, nodes: NodeTable) -> NodeTable | None:
        """Return the nodes to filter; None if the filter is skipped."""
        if not self._has("pre_filter"):
            return nodes
        result = self._call("pre_filter", self.state, self.pod, nodes)
        if isinstance(result, PreFilterResult):
            if unknown := sorted(result.node_names.difference(nodes.names)):
                self._fault("pre_filter() names unknown nodes", ", ".join(unknown[:3]))
            self.results.pre_filter = tuple(sorted(result.node_names))
            return nodes.take(np.array([name in result.node_names for name in nodes.names]))
        status = self._status("pre_filter", result, (*_REJECTIONS, Code.SKIP))
        self.results.pre_filter = _rejection(status)
        return nodes if status is None else None

    # -- filter -----------------------------------------------------------------------------------

    def filter(self, nodes: NodeTable) -> None:
        if self._has("filter"):
            for node in nodes:
                about = f" for node {node.name}"
                result = self._call("filter", self.state, self.pod, node, about=about)
                self._add_verdict(node.name, self._status("filter", result, _REJECTIONS, about))
        elif self._has("filter_nodes"):
            self._filter_nodes(nodes)

    def _filter_nodes(self, nodes: NodeTable) -> None:
        result = self._call("filter_nodes", self.state, self.pod, nodes)
        if result is _INVALID:
            return
        if isinstance(result, Status):
            for name in nodes.names:
                self._add_verdict(name, result)
            return
        adds_up = isinstance(result, AllReasons)
        rejections = result.rejections if isinstance(result, AllReasons) else result
        if not isinstance(rejections, Sequence):
            self._fault(
                "filter_nodes() returns something other than a list of Rejected",
                f"{type(result).__name__} {result!r:.60}",
            )
            return
        if not all(self._is_rejection(rejected, len(nodes)) for rejected in rejections):
            return
        for position, name in enumerate(nodes.names):
            statuses = [rejected.status for rejected in rejections if rejected.mask[position]]
            if statuses:
                self._add_verdict(name, _joined(statuses) if adds_up else statuses[0])

    def _is_rejection(self, rejected: Any, count: int) -> bool:
        mask: Any = getattr(rejected, "mask", None)
        status = getattr(rejected, "status", None)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
            actual = f"{getattr(mask, 'dtype', type(mask).__name__)} of shape {np.shape(mask)}"
            self._fault("filter_nodes() has a mask that is not one bool per node", actual)
            return False
        if not isinstance(status, Status) or not (status.is_rejected or status.code is Code.ERROR):
            self._fault("filter_nodes() rejects with a status that is no rejection", f"{status}")
            return False
        return True

    def _add_verdict(self, node: str, status: Any) -> None:
        rejection = _rejection(status)
        if rejection is not None:
            self.results.verdicts[node] = rejection

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, nodes: NodeTable) -> bool:
        """Return whether to score."""
        if not self._has("pre_score"):
            return True
        result = self._call("pre_score", self.state, self.pod, nodes)
        return self._status("pre_score", result, (Code.SKIP,)) is None

    def score(self, nodes: NodeTable) -> None:
        raw = self._raw(nodes)
        if raw is None:
            return
        self.results.raw = dict(zip(nodes.names, raw.tolist(), strict=True))
        scores: IntColumn | None = raw
        method = "score"
        if self._has("normalize_scores"):
            method = "normalize_scores"
            read_only = raw.copy()
            read_only.flags.writeable = False
            result = self._call(method, self.state, self.pod, read_only)
            scores = self._column(method, result, len(nodes))
        if scores is None:
            return
        self.results.scores = dict(zip(nodes.names, scores.tolist(), strict=True))
        for name, score in self.results.scores.items():
            if not NODE_SCORE_MIN <= score <= NODE_SCORE_MAX:
                self._fault(f"{method}() leaves 0 to 100", f"{score} for node {name}")

    def _raw(self, nodes: NodeTable) -> IntColumn | None:
        if self._has("score_nodes"):
            result = self._call("score_nodes", self.state, self.pod, nodes)
            return self._column("score_nodes", result, len(nodes))
        if not self._has("score"):
            return None
        scores: list[int] = []
        for node in nodes:
            about = f" for node {node.name}"
            score = self._call("score", self.state, self.pod, node, about=about)
            if score is _INVALID or isinstance(score, Status):
                return None
            if not isinstance(score, int | np.integer) or isinstance(score, bool):
                is_nan = isinstance(score, float) and math.isnan(score)
                shown = "NaN" if is_nan else f"{type(score).__name__} {score!r:.40}"
                self._fault("score() returns no integer", f"{shown}{about}")
                return None
            scores.append(int(score))
        return np.array(scores, dtype=np.int64)

    def _column(self, method: str, result: Any, count: int) -> IntColumn | None:
        if result is _INVALID or isinstance(result, Status):
            return None
        array = np.asarray(result)
        if array.shape != (count,):
            actual = f"{array.shape} for {count} nodes"
            self._fault(f"{method}() returns another shape than a score per node", actual)
            return None
        if array.dtype.kind not in "iu":
            self._fault(f"{method}() returns no integers", f"{array.dtype} {array[:3]}")
            return None
        return array.astype(np.int64)


def _rejection(status: Any) -> Rejection | None:
    return (status.code.wire_name, status.reasons) if isinstance(status, Status) else None


def _joined(statuses: Sequence[Status]) -> Status:
    worst = max(statuses, key=lambda status: (not status.is_rejected, status.code))
    return Status(worst.code, tuple(reason for status in statuses for reason in status.reasons))


def _place_of(error: Exception) -> str:
    """Return the line of the plugin's file in which an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    return f"({Path(own[0].filename).name}:{own[0].lineno})" if own else ""


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the keys under which two mappings differ, in their order."""
    return [key for key in {**first, **second} if first.get(key) != second.get(key)]


# -- queue sort -----------------------------------------------------------------------------------


def order_faults(plugin: Any, pods: Sequence[PodInfo]) -> list[Fault]:
    """Check that `less` is irreflexive, antisymmetric and transitive; no faults without `less`."""
    if not callable(getattr(plugin, "less", None)):
        return []
    queued = [QueuedPodInfo(pod, float(n)) for n, pod in enumerate(pods[:_SORTED_PODS_MAX])]
    try:
        return list(_order_faults(plugin, queued))
    except Exception as error:  # noqa: BLE001 - a user's plugin may raise anything
        return [Fault("less() and sort_key() do not raise", f"{type(error).__name__}: {error}")]


def _order_faults(plugin: Any, queued: Sequence[QueuedPodInfo]) -> Iterator[Fault]:
    precedes = {(a.key, b.key): plugin.less(a, b) for a in queued for b in queued}
    for (first, second), result in precedes.items():
        if not isinstance(result, bool):
            yield Fault("less() returns a bool", f"{type(result).__name__} for {first}, {second}")
        elif result and first == second:
            yield Fault(_ORDER, f"{first} precedes itself")
        elif result and precedes[second, first]:
            yield Fault(_ORDER, f"{first} and {second} precede each other")
    for a, b, c in permutations((pod.key for pod in queued), 3):
        if precedes[a, b] and precedes[b, c] and not precedes[a, c]:
            yield Fault(_ORDER, f"{a} precedes {b}, {b} precedes {c}, but {a} does not precede {c}")
    if callable(getattr(plugin, "sort_key", None)):
        keys = {pod.key: plugin.sort_key(pod) for pod in queued}
        for (first, second), result in precedes.items():
            if (keys[first] < keys[second]) != bool(result):
                yield Fault("sort_key() sorts as less() does", f"not for {first}, {second}")
