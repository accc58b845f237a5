"""A burst of pods with extenders that fail half of the time.

The pods fill the cluster completely, so that a pod that is lost or counted twice is noticed. The
faults come from a seed; at the end the extenders recover.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from conformance.extender.cases import NODES, Extender, Json
from conformance.extender.scripts import (
    closes,
    is_silent,
    keeps_all,
    resets,
    responds,
    scores,
    sends,
)
from conformance.extender.server import Exchange, Script
from conformance.extender.stage import PODS, POLL_S, Stage
from kubesched.testing import SchedulerName, SchedulerProcess, SchedulerSettings, start_scheduler

PODS_MAX = 64
POD_CPU = "250m"  # 16 of them fill a node.
STORM_S = 6.0
WAIT_S_MAX = 60.0
FAILURE_SHARE = 0.5
WRONG: tuple[Script, ...] = (
    responds(b"", 500),
    responds(b"{"),
    responds({"NodeNames": ["node-x"], "Error": 3}),
    sends(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"),
    sends(b"nonsense"),
    closes,
    resets,
    is_silent,
)
STANZA = {"nodeCacheCapable": True, "httpTimeout": "150ms"}


@dataclass(slots=True)
class Storm:
    """The random faults, until a point in time."""

    rng: random.Random
    until_s: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def or_fails(self, verb: str, right: Script) -> Script:
        """Run the valid script, or a random failing one."""

        def script(exchange: Exchange) -> None:
            with self._lock:
                is_wrong = self.rng.random() < FAILURE_SHARE and time.monotonic() < self.until_s
                chosen = self.rng.choice(WRONG)
                self.failed[verb] += is_wrong
            (chosen if is_wrong else right)(exchange)

        return script


def run_storm(stage: Stage, name: SchedulerName, seed: int = 1) -> list[str]:
    """Run the burst with one scheduler; return the problems."""
    storm = Storm(random.Random(seed))

    def bind(exchange: Exchange) -> None:
        # Sometimes the pod is bound, and the response fails.
        stage.bind(exchange.json)
        storm.or_fails("bind answer", responds({"Error": ""}))(exchange)

    extenders = [
        Extender(
            "storm",
            {
                "filter": storm.or_fails("filter", keeps_all),
                "prioritize": storm.or_fails("prioritize", scores(node_a=5, node_b=5)),
            },
            STANZA,
            is_for_all=True,
        ),
        Extender(
            "storm-binder",
            {"bind": storm.or_fails("bind", bind)},
            # Binding after the scheduler's timeout would let two pods have the same place.
            {"httpTimeout": "3s"},
            is_for_all=True,
        ),
        Extender(
            "storm-too",
            {"filter": storm.or_fails("ignorable filter", keeps_all)},
            {**STANZA, "ignorable": True},
            is_for_all=True,
        ),
    ]
    settings = SchedulerSettings(
        extenders=stage.stanzas(extenders), config={"podMaxBackoffSeconds": 2}, flags=("--v=2",)
    )
    scheduler = start_scheduler(stage.cluster, stage.cluster.group, name, settings)
    try:
        storm.until_s = time.monotonic() + STORM_S
        for number in range(PODS_MAX):
            _create(stage, f"burst-{number}")
        problems = _checks(stage, scheduler)
    finally:
        scheduler.terminate()
        stage.clean_up()
    print(
        f"storm: {sum(storm.failed.values())} failures of {name}'s extenders: {dict(storm.failed)}"
    )
    return problems


def _create(stage: Stage, name: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": POD_CPU}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    stage.api.post(PODS, body).must(201)


def _checks(stage: Stage, scheduler: SchedulerProcess) -> list[str]:
    """Return the problems: every place must be taken exactly once."""
    pending = _pending(stage, scheduler)
    if pending:
        return [f"never bound: {', '.join(pending)}"]
    taken = Counter(pod["spec"]["nodeName"] for pod in _pods(stage))
    full = dict.fromkeys(NODES, PODS_MAX // len(NODES))
    problems = [] if taken == full else [f"places taken: {dict(taken)}"]
    # There is no room for one more pod until another one is deleted.
    _create(stage, "one-more")
    rejection = f"0/{len(NODES)} nodes are available: {len(NODES)} Insufficient cpu"
    if not _is_rejected(stage, rejection):
        problems.append(f"one more pod is not rejected with {rejection!r}")
    stage.api.delete(f"{PODS}/burst-0").must(200)
    if _pending(stage, scheduler):
        problems.append("the place of a deleted pod is not taken")
    return [*problems, *_cache_problems(scheduler)]


def _pods(stage: Stage) -> list[Json]:
    items: list[Json] = stage.api.get(PODS).must(200).json["items"]
    return items


def _pending(stage: Stage, scheduler: SchedulerProcess) -> list[str]:
    """Return the pods without a node at the timeout; empty as soon as all have one."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while True:
        scheduler.check()
        pending = [pod["metadata"]["name"] for pod in _pods(stage) if "nodeName" not in pod["spec"]]
        if not pending or time.monotonic() > deadline_s:
            return pending
        time.sleep(POLL_S)


def _is_rejected(stage: Stage, text: str) -> bool:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        pod = stage.api.get(f"{PODS}/one-more").must(200).json
        messages = [one.get("message", "") for one in pod["status"].get("conditions", ())]
        if any(message.startswith(text) for message in messages):
            return True
        time.sleep(POLL_S)
    return False


def _cache_problems(scheduler: SchedulerProcess) -> list[str]:
    """Have the scheduler compare its cache with the API server."""
    scheduler.send_signal(signal.SIGUSR2)
    scheduler.until_logged("Dump of scheduling queue")
    return scheduler.lines("Cache mismatch")
