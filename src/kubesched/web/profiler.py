"""What the process is doing: stacks of threads and tasks, sampled or as they are.

Owns the sampling and the texts. Never stops anything: samples are taken from a thread of its own.
Upstream: none; Go's runtime/pprof does this there.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import Counter
from types import FrameType

_PERIOD_S = 0.01


def sampled_stacks(seconds: float, ended: threading.Event) -> str:
    """Look at every thread a hundred times a second, and return how often each stack was seen.

    Blocks: run it in a thread. The text is one line a stack, outermost frame first, as flame graph
    programs read it.
    """
    own = threading.get_ident()
    seen: Counter[str] = Counter()
    for _ in range(max(1, round(seconds / _PERIOD_S))):
        names = {one.ident: one.name for one in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # Documented, for this.
            if ident != own:
                seen[";".join([names.get(ident, str(ident)), *_frames(frame)])] += 1
        if ended.wait(_PERIOD_S):
            break
    return "".join(f"{stack} {count}\n" for stack, count in sorted(seen.items()))


def _frames(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "?")
        found.append(f"{module}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def all_stacks() -> str:
    """Return the stacks of all threads and of all tasks of the running loop."""
    names = {one.ident: one.name for one in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001  # As above.
    parts = [f"threads: total {len(frames)}\n"]
    for ident, frame in frames.items():
        parts.append(f"\nthread {ident} [{names.get(ident, '?')}]:\n")
        parts += traceback.format_stack(frame)
    tasks = sorted(asyncio.all_tasks(), key=lambda one: one.get_name())
    parts.append(f"\ntasks: total {len(tasks)}\n")
    for task in tasks:
        parts.append(f"\ntask {task.get_name()}:\n")
        for frame in task.get_stack():
            parts += traceback.format_list(traceback.extract_stack(frame, limit=1))
    return "".join(parts)
