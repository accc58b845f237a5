"""The machine of a benchmark run, and the memory of this process."""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path

import numpy as np


def resident_mb() -> float:
    """Return the resident memory of this process, in MB of 10^6 bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def description() -> str:
    """Return cores, memory and versions in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{cores} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
