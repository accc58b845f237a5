"""Isolated benchmark runs: loads a cluster once, and forks for every run."""

from __future__ import annotations

import cProfile
import gc
import io
import multiprocessing
import pstats
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TypeVar

from benchmarks.drain import Drained, Limits, drain, load
from benchmarks.generate import Line, Maker
from benchmarks.machine import resident_mb
from benchmarks.oracle import OracleFigures
from benchmarks.workload import Workload
from kubesched.cache.cache import Cache
from kubesched.kit.memory import collect_rarely

_T = TypeVar("_T")
# Floors are set at 5,000 nodes; at 15,000 a decision may take three times as long.
SLOWER_MAX = {5_000: 1, 15_000: 3, 100_000: 20}


@dataclass(frozen=True, slots=True)
class Figures:
    """All runs of one workload at one size."""

    workload: Workload
    node_count: int
    runs: tuple[Drained, ...]
    oracle: OracleFigures | None = None

    @property
    def rate(self) -> float:
        """Return the median of decisions per second."""
        return median(run.rate for run in self.runs)

    @property
    def cpu_rate(self) -> float:
        """Return the median of decisions per second of processor time."""
        return median(run.cpu_rate for run in self.runs)

    @property
    def rates(self) -> tuple[float, float]:
        """Return the lowest and the highest rate of decisions per second."""
        return min(run.rate for run in self.runs), max(run.rate for run in self.runs)

    @property
    def floor(self) -> float | None:
        """Return the required decisions per second at this size; None if none is set."""
        times_slower = SLOWER_MAX.get(self.node_count)
        if not self.workload.floor or times_slower is None:
            return None
        return self.workload.floor / times_slower

    def middle(self, figure: Callable[[Drained], float]) -> float:
        """Return the median of a figure over the runs."""
        return median(figure(run) for run in self.runs)


@dataclass(slots=True)
class Session:
    """The clusters of one size, loaded on demand; only the last one is kept."""

    node_count: int
    seed: int = 1
    seconds_max: float = 5
    pods_per_node: int | None = None
    burst: int | None = None
    caching: bool = True
    load_seconds: float = 0
    load_mb: float = 0
    _loaded: dict[str, tuple[Cache, Maker]] = field(default_factory=dict)

    def runs(self, workload: Workload, count: int) -> Iterator[Drained]:
        """Yield the figures of a number of runs."""
        cache, maker = self._cluster(workload.cluster)
        for _ in range(count):
            yield in_fork(lambda: self._drain(cache, maker, workload))

    def profile(self, workload: Workload, top: int) -> str:
        """Return the profile of one run: functions by their own time, and by total time."""
        cache, maker = self._cluster(workload.cluster)

        def profiled() -> str:
            profiler = cProfile.Profile()
            self._drain(cache, maker, workload, profiler)
            text = io.StringIO()
            statistics = pstats.Stats(profiler, stream=text)
            statistics.sort_stats("tottime").print_stats(top)
            statistics.sort_stats("cumulative").print_stats(top)
            return text.getvalue()

        return in_fork(profiled)

    def lines(self, workload: Workload) -> Iterator[Line]:
        """Yield the objects of the cluster and the workload, for another scheduler."""
        maker = Maker(self.node_count, self.seed, self.pods_per_node)
        yield from maker.cluster(workload.cluster)
        yield from maker.workload(workload, self.burst)

    def _drain(
        self,
        cache: Cache,
        maker: Maker,
        workload: Workload,
        profiler: cProfile.Profile | None = None,
    ) -> Drained:
        lines = maker.workload(workload, self.burst)
        limits = Limits(self.seconds_max, self.caching)
        return drain(cache, workload, lines, limits, _undisturbed(profiler))

    def _cluster(self, name: str) -> tuple[Cache, Maker]:
        if name not in self._loaded:
            self._loaded.clear()
            gc.unfreeze()
            gc.collect()
            gc.disable()
            start = perf_counter()
            maker, cache = Maker(self.node_count, self.seed, self.pods_per_node), Cache()
            load(cache, maker.cluster(name))
            gc.collect()
            gc.freeze()
            self.load_seconds, self.load_mb = perf_counter() - start, resident_mb()
            self._loaded[name] = cache, maker
        return self._loaded[name]


@contextmanager
def _undisturbed(profiler: cProfile.Profile | None) -> Iterator[None]:
    """Set up the garbage collector as in a running scheduler: loaded objects are frozen."""
    # A fork copies each page when it is first touched; a running scheduler copies none. Therefore,
    # all objects are touched first.
    gc.unfreeze()
    gc.collect()
    for item in gc.get_objects():
        gc.get_referents(item)
    gc.freeze()
    collect_rarely()
    gc.enable()
    with profiler or nullcontext():
        yield


def in_fork(work: Callable[[], _T]) -> _T:
    """Run a function in a copy of this process; return its result."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(work()))
    process.start()
    sender.close()
    try:
        result: _T = receiver.recv()
    except EOFError:
        raise SystemExit("a run failed, see above") from None
    finally:
        process.join()
    return result
