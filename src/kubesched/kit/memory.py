"""Keeping the heap from shrinking between attempts, and the collector from looking too often.

Owns one habit of the allocator: memory given back to the system after an attempt has to be faulted
in again by the next, which costs as much as the columns' arithmetic. And one of the interpreter: it
looks for garbage after every few hundred new objects, and a cluster is millions of them.
"""

from __future__ import annotations

import gc
from functools import cache

_BYTES = 24 * 1024 * 1024


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
