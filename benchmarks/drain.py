"""Decisions on a burst, in memory, and their cost.

Owns what a measured decision is: PreFilter to the chosen node, assume into the columns and
Reserve, through the public framework. Parsing is timed separately.

A pod that fits nowhere goes through PostFilter and gets its message. If PostFilter nominates a
node, the nomination is written, the victims are removed without waiting for a kubelet, and the pod
is retried immediately: the removal would requeue it, and it has the highest priority of all pending
pods. Both attempts and the evictions count as one decision.
Upstream: pkg/scheduler/schedule_one.go
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns, process_time
from typing import cast

import numpy as np
from numpy.typing import NDArray

from benchmarks import user_plugins
from benchmarks.burst_result import BurstResult
from benchmarks.generate import Line, burst_of
from benchmarks.machine import resident_mb
from benchmarks.workload import Workload
from kubesched.api.decode import decode_as, decode_object
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.attempt.diagnosis import FitError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.config.load import default_config, load_config_object
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.sandbox.budget import Budgets, Guard
from kubesched.framework.sandbox.sandboxed_plugin import sandboxed
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.profile.build import Built, build
from kubesched.snapshot.pod_info import PodInfo


class Drained(BurstResult, frozen=True, kw_only=True):
    """The result of one run of a workload."""

    parse_seconds: float
    max_us: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run, and whether verdicts are kept."""

    seconds_max: float
    """The maximum duration of a run."""
    caching: bool = True
    """Whether the framework keeps verdicts from pod to pod."""


def load(cache: Cache, lines: Iterable[Line]) -> list[PodInfo]:
    """Put objects into a cache as watches would; return the pods of the burst."""
    burst: list[PodInfo] = []
    for line in lines:
        if line.kind == "Node":
            cache.add_node(decode_as(Node, line.data), line.data)
        elif line.kind != "Pod":
            cache.put(decode_object(line.data))
        else:
            pod = cache.pod_info(decode_as(Pod, line.data), line.data)
            if pod.node_name:
                cache.add_pod(pod)
            elif line.measured:
                burst.append(pod)
            else:
                cache.nominate_pod(pod, pod.nominated_node_name)
    return burst


def build_profiles(workload: Workload, *, caching: bool = True) -> Built:
    """Return the profiles of a workload's configuration, with or without kept verdicts."""
    config = default_config() if workload.config is None else load_config_object(workload.config)
    registry = Registry()
    for name in workload.user_plugins:
        registry.register(name, getattr(user_plugins, name))
    guard = Guard(SystemClock(), NullLog(), _Uncounted())
    built = build(
        config,
        out_of_tree=registry,
        # Sandboxed, as in the running scheduler.
        sandboxed=lambda profile, plugin: sandboxed(guard, Budgets(), profile, plugin),
    )
    if not caching:
        for profile in built.profiles.values():
            profile.without_caching()
    return built


class _Uncounted:
    """Fails the run at the first fault of a plugin."""

    def show(self) -> None:
        """Show nothing."""

    def count(self, plugin: str, point: str, profile: str, fault: str) -> None:
        """Fail."""
        raise AssertionError(f"{plugin} at {point}: {fault}")


@dataclass(slots=True)
class Drain:
    """Decides on pods one after the other."""

    cache: Cache
    built: Built
    search: Search
    placed: int = 0
    preempting: int = 0
    unschedulable: int = 0
    last_host: str = ""
    """The node of the last placed pod."""
    latencies_ns: list[int] = field(default_factory=list)

    def run(self, burst: list[PodInfo], seconds_max: float) -> float:
        """Decide on a burst until it is empty or time is up; return the seconds it took."""
        start = perf_counter_ns()
        before, end = start, start + int(seconds_max * 1e9)
        note = self.latencies_ns.append
        for pod in burst:
            self.decide(pod)
            now = perf_counter_ns()
            note(now - before)
            before = now
            if now > end:
                break
        return (before - start) / 1e9

    def decide(self, pod: PodInfo) -> None:
        """Decide on one pod."""
        preemption = self.attempt(pod)
        if preemption is None:
            return
        assert preemption.victims is not None
        for victim in preemption.victims.pods:
            # Removal reads only the uid.
            self.cache.remove_pod(cast("PodInfo", victim))
        self.cache.nominate_pod(pod, preemption.nominated_node_name)
        pod.nominated_node_name = preemption.nominated_node_name
        self.preempting += 1
        second = self.attempt(pod)
        assert second is None, f"pod {pod.key} does not fit on its nominated node"

    def attempt(self, pod: PodInfo) -> PostFilterResult | None:
        """Try a pod once; return PostFilter's result if it nominated a node."""
        view = self.cache.snapshot()
        profile = self.built.profiles[pod.scheduler_name]
        self.built.handles[profile.name].view = view
        state = CycleState()
        try:
            result = run_without_extenders(schedule_pod(profile, view, state, pod, self.search))
        except FitError as failure:
            preemption, status = profile.run_post_filter_plugins(
                state, pod, failure.diagnosis.node_to_status
            )
            failure.diagnosis.post_filter_message = status.message
            text = str(failure)
            assert text.startswith("0/")
            if status.is_success and preemption is not None and preemption.nominated_node_name:
                return preemption
            self.unschedulable += 1
            return None
        self.cache.assume_pod(pod, result.suggested_host)
        rejected = profile.run_reserve_plugins_reserve(state, pod, result.suggested_host)
        assert rejected is None, f"pod {pod.key}: {rejected}"
        self.last_host = result.suggested_host
        self.placed += 1
        return None


def drain(
    cache: Cache,
    workload: Workload,
    lines: Iterable[Line],
    limits: Limits,
    around: AbstractContextManager[object] | None = None,
) -> Drained:
    """Load the objects of a workload, then decide on its burst.

    Args:
        cache: the cluster; decisions change it.
        workload: the workload to run.
        lines: the workload's objects, and its burst.
        limits: the maximum duration, and whether verdicts are kept.
        around: entered after loading, left after the last decision.
    """
    others, waiting = burst_of(lines)
    load(cache, others)
    start = perf_counter()
    burst = load(cache, waiting)
    parse_seconds = perf_counter() - start
    del others, waiting
    runner = Drain(
        cache,
        build_profiles(workload, caching=limits.caching),
        Search(all_nodes=not workload.adaptive_sampling),
    )
    with around or nullcontext():
        cpu_start = process_time()
        seconds = runner.run(burst, limits.seconds_max)
        cpu_seconds = process_time() - cpu_start
    micros: NDArray[np.float64] = np.array(runner.latencies_ns or [0]) / 1000
    return Drained(
        burst=len(burst),
        decided=len(runner.latencies_ns),
        placed=runner.placed,
        preempting=runner.preempting,
        unschedulable=runner.unschedulable,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        parse_seconds=parse_seconds,
        p50_us=float(np.percentile(micros, 50)),
        p99_us=float(np.percentile(micros, 99)),
        max_us=float(micros.max()),
        resident_mb=resident_mb(),
    )
