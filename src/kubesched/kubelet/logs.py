"""What containers have printed, and the reading of it.

Owns log buffers, the lines of containers that only seem to run, and what `tailLines`, `sinceTime`
and their like leave of them. Never speaks HTTP: server does.
Upstream: pkg/kubelet/kuberuntime/logs/logs.go
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from kubesched.kit.clock import Clock
from kubesched.kubelet.behaviour import Behaviour, behaviour_of
from kubesched.kubelet.containers import ContainerRun
from kubesched.kubelet.pod_runs import PodRun
from kubesched.objects.times import time_text

_LINES_MAX: Final = 20_000


class Line(NamedTuple):
    """One line, and when it was printed."""

    at_s: float
    text: str


class LogSource(Protocol):
    """What has lines, and may get more."""

    def lines(self, now_s: float) -> list[Line]:
        """Return every line there is by now."""

    def total(self, now_s: float) -> int:
        """Return how many lines there have ever been by now."""

    def is_over(self) -> bool:
        """Return whether no more lines come."""

    def next_s(self, now_s: float) -> float | None:
        """Return when the next line comes, if that is known."""

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when there may be more; return what ends that."""


class LogBuffer:
    """Lines that somebody appends, the newest of them."""

    def __init__(self, clock: Clock, lines_max: int = _LINES_MAX) -> None:
        self._clock = clock
        self._lines: deque[Line] = deque(maxlen=lines_max)
        self._total = 0
        self._is_over = False
        self._watchers: list[Callable[[], None]] = []

    def append(self, text: str) -> None:
        """Add a line; only on the loop that serves it."""
        self._lines.append(Line(self._clock.now_s(), text))
        self._total += 1
        self._wake()

    def close(self) -> None:
        """Add no more lines: who follows comes to the end."""
        self._is_over = True
        self._wake()

    def lines(self, now_s: float) -> list[Line]:
        """Return every line there is."""
        del now_s
        return list(self._lines)

    def total(self, now_s: float) -> int:
        """Return how many lines there have ever been."""
        del now_s
        return self._total

    def is_over(self) -> bool:
        """Return whether no more lines come."""
        return self._is_over

    def next_s(self, now_s: float) -> float | None:
        """Return nothing: lines come when they are appended."""
        del now_s
        return None

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called with every line."""
        self._watchers.append(wake)
        return lambda: self._watchers.remove(wake)

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()


class ContainerLog:
    """The lines of one run of a container that only seems to run."""

    def __init__(self, run: PodRun, container: Mapping[str, Any], run_index: int) -> None:
        self._run = run
        self._container = container
        self._index = run_index
        self._one: ContainerRun = {one.name: one for _, one in run.containers()}[container["name"]]

    def lines(self, now_s: float) -> list[Line]:
        """Return every line there is by now."""
        return [line for line in self._all() if line.at_s <= now_s]

    def total(self, now_s: float) -> int:
        """Return how many lines there are by now."""
        return len(self.lines(now_s))

    def is_over(self) -> bool:
        """Return whether this run has ended."""
        return not (self._one.is_running and self._one.restart_count == self._index)

    def next_s(self, now_s: float) -> float | None:
        """Return when the next line comes."""
        return min((line.at_s for line in self._all() if line.at_s > now_s), default=None)

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when something happens to the pod."""
        self._run.watchers.append(wake)
        return lambda: self._run.watchers.remove(wake)

    def _all(self) -> Iterable[Line]:
        one, ended = self._one, self._one.ended
        if one.started_s is not None and one.restart_count == self._index:
            started_s, finished_s, code = one.started_s, None, 0
        elif ended is not None and ended.run_index == self._index:
            started_s, finished_s, code = ended.started_s, ended.finished_s, ended.exit_code
        else:
            return
        printed = self._behaviour().lines
        for after_s, text in printed:
            if finished_s is None or started_s + after_s <= finished_s:
                yield Line(started_s + after_s, text)
        if printed:
            return
        metadata, spec = self._run.pod["metadata"], self._run.spec
        yield Line(
            started_s,
            f"container {one.name} of pod {metadata.get('namespace')}/{metadata['name']} was "
            f"started on node {spec.get('nodeName')} at {time_text(started_s)}; image "
            f"{self._container.get('image')} does not really run here",
        )
        if finished_s is not None:
            yield Line(finished_s, f"container {one.name} ended with exit code {code}")

    def _behaviour(self) -> Behaviour:
        try:
            return behaviour_of(
                self._run.pod,
                self._container,
                is_init=self._one.kind == "init",
                run_index=self._index,
                settings=self._run.settings,
            )
        except ValueError:
            # The pod has an event that says which annotation cannot be read.
            return Behaviour(0.0)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which lines, and how."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: float | None = None
    limit_bytes: int | None = None


async def read_log(source: LogSource, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """Return the lines that are asked for, and those that come later if they are followed."""
    left = options.limit_bytes
    async for line in _lines(source, options, clock):
        if options.since_s is not None and line.at_s < options.since_s:
            continue
        data = _shown(line, options).encode()
        if left is not None:
            data = data[:left]
            left -= len(data)
        yield data
        if left == 0:
            return


async def _lines(source: LogSource, options: LogOptions, clock: Clock) -> AsyncIterator[Line]:
    now_s = clock.now_s()
    seen = source.total(now_s)
    first = source.lines(now_s)
    if options.tail_lines is not None:
        first = first[len(first) - min(options.tail_lines, len(first)) :]
    for line in first:
        yield line
    if not options.follow:
        return
    woken = asyncio.Event()
    unwatch = source.watch(woken.set)
    try:
        while True:
            woken.clear()
            is_over = source.is_over()
            now_s = clock.now_s()
            total = source.total(now_s)
            fresh = source.lines(now_s)
            for line in fresh[len(fresh) - min(total - seen, len(fresh)) :]:
                yield line
            seen = total
            if is_over:
                return
            await _wait(woken, source.next_s(now_s), now_s)
    finally:
        unwatch()


async def _wait(woken: asyncio.Event, next_s: float | None, now_s: float) -> None:
    try:
        async with asyncio.timeout(None if next_s is None else max(next_s - now_s, 0.0)):
            await woken.wait()
    except TimeoutError:
        pass  # A line that was to come has come.


def _shown(line: Line, options: LogOptions) -> str:
    if not options.timestamps:
        return f"{line.text}\n"
    nanoseconds = round((line.at_s % 1) * 1e9)
    return f"{time_text(line.at_s)[:-1]}.{nanoseconds:09d}Z {line.text}\n"
