"""A burst of pods past extenders that fail most of the time.

The pods fill the cluster completely, so that a lost pod, or one counted twice, shows. A seed draws
the faults; in the end the extenders recover.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from conformance.extender.cases import NODES, Extender, Json
from conformance.extender.scripts import closes, is_silent, keeps_all, resets, says, scores, sends
from conformance.extender.server import Exchange, Script
from conformance.extender.stage import PODS, POLL_S, Stage
from kubesched.testing import SchedulerName, SchedulerProcess, SchedulerSettings, start_scheduler

PODS_MAX = 64
POD_CPU = "250m"  # 16 of them fill a node.
STORM_S = 6.0
WAIT_S_MAX = 60.0
FAILURE_SHARE = 0.5
WRONG: tuple[Script, ...] = (
    says(b"", 500),
    says(b"{"),
    says({"NodeNames": ["node-x"], "Error": 3}),
    sends(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"),
    sends(b"nonsense"),
    closes,
    resets,
    is_silent,
)
STANZA = {"nodeCacheCapable": True, "httpTimeout": "150ms"}


@dataclass(slots=True)
class Storm:
    """What is drawn, and for how long."""

    rng: random.Random
    until_s: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def or_fails(self, verb: str, right: Script) -> Script:
        """Do the right thing, or fail in one of many ways."""

        def script(exchange: Exchange) -> None:
            with self._lock:
                is_wrong = self.rng.random() < FAILURE_SHARE and time.monotonic() < self.until_s
                chosen = self.rng.choice(WRONG)
                self.failed[verb] += is_wrong
            (chosen if is_wrong else right)(exchange)

        return script


def run_storm(stage: Stage, name: SchedulerName, seed: int = 1) -> list[str]:
    """Run it with one scheduler; return what is wrong afterwards."""
    storm = Storm(random.Random(seed))

    def bind(exchange: Exchange) -> None:
        # Sometimes the pod is bound, and the scheduler does not learn it from us.
        stage.bind(exchange.json)
        storm.or_fails("bind answer", says({"Error": ""}))(exchange)

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
            # One that binds after the scheduler gave it up would make room for two.
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
        found = _checks(stage, scheduler)
    finally:
        scheduler.terminate()
        stage.clean_up()
    print(
        f"storm: {sum(storm.failed.values())} failures of {name}'s extenders: {dict(storm.failed)}"
    )
    return found


def _create(stage: Stage, name: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": POD_CPU}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    stage.api.post(PODS, body).must(201)


def _checks(stage: Stage, scheduler: SchedulerProcess) -> list[str]:
    """Return what is wrong: every place must be taken once, and no other."""
    left = _waiting(stage, scheduler, 0)
    if left:
        return [f"never bound: {', '.join(left)}"]
    taken = Counter(pod["spec"]["nodeName"] for pod in _pods(stage))
    full = dict.fromkeys(NODES, PODS_MAX // len(NODES))
    found = [] if taken == full else [f"places taken: {dict(taken)}"]
    # There is no room for one more, and there is as soon as one leaves.
    _create(stage, "one-more")
    rejection = f"0/{len(NODES)} nodes are available: {len(NODES)} Insufficient cpu"
    if not _is_rejected(stage, rejection):
        found.append(f"one more pod is not refused by {rejection!r}")
    stage.api.delete(f"{PODS}/burst-0").must(200)
    if _waiting(stage, scheduler, 0):
        found.append("the place of a pod that left is not taken")
    return [*found, *_cache_problems(scheduler)]


def _pods(stage: Stage) -> list[Json]:
    items: list[Json] = stage.api.get(PODS).must(200).json["items"]
    return items


def _waiting(stage: Stage, scheduler: SchedulerProcess, wanted: int) -> list[str]:
    """Return the pods that have no node, once there are no more than wanted, or time is up."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while True:
        scheduler.check()
        left = [one["metadata"]["name"] for one in _pods(stage) if "nodeName" not in one["spec"]]
        if len(left) <= wanted or time.monotonic() > deadline_s:
            return left if len(left) > wanted else []
        time.sleep(POLL_S)


def _is_rejected(stage: Stage, text: str) -> bool:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        pod = stage.api.get(f"{PODS}/one-more").must(200).json
        said = [one.get("message", "") for one in pod["status"].get("conditions", ())]
        if any(one.startswith(text) for one in said):
            return True
        time.sleep(POLL_S)
    return False


def _cache_problems(scheduler: SchedulerProcess) -> list[str]:
    """Have the scheduler compare what it believes with what there is."""
    scheduler.send_signal(signal.SIGUSR2)
    scheduler.until_logged("Dump of scheduling queue")
    return scheduler.lines("Cache mismatch")
