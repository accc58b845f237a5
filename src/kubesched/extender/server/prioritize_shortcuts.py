"""Shortcuts for `prioritize`: prediction of the call after `filter`, and cached JSON of scores.

Owns the body of the `prioritize` call that follows a `filter` call. A call with that very body is
not decoded, which saves two thirds of its work; any other call is decoded. Never caches a verdict
of a plugin, nor a row that another node may have taken over.
Upstream: pkg/scheduler/schedule_one.go findNodesThatPassExtenders, prioritizeNodes (the client)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, Rows

_KEY: Final = b',"NodeNames":'
# Go's encoder ends a stream with a line end, and a marshalled body without one.
_ENDS: Final = (b"}", b"}\n")
_ROWS_MIN: Final = 64
_SLOTS_MAX: Final = 4_000_000
"""Size of the list of fragments; an unused entry takes 8 bytes."""


class PredictedCall(NamedTuple):
    """A predicted call and its decoded arguments."""

    body: bytes
    pod: PodInfo
    names: Sequence[str]
    rows: Rows
    """Of the names."""
    state: tuple[object, int]
    """Changes when a row may belong to another node."""

    def matches(self, body: bytes, view: ClusterView) -> bool:
        """Return whether a call has the predicted body, and its nodes still have their rows."""
        return body == self.body and self.state == state_of(view)


def predict_prioritize(
    body: bytes, pod: PodInfo, names: Sequence[str], rows: Rows, view: ClusterView
) -> PredictedCall | None:
    """Return the call that follows a `filter` call; None if no scheduler writes such a body.

    Args:
        body: The valid JSON body of the `filter` call, with node names.
        pod: The pod in the body.
        names: The names in the response.
        rows: The rows of these names.
        view: The snapshot of the rows.
    """
    key, end = body.find(_KEY), body.rfind(b"]") + 1
    start = key + len(_KEY)
    # A pod may contain any text. But text up to the only bracket from here on is a single list, and
    # a list followed by the last brace alone is a field of the body, not of the pod.
    if key < 0 or body[end:] not in _ENDS or body.find(b"]", start) + 1 != end:
        return None
    changed = b"".join((body[:start], msgspec.json.encode(names), body[end:]))
    return PredictedCall(changed, pod, names, rows, state_of(view))


def state_of(view: ClusterView) -> tuple[object, int]:
    """Return a value that changes when a row may belong to another node."""
    return view.identity, view.node_epoch


Column = NDArray[np.int64]


class HostPriorities:
    """Encodes HostPriorityList from cached fragments, in a third of the time of an encoder.

    Args:
        score_max: The highest score whose fragments are cached.
    """

    def __init__(self, score_max: int) -> None:
        self._score_count = score_max + 1
        self._row_count = 0
        self._state: Hashable = None
        self._fragments: NDArray[np.object_] = np.empty(0, dtype=object)

    def encode(self, hosts: Sequence[str], rows: Column, scores: Column, state: Hashable) -> bytes:
        """Return the list of hosts and their scores.

        Args:
            hosts: The names.
            rows: The row of each host.
            scores: The score of each host.
            state: Changes when a row may belong to another host.
        """
        if not len(hosts):
            return b"[]"
        if state != self._state:
            self._fragments.fill(None)
            self._state = state
        slots = self._slots(rows, scores)
        if slots is None:
            fragments: list[Any] = list(map(_fragment, hosts, scores.tolist()))
            return b"[" + b",".join(fragments) + b"]"
        fragments = self._fragments[slots].tolist()
        if None in fragments:
            fragments = self._fill(hosts, slots, scores)
        return b"[" + b",".join(fragments) + b"]"

    def _slots(self, rows: Column, scores: Column) -> Column | None:
        """Return the slots of the fragments; None if they are not cached."""
        low, high, last = int(scores.min()), int(scores.max()), int(rows.max())
        if low < 0 or high >= self._score_count or last * self._score_count > _SLOTS_MAX:
            return None
        if last >= self._row_count:
            self._grow(last + 1)
        return rows * self._score_count + scores

    def _grow(self, row_count: int) -> None:
        self._row_count = max(_ROWS_MIN, 2 * self._row_count, row_count)
        grown = np.full(self._row_count * self._score_count, None, dtype=object)
        grown[: len(self._fragments)] = self._fragments
        self._fragments = grown

    def _fill(self, hosts: Sequence[str], slots: Column, scores: Column) -> list[Any]:
        fragments = list(map(_fragment, hosts, scores.tolist()))
        for slot, fragment in zip(slots.tolist(), fragments, strict=True):
            self._fragments[slot] = fragment
        return fragments


def _fragment(host: str, score: int) -> bytes:
    return b'{"Host":%b,"Score":%d}' % (msgspec.json.encode(host), score)
