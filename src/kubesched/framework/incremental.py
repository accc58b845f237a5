"""Rejections by counts that change from attempt to attempt, for incremental filters.

Detects unchanged verdicts. See `framework.fast` for the contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self, TypeAlias

from kubesched.framework.interface import Rejected
from kubesched.framework.status import Status
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.topology import Marked, Topology
from kubesched.snapshot.view import NodeTable

RejectedRows: TypeAlias = tuple[Marked, Status]
"""Rows that are rejected, and the reason."""


class IncrementalRejections:
    """Base of incremental filters that reject rows by counts."""

    __slots__ = ("_nodes", "_rejected_rows", "_topology", "_versions", "version")

    def __init__(self, topology: Topology, nodes: NodeTable) -> None:
        """Start without rejections; `nodes` are all rows."""
        self._topology = topology
        self._nodes = nodes
        self._rejected_rows: list[RejectedRows] = []
        self._versions: list[int] = []
        self.version = 0

    def __iter__(self) -> Iterator[Rejected]:
        """Yield the rejections in order."""
        return rejections(self._rejected_rows, self._topology, self._nodes)

    def masks(self) -> list[BoolColumn]:
        """Return the rejected rows, one mask per rejection."""
        columns = (rows.column() for rows, _ in self._rejected_rows)
        over, nodes = self._topology.over, self._nodes
        return [over(nodes, column) for column in columns if column is not None]

    def set_rejected(self, rejected_rows: list[RejectedRows]) -> Self:
        """Take over the present rejections; an unchanged list keeps its identity."""
        versions = [rows.version for rows, _ in rejected_rows]
        if rejected_rows is not self._rejected_rows or versions != self._versions:
            self._rejected_rows, self._versions = rejected_rows, versions
            self.version += 1
        return self


def rejections(
    rejected_rows: list[RejectedRows], topology: Topology, nodes: NodeTable
) -> Iterator[Rejected]:
    """Yield the rejections of the nodes of a table."""
    for rows, status in rejected_rows:
        column = rows.column()
        if column is not None:
            yield Rejected(topology.over(nodes, column), status)
