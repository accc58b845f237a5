"""Cost of recording every decision, for later explanation.

Run it with `python benchmarks/explain.py [--nodes N] [workload ...]`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from time import perf_counter_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.drain import build_profiles, load
from benchmarks.generate import Maker, burst_of
from benchmarks.workload import load_workload
from kubesched.attempt.diagnosis import FitError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.framework.cycle_state import CycleState
from kubesched.kit.memory import collect_rarely, keep_heap
from kubesched.profile.build import Built
from kubesched.snapshot.pod_info import PodInfo

WORKLOADS = (
    "one-template",
    "every-pod-distinct",
    "templates-300",
    "node-affinity",
    "hard-spread-zone",
    "hard-spread-host",
    "soft-spread",
    "affinity-zone",
    "anti-affinity-host",
    "preferred-affinity",
    "owned",
    "nominated-1000",
    "host-ports",
    "daemonset",
    "unschedulable",
)
TOP = 5
EXAMPLES = 3


def measured(
    cache: Cache, built: Built, burst: list[PodInfo], search: Search
) -> tuple[list[int], list[int]]:
    """Decide on a burst; return the nanoseconds of each decision, and of recording it."""
    deciding, recording = [], []
    for pod in burst:
        view, state = cache.snapshot(), CycleState()
        profile = built.profiles[pod.scheduler_name]
        built.handles[profile.name].view = view
        start = perf_counter_ns()
        try:
            result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
        except FitError as failure:
            text = str(failure)
            end = perf_counter_ns()
            attempt = AttemptRecord(profile, view, pod, state, failure=failure, message=text)
            attempt.summary(top=TOP, examples=EXAMPLES)
            recording.append(perf_counter_ns() - end)
            deciding.append(end - start)
            continue
        end = perf_counter_ns()
        AttemptRecord(profile, view, pod, state, result=result).summary(top=TOP, examples=EXAMPLES)
        recording.append(perf_counter_ns() - end)
        deciding.append(end - start)
        cache.assume_pod(pod, result.suggested_host)
        profile.run_reserve_plugins_reserve(state, pod, result.suggested_host)
    return deciding, recording


def main() -> int:
    """Print the median microseconds of each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=600)
    options = parser.parse_args()
    keep_heap()
    collect_rarely()
    head = f"{'workload':<22}{'evaluated nodes':>16}{'decision µs':>13}{'recording µs':>15}"
    sys.stdout.write(f"{head}\n")
    for name in options.workloads:
        workload = load_workload(name)
        for all_nodes in (True, False):
            maker, cache = Maker(options.nodes, seed=1), Cache()
            load(cache, maker.cluster(workload.cluster))
            others, waiting = burst_of(maker.workload(workload, options.pods))
            load(cache, others)
            burst = load(cache, waiting)
            built = build_profiles(workload)
            deciding, recording = measured(cache, built, burst, Search(all_nodes=all_nodes))
            scope = "all" if all_nodes else "sampled"
            decision, record = median(deciding) / 1000, median(recording) / 1000
            sys.stdout.write(f"{name:<22}{scope:>16}{decision:>13.0f}{record:>15.0f}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
