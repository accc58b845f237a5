"""Container logs: buffers, simulated output, and the options of `kubectl logs`.

Owns `tailLines`, `sinceTime` and similar options. Never speaks HTTP: server does.
Upstream: pkg/kubelet/kuberuntime/logs/logs.go
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from kubesched.api.times import time_text
from kubesched.cluster.kubelet.behaviour import Behaviour, behaviour_of
from kubesched.cluster.kubelet.containers import ContainerRun
from kubesched.cluster.kubelet.pod_runs import PodRun
from kubesched.kit.clock import Clock

_LINES_MAX: Final = 20_000


class Line(NamedTuple):
    """A line with its time."""

    at_s: float
    text: str


class LogSource(Protocol):
    """A log that may grow."""

    def lines(self, now_s: float) -> list[Line]:
        """Return all lines up to now."""

    def total(self, now_s: float) -> int:
        """Return the number of lines ever written up to now."""

    def is_complete(self) -> bool:
        """Return whether the log is complete."""

    def next_s(self, now_s: float) -> float | None:
        """Return when the next line is due, if known."""

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function when there may be new lines; return a function that stops this."""


class LogBuffer:
    """Keeps the last lines appended to it."""

    def __init__(self, clock: Clock, lines_max: int = _LINES_MAX) -> None:
        self._clock = clock
        self._lines: deque[Line] = deque(maxlen=lines_max)
        self._total = 0
        self._is_complete = False
        self._watchers: list[Callable[[], None]] = []

    def append(self, text: str) -> None:
        """Append a line; only on the loop that serves it."""
        self._lines.append(Line(self._clock.now_s(), text))
        self._total += 1
        self._wake()

    def close(self) -> None:
        """Mark the log as complete."""
        self._is_complete = True
        self._wake()

    def lines(self, now_s: float) -> list[Line]:
        """Return the kept lines."""
        del now_s
        return list(self._lines)

    def total(self, now_s: float) -> int:
        """Return the number of lines ever appended."""
        del now_s
        return self._total

    def is_complete(self) -> bool:
        """Return whether the log is complete."""
        return self._is_complete

    def next_s(self, now_s: float) -> float | None:
        """Return None: lines come when they are appended."""
        del now_s
        return None

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function on each new line."""
        self._watchers.append(wake)
        return lambda: self._watchers.remove(wake)

    def _wake(self) -> None:
        for wake in list(self._watchers):
            wake()


class ContainerLog:
    """The log of one run of a simulated container."""

    def __init__(self, run: PodRun, container: Mapping[str, Any], run_index: int) -> None:
        self._run = run
        self._container = container
        self._index = run_index
        self._container_run: ContainerRun = {
            container_run.name: container_run for _, container_run in run.containers()
        }[container["name"]]

    def lines(self, now_s: float) -> list[Line]:
        """Return the lines up to now."""
        return [line for line in self._all_lines() if line.at_s <= now_s]

    def total(self, now_s: float) -> int:
        """Return the number of lines up to now."""
        return len(self.lines(now_s))

    def is_complete(self) -> bool:
        """Return whether the run has terminated."""
        return not (
            self._container_run.is_running and self._container_run.restart_count == self._index
        )

    def next_s(self, now_s: float) -> float | None:
        """Return when the next line is due."""
        return min((line.at_s for line in self._all_lines() if line.at_s > now_s), default=None)

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the pod changes."""
        self._run.watchers.append(wake)
        return lambda: self._run.watchers.remove(wake)

    def _all_lines(self) -> Iterable[Line]:
        container_run, terminated = self._container_run, self._container_run.terminated_run
        if container_run.started_s is not None and container_run.restart_count == self._index:
            started_s, finished_s, code = container_run.started_s, None, 0
        elif terminated is not None and terminated.run_index == self._index:
            started_s, finished_s, code = (
                terminated.started_s,
                terminated.finished_s,
                terminated.exit_code,
            )
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
            f"container {container_run.name} of pod {metadata.get('namespace')}/{metadata['name']} "
            f"started on node {spec.get('nodeName')} at {time_text(started_s)}; image "
            f"{self._container.get('image')} is simulated and produces no output",
        )
        if finished_s is not None:
            yield Line(finished_s, f"container {container_run.name} exited with code {code}")

    def _behaviour(self) -> Behaviour:
        try:
            return behaviour_of(
                self._run.pod,
                self._container,
                is_init=self._container_run.kind == "init",
                run_index=self._index,
                settings=self._run.settings,
            )
        except ValueError:
            # An event of the pod names the invalid annotation.
            return Behaviour(0.0)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Selection and format of log lines."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: float | None = None
    limit_bytes: int | None = None


async def read_log(source: LogSource, options: LogOptions, clock: Clock) -> AsyncIterator[bytes]:
    """Yield the selected lines, and new ones while following."""
    bytes_left = options.limit_bytes
    async for line in _lines(source, options, clock):
        if options.since_s is not None and line.at_s < options.since_s:
            continue
        data = _format(line, options).encode()
        if bytes_left is not None:
            data = data[:bytes_left]
            bytes_left -= len(data)
        yield data
        if bytes_left == 0:
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
    has_news = asyncio.Event()
    unwatch = source.watch(has_news.set)
    try:
        while True:
            has_news.clear()
            is_complete = source.is_complete()
            now_s = clock.now_s()
            total = source.total(now_s)
            latest = source.lines(now_s)
            for line in latest[len(latest) - min(total - seen, len(latest)) :]:
                yield line
            seen = total
            if is_complete:
                return
            await _wait(has_news, source.next_s(now_s), now_s)
    finally:
        unwatch()


async def _wait(has_news: asyncio.Event, next_s: float | None, now_s: float) -> None:
    try:
        async with asyncio.timeout(None if next_s is None else max(next_s - now_s, 0.0)):
            await has_news.wait()
    except TimeoutError:
        pass  # The next line is due.


def _format(line: Line, options: LogOptions) -> str:
    if not options.timestamps:
        return f"{line.text}\n"
    nanoseconds = round((line.at_s % 1) * 1e9)
    return f"{time_text(line.at_s)[:-1]}.{nanoseconds:09d}Z {line.text}\n"
