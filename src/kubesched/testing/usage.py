"""What a running process has used: processor time and memory.

Owns reading /proc (Linux). Never starts or ends a process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """One reading; memory in MB of 10^6 bytes."""

    cpu_s: float
    """Of all threads, user and system, since the process started."""
    resident_mb: float
    peak_mb: float


def usage_of(pid: int) -> Usage:
    """Return what a process has used so far."""
    place = Path("/proc") / str(pid)
    # The name, in parentheses, may hold spaces; the third field follows it.
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    memory = {}
    for line in (place / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in {"VmRSS", "VmHWM"}:
            memory[key] = int(value.split()[0]) * 1024 / 1e6
    return Usage((user + system) / _TICKS_PER_S, memory["VmRSS"], memory["VmHWM"])
