"""One plugin asked about one pod, point after point, and its answers looked at closely.

Owns which methods are asked, in the order in which a scheduler asks them, and what an answer may
be. What cannot be is noted, never raised: one run tells all. Only what decides is asked: what
writes (reserve, permit, binding) is not.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    NODE_SCORE_MAX,
    NODE_SCORE_MIN,
    AllReasons,
    EventRegistration,
    PreFilterResult,
)
from kubesched.framework.status import Code, Status, StatusError
from kubesched.model.pod_info import PodInfo

Said = tuple[str, tuple[str, ...]]
"""The name of a code, and reasons."""

_PASSED: Final = (Code.SUCCESS,)
_FAILED = object()


class Fault(NamedTuple):
    """Something that a plugin must not do."""

    rule: str
    """What is broken, the same for all examples of it."""
    example: str


@dataclass(slots=True)
class Answers:
    """What a plugin said of one pod."""

    pre_enqueue: Said | None = None
    pre_filter: Said | tuple[str, ...] | None = None
    """A status, or the names of the only nodes."""
    verdicts: dict[str, Said] = field(default_factory=dict)
    """By node, the refusals."""
    raw: dict[str, int] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    """By node, after normalising."""
    faults: list[Fault] = field(default_factory=list)


class Subject(NamedTuple):
    """A pod in a cluster."""

    view: ClusterView
    pod: PodInfo
    nodes: NodeTable
    """All nodes, in some order."""
    fitting: Rows
    """The rows of those that every in-tree filter lets pass."""


def ask(plugin: Any, subject: Subject) -> Answers:
    """Ask a plugin everything that decides about a pod."""
    answers = Answers()
    state = CycleState()
    asking = _Asking(plugin, answers, state, subject.pod)
    asking.events()
    asking.pre_enqueue()
    nodes = asking.pre_filter(subject.nodes)
    if nodes is not None:
        asking.filter(nodes)
    fits = np.isin(subject.nodes.rows, subject.fitting)
    fits &= np.array([name not in answers.verdicts for name in subject.nodes.names], dtype=np.bool_)
    scored = subject.nodes.take(fits)
    if len(scored) and asking.pre_score(scored):
        asking.score(scored)
    return answers


@dataclass(slots=True)
class _Asking:
    """One round of questions."""

    plugin: Any
    answers: Answers
    state: CycleState
    pod: PodInfo

    def _has(self, method: str) -> bool:
        return callable(getattr(self.plugin, method, None))

    def _fault(self, rule: str, example: str) -> None:
        self.answers.faults.append(Fault(rule, example))

    def _call(self, method: str, *arguments: Any, about: str = "") -> Any:
        """Return what a method answers; a marker if it is at fault."""
        call: Callable[..., Any] = getattr(self.plugin, method)
        try:
            answer = call(*arguments)
        except StatusError as ended:
            return ended.status
        except Exception as problem:  # noqa: BLE001 - whatever a user's plugin raises is told
            what = f"{type(problem).__name__}: {problem} {_place_of(problem)}".strip()
            self._fault(f"{method}() raises", f"{what}{about}")
            return _FAILED
        if inspect.isawaitable(answer):
            self._fault(f"{method}() returns something to wait for", f"{answer!r}{about}")
            getattr(answer, "close", lambda: None)()
            return _FAILED
        return answer

    def _status(self, method: str, answer: Any, may_be: Sequence[Code], about: str = "") -> Any:
        """Return the status of an answer, None for success; a marker if it is at fault."""
        if answer is _FAILED or answer is None:
            return answer
        if not isinstance(answer, Status):
            self._fault(
                f"{method}() returns something other than a Status or None",
                f"{type(answer).__name__} {answer!r:.60}{about}",
            )
            return _FAILED
        if answer.code not in (*_PASSED, *may_be, Code.ERROR):
            self._fault(f"{method}() may not return {answer.code.wire_name}", f"{answer}{about}")
            return _FAILED
        return None if answer.is_success else answer

    # -- before nodes are looked at ---------------------------------------------------------------

    def events(self) -> None:
        if not self._has("events_to_register"):
            return
        found = self._call("events_to_register")
        if found is _FAILED:
            return
        is_list = isinstance(found, Sequence)
        if not is_list or not all(isinstance(one, EventRegistration) for one in found):
            self._fault(
                "events_to_register() returns something else than registrations", f"{found}"
            )

    def pre_enqueue(self) -> None:
        if self._has("pre_enqueue"):
            answer = self._call("pre_enqueue", self.pod)
            refusals = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)
            status = self._status("pre_enqueue", answer, refusals)
            self.answers.pre_enqueue = _said(status)

    def pre_filter(self, nodes: NodeTable) -> NodeTable | None:
        """Return the nodes that its filter is asked about; None if it is not asked at all."""
        if not self._has("pre_filter"):
            return nodes
        answer = self._call("pre_filter", self.state, self.pod, nodes)
        if isinstance(answer, PreFilterResult):
            known = frozenset(nodes.names)
            if unknown := sorted(answer.node_names - known):
                self._fault("pre_filter() names nodes that there are not", ", ".join(unknown[:3]))
            self.answers.pre_filter = tuple(sorted(answer.node_names))
            return nodes.take(np.array([name in answer.node_names for name in nodes.names]))
        refusals = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.SKIP)
        status = self._status("pre_filter", answer, refusals)
        self.answers.pre_filter = _said(status)
        return nodes if status is None else None

    # -- filter -----------------------------------------------------------------------------------

    def filter(self, nodes: NodeTable) -> None:
        if self._has("filter"):
            for node in nodes:
                about = f" for node {node.name}"
                answer = self._call("filter", self.state, self.pod, node, about=about)
                refusals = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
                self._note(node.name, self._status("filter", answer, refusals, about))
        elif self._has("filter_nodes"):
            self._filter_nodes(nodes)

    def _filter_nodes(self, nodes: NodeTable) -> None:
        answer = self._call("filter_nodes", self.state, self.pod, nodes)
        if answer is _FAILED:
            return
        if isinstance(answer, Status):
            for name in nodes.names:
                self._note(name, answer)
            return
        adds_up = isinstance(answer, AllReasons)
        rejections = answer.rejections if isinstance(answer, AllReasons) else answer
        if not isinstance(rejections, Sequence):
            self._fault(
                "filter_nodes() returns something other than a list of Rejected",
                f"{type(answer).__name__} {answer!r:.60}",
            )
            return
        if not all(self._is_rejection(one, len(nodes)) for one in rejections):
            return
        for position, name in enumerate(nodes.names):
            held = [one.status for one in rejections if one.mask[position]]
            if held:
                self._note(name, _joined(held) if adds_up else held[0])

    def _is_rejection(self, rejected: Any, count: int) -> bool:
        mask: Any = getattr(rejected, "mask", None)
        status = getattr(rejected, "status", None)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
            got = f"{getattr(mask, 'dtype', type(mask).__name__)} of shape {np.shape(mask)}"
            self._fault("filter_nodes() has a mask that is no bool per node", got)
            return False
        if not isinstance(status, Status) or not (status.is_rejected or status.code is Code.ERROR):
            self._fault("filter_nodes() refuses with something that is no refusal", f"{status}")
            return False
        return True

    def _note(self, node: str, status: Any) -> None:
        said = _said(status)
        if said is not None:
            self.answers.verdicts[node] = said

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, nodes: NodeTable) -> bool:
        """Return whether its score is asked for."""
        if not self._has("pre_score"):
            return True
        answer = self._call("pre_score", self.state, self.pod, nodes)
        return self._status("pre_score", answer, (Code.SKIP,)) is None

    def score(self, nodes: NodeTable) -> None:
        raw = self._raw(nodes)
        if raw is None:
            return
        self.answers.raw = _by_name(nodes, raw)
        scores = self._normalized(raw, len(nodes))
        if scores is None:
            return
        self.answers.scores = _by_name(nodes, scores)
        for name, score in self.answers.scores.items():
            if not NODE_SCORE_MIN <= score <= NODE_SCORE_MAX:
                method = "normalize_scores" if self._has("normalize_scores") else "score"
                self._fault(f"{method}() leaves 0 to 100", f"{score} for node {name}")

    def _raw(self, nodes: NodeTable) -> IntColumn | None:
        if self._has("score_nodes"):
            answer = self._call("score_nodes", self.state, self.pod, nodes)
            return self._column("score_nodes", answer, len(nodes))
        if not self._has("score"):
            return None
        scores: list[int] = []
        for node in nodes:
            about = f" for node {node.name}"
            score = self._call("score", self.state, self.pod, node, about=about)
            if score is _FAILED or isinstance(score, Status):
                return None
            if not isinstance(score, int | np.integer) or isinstance(score, bool):
                self._fault("score() returns no integer", f"{_shown(score)}{about}")
                return None
            scores.append(int(score))
        return np.array(scores, dtype=np.int64)

    def _normalized(self, raw: IntColumn, count: int) -> IntColumn | None:
        if not self._has("normalize_scores"):
            return raw
        given = raw.copy()
        given.flags.writeable = False
        answer = self._call("normalize_scores", self.state, self.pod, given)
        return self._column("normalize_scores", answer, count)

    def _column(self, method: str, answer: Any, count: int) -> IntColumn | None:
        if answer is _FAILED or isinstance(answer, Status):
            return None
        array = np.asarray(answer)
        if array.shape != (count,):
            got = f"{array.shape} for {count} nodes"
            self._fault(f"{method}() returns another shape than a score per node", got)
            return None
        if array.dtype.kind not in "iu":
            self._fault(f"{method}() returns no integers", f"{array.dtype} {array[:3]}")
            return None
        return array.astype(np.int64)


def _by_name(nodes: NodeTable, scores: IntColumn) -> dict[str, int]:
    return dict(zip(nodes.names, scores.tolist(), strict=True))


def _said(status: Any) -> Said | None:
    if isinstance(status, Status):
        return status.code.wire_name, status.reasons
    return None


def _joined(held: Sequence[Status]) -> Status:
    worst = max(held, key=lambda one: (not one.is_rejected, one.code))
    return Status(worst.code, tuple(reason for one in held for reason in one.reasons))


def _shown(score: Any) -> str:
    if isinstance(score, float) and math.isnan(score):
        return "NaN"
    return f"{type(score).__name__} {score!r:.40}"


def _place_of(problem: Exception) -> str:
    """Return where in the plugin's own file an exception came from."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [one for one in frames if one.filename != __file__]
    return f"({Path(own[0].filename).name}:{own[0].lineno})" if own else ""


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the keys under which two mappings differ, in their order."""
    return [key for key in {**first, **second} if first.get(key) != second.get(key)]
