"""A control plane on which schedulers alternate, with the same extenders and pods.

Owns running a case and recording its result, without values that differ between runs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from conformance.extender.cases import NODES, Case, Extender, Json
from conformance.extender.server import Call, ScriptedExtender
from kubesched.cluster.launch.certificates import CertificateFiles
from kubesched.testing import (
    Api,
    RealCluster,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    start_scheduler,
)

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POLL_S = 0.02
WAIT_S_MAX = 30.0
# Gives each node a different score, so that placements are not random.
RANKED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": number,
                "preference": {
                    "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]
                },
            }
            for number, name in enumerate(NODES, start=1)
        ]
    }
}
# Times and the server's counters differ between runs.
TIMES = ("creationTimestamp", "lastTransitionTime", "lastProbeTime", "startTime", "time")
COUNTED = ("resourceVersion", *TIMES)


@dataclass(slots=True)
class CaseResult:
    """The result of a case with one scheduler."""

    calls: dict[str, list[Any]] = field(default_factory=dict)
    """The calls of each verb of each extender; only the first one of a rejected pod."""
    order: list[str] = field(default_factory=list)
    """The order of the calls, without `prioritize`, whose calls are concurrent."""
    node: str = ""
    nominated: str = ""
    condition: list[str] = field(default_factory=list)
    events: list[list[str]] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    problem: str = ""


@dataclass(slots=True)
class Stage:
    """A control plane, the scripted servers, and the cases that share a configuration."""

    cluster: RealCluster
    api: Api
    plain: ScriptedExtender
    secure: ScriptedExtender
    certificates: CertificateFiles
    uids: dict[str, str] = field(default_factory=dict)

    def server_of(self, extender: Extender) -> ScriptedExtender:
        """Return the server of an extender."""
        return self.secure if extender.is_secure else self.plain

    def play(self, cases: Iterable[Case], name: SchedulerName) -> dict[str, CaseResult]:
        """Run cases with one scheduler; all their extenders are configured together."""
        cases = list(cases)
        extenders = {one.name: one for case in cases for one in case.extenders}
        stanzas = self.stanzas(extenders.values())
        settings = SchedulerSettings(
            extenders=stanzas,
            flags=("--v=2",),
        )
        scheduler = start_scheduler(self.cluster, self.cluster.group, name, settings)
        try:
            return {case.name: self._run(case, scheduler) for case in cases}
        finally:
            scheduler.terminate()

    def stanzas(self, extenders: Iterable[Extender]) -> list[Json]:
        """Serve extenders, and return their part of the configuration."""
        stanzas = []
        for extender in extenders:
            server = self.server_of(extender)
            server.scripts |= {
                f"/{extender.name}/{verb}": run for verb, run in extender.verbs.items()
            }
            stanzas.append(extender.stanza(server.url))
        return stanzas

    def bind(self, args: Json) -> None:
        """Bind a pod like an extender with a bind verb."""
        target = {"kind": "Node", "name": args["Node"]}
        meta = {"name": args["PodName"], "uid": args["PodUID"]}
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        with self.cluster.api() as api:
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            api.post(path, body).must(201, 409)

    # -- one case

    def _run(self, case: Case, scheduler: SchedulerProcess) -> CaseResult:
        self._taken()
        for resident in case.in_process:
            self._create(case, resident)
        self._create(case, {"metadata": {"name": case.name}, "spec": _spec(case)})
        result = CaseResult()
        try:
            pod = self._awaited(case, scheduler)
        except TimeoutError as problem:
            result.problem = str(problem)
            pod = self.api.get(f"{PODS}/{case.name}").json
        self._describe(case, pod, result)
        self.clean_up()
        return result

    def _create(self, case: Case, document: Json) -> None:
        name = document["metadata"]["name"]
        meta = {
            **document["metadata"],
            "name": name if name == case.name else f"{case.name}.{name}",
        }
        body = {"apiVersion": "v1", "kind": "Pod", **document, "metadata": meta}
        made = self.api.post(PODS, body).must(201).json
        self.uids[made["metadata"]["uid"]] = made["metadata"]["name"]

    def _awaited(self, case: Case, scheduler: SchedulerProcess) -> Json:
        """Return the pod once it is bound or rejected."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline_s:
            scheduler.check()
            pod = self.api.get(f"{PODS}/{case.name}").must(200).json
            is_bound = bool(pod["spec"].get("nodeName"))
            is_rejected = bool(_condition(pod)) and not pod["status"].get("nominatedNodeName")
            is_settled = is_bound or (is_rejected and case.until == "settled")
            reason = "Scheduled" if is_bound and case.until != "hidden" else "FailedScheduling"
            if is_settled and reason in {event[1] for event in self._events(case)}:
                return pod
            time.sleep(POLL_S)
        raise TimeoutError(f"not {case.until} after {WAIT_S_MAX:.0f} s")

    def _describe(self, case: Case, pod: Json, result: CaseResult) -> None:
        result.node = pod["spec"].get("nodeName", "")
        result.condition = _condition(pod) if not result.node else []
        calls = self._taken()
        for call in filter(lambda one: _is_about(one, case), calls):
            request = [
                call.method,
                call.content_type,
                call.client,
                self._known_by_name(_sorted(_body(call))),
            ]
            requests = result.calls.setdefault(call.path, [])
            # A rejected pod is retried; the number of retries depends on timing.
            if request not in requests and (result.node or not requests):
                requests.append(request)
            if not call.path.endswith("/prioritize") and result.order[-1:] != [call.path]:
                result.order.append(call.path)
        result.order = list(dict.fromkeys(result.order)) if not result.node else result.order
        result.events = [list(one) for one in sorted(set(map(tuple, self._events(case))))]
        left = {item["metadata"]["name"] for item in self.api.get(PODS).json["items"]}
        names = (f"{case.name}.{one['metadata']['name']}" for one in case.in_process)
        result.evicted = sorted(name for name in names if name not in left)

    def _taken(self) -> list[Call]:
        return [*self.plain.taken(), *self.secure.taken()]

    def _events(self, case: Case) -> list[list[str]]:
        events = []
        for event in self.api.get(EVENTS).must(200).json["items"]:
            name = event["regarding"]["name"]
            if name != case.name and not name.startswith(f"{case.name}."):
                continue
            note = self._normal_text(event["note"])
            events.append([name, event["reason"], event["type"], event.get("action", ""), note])
        return events

    def clean_up(self) -> None:
        """Delete all pods and events."""
        self.api.delete(PODS, {"gracePeriodSeconds": 0}).must(200)
        while self.api.get(PODS).json["items"]:
            time.sleep(POLL_S)
        self.api.delete(EVENTS).must(200)

    # -- values that differ between runs

    def _known_by_name(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: "*" if key in COUNTED and item is not None else self._known_by_name(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._known_by_name(item) for item in value]
        return self._normal_text(value) if isinstance(value, str) else value

    def _normal_text(self, text: str) -> str:
        for uid, name in self.uids.items():
            text = text.replace(uid, f"uid of {name}")
        # The client's port is random.
        return re.sub(r"read tcp( \S+->\S+)?: read", "read tcp: read", text)


def _spec(case: Case) -> Json:
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "affinity": RANKED, **case.pod}
    managed = {one.resource: "1" for one in case.extenders if not one.is_for_all}
    resources = spec["containers"][0].setdefault("resources", {})
    resources["requests"] = {**resources.get("requests", {}), **managed}
    resources["limits"] = {**resources.get("limits", {}), **managed}
    return spec


def _condition(pod: Json) -> list[str]:
    """Return the reason and message of a pod that is not scheduled."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return [condition["reason"], _without_ports(condition["message"])]
    return []


def _without_ports(text: str) -> str:
    return re.sub(r"read tcp( \S+->\S+)?: read", "read tcp: read", text)


def _is_about(call: Call, case: Case) -> bool:
    """Return whether a call is about this case's pod, not a retry of an earlier case's pod."""
    body = _body(call)
    pod = body.get("Pod") if isinstance(body, dict) else None
    return case.name in (pod["metadata"]["name"] if pod else "", body.get("PodName", ""))


def _sorted(body: Any) -> Any:
    """Return a request body with its nodes in order; the first evaluated node is random."""
    if isinstance(body, dict) and body.get("NodeNames"):
        body["NodeNames"].sort()
    if isinstance(body, dict) and body.get("Nodes"):
        body["Nodes"]["items"].sort(key=lambda node: node["metadata"]["name"])
    return body


def _body(call: Call) -> Any:
    try:
        return call.json
    except ValueError:
        return call.body.decode("latin-1")
