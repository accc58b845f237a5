"""Cost of an event while thousands of pods are unschedulable.

Required: the hints of an event that concerns 10,000 unschedulable pods of 50 shapes take 2 ms.
Moving the pods that the event helps, which costs far more, is measured separately.
"""

import argparse
import gc
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import machine  # noqa: E402
from kubesched.api.decode import decode_as  # noqa: E402
from kubesched.api.node import Node  # noqa: E402
from kubesched.api.pod import Pod  # noqa: E402
from kubesched.config.load import default_config  # noqa: E402
from kubesched.framework.cluster_event import (  # noqa: E402
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    SCHEDULE_ATTEMPT_FAILURE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from kubesched.framework.queued_pod import QueuedPodInfo  # noqa: E402
from kubesched.framework.runtime.enqueue import (  # noqa: E402
    enqueue_registrations,
    pre_enqueue_calls,
    queue_sort_key,
)
from kubesched.framework.runtime.profile import Profile  # noqa: E402
from kubesched.kit.clock import SystemClock  # noqa: E402
from kubesched.kit.log import NullLog  # noqa: E402
from kubesched.metrics.scheduler import SchedulerMetrics  # noqa: E402
from kubesched.profile.build import build  # noqa: E402
from kubesched.queue.hints import Hints  # noqa: E402
from kubesched.queue.interface import (  # noqa: E402
    Occurrence,
    ProfileQueueing,
    QueueSettings,
    Recorder,
)
from kubesched.queue.nominator import Nominator  # noqa: E402
from kubesched.queue.scheduling_queue import SchedulingQueue  # noqa: E402
from kubesched.queue.unschedulable_pods import UnschedulablePods  # noqa: E402
from kubesched.snapshot.node_info import NodeInfo  # noqa: E402
from kubesched.snapshot.pod_info import PodInfo, PodShapes  # noqa: E402

MILLISECONDS_MAX = 2.0
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_HOST = "kubernetes.io/hostname"
_REJECTORS = (
    {"NodeResourcesFit"},
    {"NodeAffinity", "TaintToleration"},
    {"PodTopologySpread", "NodeResourcesFit"},
    {"InterPodAffinity"},
)


@dataclass(frozen=True)
class EventCase:
    """An event with its old and new object."""

    title: str
    event: ClusterEvent
    old: Any
    new: Any


def main(argv: Sequence[str] | None = None) -> int:
    """Print the cost of each event; with --check, return 1 if it is too high."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--shapes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="fail if the hints take over 2 ms")
    options = parser.parse_args(argv)
    shapes = PodShapes()
    waiting = _waiting(shapes, options.pods, options.shapes)
    profile = next(iter(build(default_config()).profiles.values()))
    sys.stdout.write(f"{options.pods} unschedulable pods of {options.shapes} shapes\n\n")
    sys.stdout.write(f"{'event':44} {'hints ms':>9} {'woken':>7} {'total ms':>9}\n")
    slowest_ms = 0.0
    for case in _event_cases(shapes):
        hints_ms, woken, total_ms = _measure(profile, waiting, case, options.rounds)
        slowest_ms = max(slowest_ms, hints_ms)
        sys.stdout.write(f"{case.title:44} {hints_ms:9.2f} {woken:7} {total_ms:9.2f}\n")
    sys.stdout.write(f"\nLimit of the hints: {MILLISECONDS_MAX:g} ms\n{machine.description()}\n")
    return int(options.check and slowest_ms > MILLISECONDS_MAX)


def _event_cases(shapes: PodShapes) -> list[EventCase]:
    bound = _pod(shapes, "bound", labels={"app": "other"}, spec={"nodeName": "n1"})
    spread = _pod(shapes, "spread", labels={"app": "web"}, spec={"nodeName": "n1"})
    label = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
    small, large = _node("n2", cpu="10m"), _node("n3", cpu="64")
    labelled = _node("n2", cpu="10m", labels={"pool": "p1"})
    return [
        EventCase("pod bound, matches no constraint", ASSIGNED_POD_ADD, None, bound),
        EventCase("pod bound, matches spread constraints", ASSIGNED_POD_ADD, None, spread),
        EventCase("pod deleted", ASSIGNED_POD_DELETE, bound, None),
        EventCase("node added, too small", NODE_ADD, None, small),
        EventCase("node added, large", NODE_ADD, None, large),
        EventCase("node label changed", label, small, labelled),
    ]


def _measure(
    profile: Profile, waiting: Sequence[QueuedPodInfo], case: EventCase, rounds: int
) -> tuple[float, int, float]:
    hints, total, woken = [], [], 0
    for _ in range(rounds):
        hints.append(_hints_ms(profile, waiting, case))
        queue = _rejected_queue(profile, waiting)
        move = partial(queue.move_all_to_active_or_backoff_queue, case.event, case.old, case.new)
        total.append(_milliseconds(move))
        woken = len(waiting) - len(queue.pending_pods()[0]["Unschedulable"])
    return statistics.median(hints), woken, statistics.median(total)


def _hints_ms(profile: Profile, waiting: Sequence[QueuedPodInfo], case: EventCase) -> float:
    recorder = Recorder(SchedulerMetrics())
    hints = Hints(_queueing(profile), clock=SystemClock(), recorder=recorder, log=NullLog())
    pods = UnschedulablePods(recorder)
    for queued in waiting:
        pods.add_or_update(queued, SCHEDULE_ATTEMPT_FAILURE)
    occurrence = Occurrence(case.event, case.old, case.new)

    def run_hints() -> None:
        if hints.is_of_interest(occurrence.event):
            for group in pods.groups:
                hints.worth_requeuing(group, occurrence, None)

    return _milliseconds(run_hints)


def _milliseconds(run: Callable[[], None]) -> float:
    # Processor time, which other load does not affect.
    start = process_time()
    run()
    return (process_time() - start) * 1000


def _rejected_queue(profile: Profile, waiting: Sequence[QueuedPodInfo]) -> SchedulingQueue:
    """Return a queue whose pods were all tried once and rejected."""
    log = NullLog()
    queue = SchedulingQueue(
        _queueing(profile),
        less=profile.less,
        key=queue_sort_key(profile),
        settings=QueueSettings(),
        clock=SystemClock(),
        metrics=SchedulerMetrics(),
        log=log,
        nominator=Nominator(
            nominate=lambda _pod, _node: None,
            remove=lambda _pod: None,
            pod_of=lambda _key: None,
            log=log,
        ),
    )
    for one in waiting:
        queue.add(one.pod)
        queued = queue.pop()
        assert queued is not None
        queued.unschedulable_plugins = set(one.unschedulable_plugins)
        queue.add_unschedulable_if_not_present(queued)
    gc.collect()
    gc.freeze()
    return queue


def _queueing(profile: Profile) -> dict[str, ProfileQueueing]:
    queueing = ProfileQueueing(pre_enqueue_calls(profile), enqueue_registrations(profile))
    return {profile.name: queueing}


def _waiting(shapes: PodShapes, pod_count: int, shape_count: int) -> list[QueuedPodInfo]:
    waiting = []
    for i in range(pod_count):
        queued = QueuedPodInfo(_waiting_pod(shapes, i, shape_count), timestamp_s=0.0)
        queued.unschedulable_plugins = set(_REJECTORS[i % shape_count % len(_REJECTORS)])
        waiting.append(queued)
    return waiting


def _waiting_pod(shapes: PodShapes, i: int, shape_count: int) -> PodInfo:
    shape = i % shape_count
    # Each pod has its own labels, as in a StatefulSet: pods share a shape, not a template.
    labels = {"app": "web", "statefulset.kubernetes.io/pod-name": f"web-{i}"}
    selector = {"matchLabels": {"app": "web"}}
    spec: dict[str, Any] = {
        "nodeSelector": {"pool": f"p{shape}"},
        "affinity": {
            "podAntiAffinity": {_REQUIRED: [{"topologyKey": _HOST, "labelSelector": selector}]}
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ],
    }
    return _pod(shapes, f"web-{i}", labels=labels, spec=spec, cpu=f"{shape + 1}00m")


def _pod(
    shapes: PodShapes, name: str, *, labels: dict[str, str], spec: dict[str, Any], cpu: str = "1"
) -> PodInfo:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": {"containers": [container], **spec},
    }
    return shapes.pod_info(decode_as(Pod, document))


def _node(name: str, *, cpu: str, labels: dict[str, str] | None = None) -> NodeInfo:
    document = {
        "metadata": {"name": name, "labels": {_HOST: name, **(labels or {})}},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    }
    return NodeInfo(decode_as(Node, document))


if __name__ == "__main__":
    sys.exit(main())
