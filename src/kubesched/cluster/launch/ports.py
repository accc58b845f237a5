"""Free TCP ports on loopback.

A port is not reserved: another process may take it before it is used. The search therefore starts
below the ephemeral port range, at a place that depends on the process id.
"""

from __future__ import annotations

import os
import socket
from itertools import count

_FIRST = 20_000
_COUNT = 12_000
_searched = count()


def free_ports(port_count: int) -> list[int]:
    """Return ports that are free now."""
    found: list[int] = []
    start = os.getpid() * 64
    for step in _searched:
        port = _FIRST + (start + step) % _COUNT
        if is_free(port):
            found.append(port)
        if len(found) == port_count:
            break
    return found


def is_free(port: int) -> bool:
    """Return whether a port is free now."""
    with socket.socket() as probe:
        # As servers do, so that a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
