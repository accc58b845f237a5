"""One side of the comparison: a bare control plane with one scheduler.

Owns applying steps, detecting when the cluster is idle, and emptying it. Never compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from time import perf_counter

from conformance.side_by_side.placeholders import Placeholders
from conformance.side_by_side.state import Events, State, events_of, state_of
from conformance.side_by_side.steps import (
    CLUSTER_KINDS,
    KINDS,
    NAMESPACES,
    Obj,
    Op,
    Step,
    path_of,
)
from conformance.side_by_side.store import Store
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.testing import (
    RealCluster,
    Response,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    start_scheduler,
)

SECOND_PROFILE = "second-scheduler"
PROFILES = (
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": SECOND_PROFILE,
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [
                            {"name": "cpu", "weight": 1},
                            {"name": "memory", "weight": 1},
                        ],
                    }
                },
            }
        ],
    },
)
_SCHEDULER_NAMES = frozenset({"default-scheduler", SECOND_PROFILE})

_SENTINEL = "sentinel"
# Kinds with finalizers from an admission plugin, which only a controller removes.
_PROTECTED = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
_NODE_COUNT = re.compile(r"^0/(\d+) nodes are available")
_START_S_MAX = 60.0
_REST_S_MAX = 15.0
_CALM_ROUNDS = 2


class Side:
    """A control plane that is started once, and a scheduler that can be restarted."""

    def __init__(self, cluster: RealCluster, scheduler: SchedulerName) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.process: SchedulerProcess | None = None
        self._api = cluster.api()
        self._store = Store(cluster, ignored_namespace=_SENTINEL)
        self._placeholders = Placeholders(self._api, self._store)
        self._numbers = count(1)
        self._runs = count(1)
        self._suffix = ""
        for name, labels in {**NAMESPACES, _SENTINEL: {}}.items():
            namespace = {"metadata": {"name": name, "labels": labels}}
            self._api.post("/api/v1/namespaces", namespace).must(201)
        self._api.post(path_of("PriorityClass"), _sentinel_class()).must(201)

    def close(self) -> None:
        """Close the connections to the server."""
        self._store.close()
        self._api.close()

    def start_scheduler(self) -> None:
        """Start or restart the scheduler, and wait until it schedules."""
        if self.process is not None:
            self.process.kill()
        # kube-scheduler logs the score of every node at level 10: ties are read from there.
        flags = ("-v=6", "--vmodule=schedule_one=10") if self._logs_scores else ("-v=6",)
        settings = SchedulerSettings(profiles=PROFILES, flags=flags)
        self.process = start_scheduler(self.cluster, self.cluster.group, self.scheduler, settings)
        if self._ask_sentinel(_START_S_MAX) is None:
            raise TimeoutError(f"{self.scheduler} did not try a pod\n{self.tail()}")

    @property
    def _logs_scores(self) -> bool:
        return self.scheduler == "kube-scheduler"

    def tail(self) -> str:
        """Return the end of the scheduler's log."""
        assert self.process is not None
        return self.cluster.group.tail(self.process.label)

    def apply(self, step: Step) -> list[int]:
        """Send the requests of a step and return the status codes."""
        codes: list[int] = []
        for op in map(self._renamed, step.ops):
            if op.verb == "remove" and op.kind in _PROTECTED:
                self._strip(op)
                # Pending pods are retried while the object exists, not during its deletion.
                self.rest()
            codes.extend(self._finish() if op.verb == "finish" else [self._send(op)])
        return codes

    def rest(self, timeout_s: float = _REST_S_MAX) -> str:
        """Wait until the cluster is idle; return what still changes at the timeout.

        In an idle cluster every pod has a verdict, the placeholder controllers have no work, and
        the scheduler has rejected two sentinel pods in a row without any other change in between:
        the rest of its queue is decided.
        """
        deadline = perf_counter() + timeout_s
        calm = 0
        reason = ""
        while calm < _CALM_ROUNDS:
            left_s = deadline - perf_counter()
            if left_s <= 0:
                return reason
            before = self._store.change_count
            if self._placeholders.work():
                calm = 0
                reason = "the placeholder controllers have work"
                continue
            undecided = self._undecided()
            if undecided:
                calm = 0
                reason = f"no verdict on {', '.join(undecided)}"
                self._store.wait_for(lambda seen=before: self._store.change_count != seen, 0.2)  # type: ignore[misc]
                continue
            node_count = self._ask_sentinel(left_s)
            expected = len(self._store.objects("Node"))
            is_calm = node_count == expected and self._store.change_count == before
            calm = calm + 1 if is_calm else 0
            reason = f"{node_count} of {expected} nodes seen, objects still change"
        return ""

    def wait_change(self, timeout_s: float) -> None:
        """Wait until an object changes, or until the timeout."""
        before = self._store.change_count
        self._store.wait_for(lambda: self._store.change_count != before, timeout_s)

    def state(self) -> State:
        """Return the compared state."""
        return state_of(self._store, self._suffix)

    def events(self) -> Events:
        """Return the events of this sequence."""
        names = {
            uid: key
            for uid, key in self._store.names.items()
            if not key.startswith(f"{_SENTINEL}/")
        }
        return events_of(self._api, names, self._suffix)

    def empty(self) -> None:
        """Remove all objects that sequences create, pods first.

        Later pods get another suffix: a binding in progress still writes its failure to the pod's
        name.
        """
        self._suffix = f"-r{next(self._runs)}"
        at_once = {"gracePeriodSeconds": 0}
        for namespace in NAMESPACES:
            self._api.delete(path_of("Pod", namespace), at_once).must(200)
        for kind in KINDS:
            if kind == "Pod":
                continue
            for path in self._collections(kind):
                self._remove_all(kind, path)
        for namespace in (*NAMESPACES, _SENTINEL, "default"):
            path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
            self._api.delete(path).must(200)
        is_empty = self._store.wait_for(lambda: not self._store.objects("Pod"), 30)
        if not is_empty or not self._store.wait_for(lambda: not self._store.objects("Node"), 30):
            raise TimeoutError("the cluster did not become empty")
        self._store.names.clear()
        self._placeholders = Placeholders(self._api, self._store)

    def log_size(self) -> int:
        """Return the size of the scheduler's log."""
        assert self.process is not None
        return self.process.log_path.stat().st_size

    def log_since(self, position: int) -> str:
        """Return the scheduler's log after a position."""
        assert self.process is not None
        with self.process.log_path.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace").replace(self._suffix, "")

    def _renamed(self, op: Op) -> Op:
        if op.kind != "Pod" or not op.name:
            return op
        name = op.name + self._suffix
        if op.verb != "create":
            return replace(op, name=name)
        metadata = {**op.body["metadata"], "name": name}
        return replace(op, name=name, body={**op.body, "metadata": metadata})

    def _send(self, op: Op) -> int:
        answer = self._answer(op)
        if answer.code < 300:
            version = answer.json.get("metadata", {}).get("resourceVersion")
            if op.verb in {"delete", "remove"}:
                key = f"{op.namespace}/{op.name}" if op.namespace else op.name
                self._store.wait_gone(op.kind, key)
            elif version:
                self._store.wait_seen(op.kind, int(version))
        elif answer.code not in {404, 409}:
            # An error of the generator, not of a scheduler.
            raise RuntimeError(f"{op}: {answer.code} {answer.text[:1000]}")
        return answer.code

    def _answer(self, op: Op) -> Response:
        if op.verb == "create":
            return self._api.post(op.path, op.body)
        if op.verb == "patch":
            return self._api.patch(op.path, op.body, op.content_type)
        options = {"gracePeriodSeconds": 0} if op.verb == "remove" else None
        return self._api.delete(op.path, options)

    def _strip(self, op: Op) -> None:
        """Remove the finalizers of an object."""
        self._api.patch(op.path, {"metadata": {"finalizers": None}}, MERGE_PATCH).must(200, 404)

    def _finish(self) -> list[int]:
        codes = []
        for key, pod in self._store.objects("Pod").items():
            if "deletionTimestamp" in pod["metadata"]:
                namespace, _, name = key.partition("/")
                codes.append(self._send(Op("remove", "Pod", name, namespace)))
                # A pending pod may take the place: with two free places it would be a race.
                self.rest()
        return codes

    def _undecided(self) -> list[str]:
        return [key for key, pod in self._store.objects("Pod").items() if _is_undecided(pod)]

    def _ask_sentinel(self, timeout_s: float) -> int | None:
        """Have the scheduler reject a pod; return the number of known nodes, None at a timeout."""
        name = f"s{next(self._numbers)}"
        path = path_of("Pod", _SENTINEL)
        self._api.post(path, _sentinel_pod(name)).must(201)
        key = f"{_SENTINEL}/{name}"
        self._store.wait_for(lambda: _verdict(self._store.get("Pod", key)) is not None, timeout_s)
        verdict = _verdict(self._store.get("Pod", key))
        self._api.delete(f"{path}/{name}", {"gracePeriodSeconds": 0}).must(200)
        if verdict is None:
            assert self.process is not None
            self.process.check()
            return None
        found = _NODE_COUNT.match(verdict)
        return int(found[1]) if found else 0

    def _collections(self, kind: str) -> Iterable[str]:
        if kind in CLUSTER_KINDS:
            return [path_of(kind)]
        return [path_of(kind, namespace) for namespace in NAMESPACES]

    def _remove_all(self, kind: str, path: str) -> None:
        for obj in self._api.get(path).must(200).json["items"]:
            name = obj["metadata"]["name"]
            if kind == "PriorityClass" and (name.startswith("system-") or name == _SENTINEL):
                continue
            if kind == "Service" and name == "kubernetes":
                continue
            op = Op("remove", kind, name, obj["metadata"].get("namespace", ""))
            if obj["metadata"].get("finalizers"):
                self._strip(op)
            self._send(op)


def _is_undecided(pod: Obj) -> bool:
    spec = pod["spec"]
    is_ours = spec.get("schedulerName") in _SCHEDULER_NAMES and not spec.get("schedulingGates")
    is_waiting = not spec.get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    return is_ours and is_waiting and _verdict(pod) is None


def _verdict(pod: Obj | None) -> str | None:
    """Return the scheduler's rejection message; the API server sets the one for gates."""
    for condition in (pod or {}).get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") != "SchedulingGated":
            return str(condition.get("message", ""))
    return None


def _sentinel_class() -> Obj:
    return {
        "metadata": {"name": _SENTINEL},
        "value": -1_000_000_000,
        "preemptionPolicy": "Never",
    }


def _sentinel_pod(name: str) -> Obj:
    return {
        "metadata": {"name": name, "namespace": _SENTINEL},
        "spec": {
            "priorityClassName": _SENTINEL,
            "nodeSelector": {"side-by-side/nowhere": "x"},
            "containers": [{"name": "c", "image": "i"}],
        },
    }
