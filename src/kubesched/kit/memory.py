"""Settings of the allocator and the garbage collector, and memory budgets of caches.

Memory that an attempt returns to the system is faulted in again by the next, which costs as much as
the columns' arithmetic. Python looks for cyclic garbage after every few hundred new objects, and a
cluster has millions. Caches may use memory in proportion to the cluster.
"""

from __future__ import annotations

import gc
from functools import cache

_BYTES = 24 * 1024 * 1024
_ROWS_PLANNED_FOR = 10_000


@cache
def keep_heap() -> None:
    """Keep freed memory in the process, up to some tens of megabytes.

    glibc raises its limits for mapping and trimming when a large block is freed; elsewhere this
    does nothing.
    """
    block = bytearray(_BYTES)
    del block


def collect_rarely() -> None:
    """Collect cyclic garbage less often: after many more new objects than by default."""
    gc.set_threshold(100_000, 50, 100)


def budget(byte_count: int, row_count: int) -> int:
    """Return how many bytes a cache may use.

    Args:
        byte_count: The budget for up to 10,000 rows.
        row_count: The rows of the cluster. Each cached template takes memory per row, so
            that a constant budget would hold fewer templates in larger clusters.
    """
    return byte_count * max(row_count, _ROWS_PLANNED_FOR) // _ROWS_PLANNED_FOR
