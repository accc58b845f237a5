"""The call that comes next: a scheduler prioritizes the nodes that `filter` has just left it.

Owns foreseeing that call, byte by byte, so that nothing of it need be read again when it comes:
with names alone, that is two thirds of the work. Any other call is read as it is. Never remembers
what plugins said, and never a row that may be another node's by now.
Upstream: pkg/scheduler/schedule_one.go findNodesThatPassExtenders, prioritizeNodes (the other end)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from kubesched.columns.view import ClusterView, Rows
from kubesched.model.pod_info import PodInfo

_KEY: Final = b',"NodeNames":'
# Go's encoder ends a stream with a line end, and a marshalled body without one.
_ENDS: Final = (b"}", b"}\n")


class Foreseen(NamedTuple):
    """A call, and what it asks about."""

    body: bytes
    pod: PodInfo
    names: Sequence[str]
    rows: Rows
    """Of these names."""
    state: tuple[object, int]
    """Of the nodes, by which rows are known to be the same."""

    def is_asked_by(self, body: bytes, view: ClusterView) -> bool:
        """Return whether this is the call that has come, and its nodes still have their rows."""
        return body == self.body and self.state == state_of(view)


def foreseen(
    body: bytes, pod: PodInfo, left: Sequence[str], rows: Rows, view: ClusterView
) -> Foreseen | None:
    """Return the call about what is left of one; None if its body is not as a scheduler writes it.

    Args:
        body: Of the call to `filter`, which was read: it is JSON, and has names.
        pod: The pod in it.
        left: The names in the answer.
        rows: Of these.
        view: Where the rows are.
    """
    key, end = body.find(_KEY), body.rfind(b"]") + 1
    start = key + len(_KEY)
    # A pod may hold any text. But what ends at the only bracket from here on is a single list, and
    # what is followed by the last brace alone is the last part of the whole, not of the pod.
    if key < 0 or body[end:] not in _ENDS or body.find(b"]", start) + 1 != end:
        return None
    changed = b"".join((body[:start], msgspec.json.encode(left), body[end:]))
    return Foreseen(changed, pod, left, rows, state_of(view))


def state_of(view: ClusterView) -> tuple[object, int]:
    """Return what changes when a row may become another node's."""
    return view.identity, view.node_epoch
