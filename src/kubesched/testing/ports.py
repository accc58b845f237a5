"""Ports of the loopback interface that nobody uses.

Owns the search. Never keeps a port open: between the search and its use somebody else may take it,
which is why it looks below the range the system gives to outgoing connections, from a place that
differs from process to process.
"""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST = 20_000
_COUNT = 12_000
_searched = count()


def free_ports(number: int) -> list[int]:
    """Return ports that can be listened on now."""
    found: list[int] = []
    start = os.getpid() * 64
    for step in _searched:
        port = _FIRST + (start + step) % _COUNT
        if is_free(port):
            found.append(port)
        if len(found) == number:
            break
    return found


def is_free(port: int) -> bool:
    """Return whether a port can be listened on now."""
    with socket.socket() as probe:
        # As servers do, so that a port whose last connection is still dying counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
