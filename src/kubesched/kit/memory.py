"""Keeping the heap from shrinking, the collector from looking too often, and budgets in proportion.

Owns one habit of the allocator: memory given back to the system after an attempt has to be faulted
in again by the next, which costs as much as the columns' arithmetic. And one of the interpreter: it
looks for garbage after every few hundred new objects, and a cluster is millions of them. What is
kept from attempt to attempt may take memory as the cluster grows.
"""

from __future__ import annotations

import gc
from functools import cache

_BYTES = 24 * 1024 * 1024
_ROWS_PLANNED_FOR = 10_000


@cache
def keep_heap() -> None:
    """Have freed memory kept by the process from now on, up to some tens of megabytes.

    glibc raises its limits for mapping and trimming when a large block is freed; elsewhere this
    does nothing.
    """
    block = bytearray(_BYTES)
    del block


def collect_rarely() -> None:
    """Have the interpreter look for cyclic garbage after many more new objects than usual."""
    gc.set_threshold(100_000, 50, 100)


def budget(byte_count: int, row_count: int) -> int:
    """Return how many bytes may be kept for a cluster of so many rows.

    Args:
        byte_count: what suffices for 10,000 rows, and is allowed for fewer.
        row_count: how many there are. What is kept of a template takes so much a row: a budget that
            stayed the same would hold ever fewer templates, and in turn they would throw each other
            out.
    """
    return byte_count * max(row_count, _ROWS_PLANNED_FOR) // _ROWS_PLANNED_FOR
