"""The nodes that are left while extenders filter, one after the other.

Owns what becomes of an extender's answer: a choice of the nodes it was given, by name and in its
order, or nodes of its own, which then count as having no pods. Never asks anybody.
Upstream: pkg/scheduler/extender.go Filter
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypedDict

import numpy as np
from msgspec import Raw

from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.extender.http_extender import ExtenderError, HTTPExtender
from kubesched.extender.object_json import node_json
from kubesched.extender.wire import ExtenderFilterResult
from kubesched.kit.go_text import go_quote
from kubesched.model.node_info import NodeInfo
from kubesched.objects.decode import decode_as
from kubesched.objects.errors import MalformedObject
from kubesched.objects.node import Node

StandIn = Callable[[Sequence[NodeInfo]], Rows]
"""Has nodes in rows of their own, without pods, and returns the rows."""
_SPARE: Final = 1024
_NULL: Final = b"null"


class Given(TypedDict):
    """Nodes as an extender wants them: by name, or whole."""

    node_names: list[str] | None
    nodes: list[Raw] | None


class ReturnedNodes:
    """Nodes that extenders returned, each parsed once for as long as it comes again as it was."""

    def __init__(self) -> None:
        self._known: dict[bytes, NodeInfo] = {}

    def infos(self, items: Sequence[Raw]) -> list[NodeInfo]:
        """Return nodes; ExtenderError if one of them is none."""
        if len(self._known) > 2 * len(items) + _SPARE:
            self._known.clear()
        return [self._info(bytes(raw)) for raw in items]

    def _info(self, data: bytes) -> NodeInfo:
        found = self._known.get(data)
        if found is None:
            found = self._known[data] = _parsed(data)
        return found


def _parsed(data: bytes) -> NodeInfo:
    if data == _NULL:
        data = b"{}"  # What Go makes of it.
    try:
        return NodeInfo(decode_as(Node, data), data)
    except (MalformedObject, ValueError) as problem:
        raise ExtenderError(f"json: cannot unmarshal a node: {problem}") from problem


class Candidates:
    """Some nodes in order: of a table of the cluster, or as an extender returned them."""

    def __init__(self, names: list[str], nodes: NodeTable | Sequence[NodeInfo]) -> None:
        self.names = names
        self._nodes = nodes
        """A table of the cluster's own, or what an extender returned."""
        self._names_kept: Collection[str] | None = None

    @classmethod
    def of_table(cls, nodes: NodeTable) -> Candidates:
        """Return the nodes of a table."""
        return cls(nodes.names, nodes)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        if self._names_kept is None:
            self._names_kept = frozenset(self.names)
        return name in self._names_kept

    def given(self, extender: HTTPExtender) -> Given:
        """Return the nodes as an extender wants them."""
        if extender.node_cache_capable:
            return {"node_names": self.names, "nodes": None}
        return {"node_names": None, "nodes": [node_json(info) for info in self._infos()]}

    def _infos(self) -> Sequence[NodeInfo]:
        nodes = self._nodes
        if not isinstance(nodes, NodeTable):
            return nodes
        return [nodes.info(position) for position in range(len(nodes))]

    def kept_by(
        self, extender: HTTPExtender, result: ExtenderFilterResult, returned: ReturnedNodes
    ) -> Candidates:
        """Return what an extender left over; ExtenderError if its answer makes no sense."""
        if result.error:
            raise ExtenderError(result.error)
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

    def table(self, view: ClusterView, stand_in: StandIn) -> NodeTable:
        """Return the nodes as a table of a cluster."""
        if isinstance(self._nodes, NodeTable):
            return self._nodes
        # A single node is taken unscored: then it does not matter what was returned of it.
        known = view.row_of(self.names[0]) if len(self) == 1 else -1
        rows = stand_in(self._nodes) if known < 0 else np.array([known], dtype=np.int64)
        return view.nodes_at(rows)
