"""How many volumes each driver attaches to each node, as columns that follow the CSINodes.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go getVolumeLimits
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kubesched.api.storage import CSINode
from kubesched.snapshot.interning import grown
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.view import ClusterView

# Above every limit of a CSINode, which has 32 bits.
NO_LIMIT: Final = 2**32


class LimitColumns:
    """Limits by driver over all rows of one cluster."""

    def __init__(self) -> None:
        self._cluster: object = None
        self._forget()

    def _forget(self) -> None:
        self._epochs = (-1, -1)
        """Those of the CSINodes and of the nodes: a row may be another node's."""
        self._csi_nodes: list[CSINode | None] = []
        self._by_driver: dict[str, IntColumn] = {}
        self.has_csi_node: BoolColumn = np.zeros(0, dtype=np.bool_)
        """Which rows' nodes have a CSINode."""
        self.is_limited: BoolColumn = np.zeros(0, dtype=np.bool_)
        """Which rows' nodes have any limit."""

    def of_driver(self, driver: str) -> IntColumn | None:
        """Return a driver's limit on each row, `NO_LIMIT` where it has none; None if nowhere."""
        return self._by_driver.get(driver)

    def follow(self, view: ClusterView) -> None:
        """Update the limits from the CSINodes."""
        if self._cluster is not view.identity or not view.counters.keeps:
            self._cluster = view.identity
            self._forget()
        store = view.objects.store_of(CSINode)
        epochs = (store.epoch, view.node_epoch)
        if epochs == self._epochs:
            return
        self._epochs = epochs
        self._make_room(view.row_count)
        for row, previous in enumerate(self._csi_nodes):
            csi_node = store.get(view.name_of(row))
            if csi_node is not previous:
                self._set(row, csi_node)

    def _make_room(self, row_count: int) -> None:
        if row_count > len(self._csi_nodes):
            self._csi_nodes += [None] * (row_count - len(self._csi_nodes))
            self.has_csi_node = grown(self.has_csi_node, row_count)
            self.is_limited = grown(self.is_limited, row_count)
            for driver, column in self._by_driver.items():
                self._by_driver[driver] = grown(column, row_count, NO_LIMIT)

    def _set(self, row: int, csi_node: CSINode | None) -> None:
        self._csi_nodes[row] = csi_node
        limits = {} if csi_node is None else limits_of(csi_node)
        self.has_csi_node[row] = csi_node is not None
        self.is_limited[row] = bool(limits)
        for column in self._by_driver.values():
            column[row] = NO_LIMIT
        for driver, count in limits.items():
            if driver not in self._by_driver:
                self._by_driver[driver] = np.full(len(self.is_limited), NO_LIMIT, dtype=np.int64)
            self._by_driver[driver][row] = count


def limits_of(csi_node: CSINode) -> dict[str, int]:
    """Return the limits of a CSINode by driver."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
