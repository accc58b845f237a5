"""A control plane on which schedulers alternate, with the same extenders and pods.

Owns how a case runs and what is recorded of it, without values that differ from run to run.
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
# So that no two nodes are worth the same, and a place is not a matter of chance.
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
# Written by whom and when differs from run to run, and so does what the server counts.
TIMES = ("creationTimestamp", "lastTransitionTime", "lastProbeTime", "startTime", "time")
COUNTED = ("resourceVersion", *TIMES)


@dataclass(slots=True)
class Seen:
    """What one scheduler made of a case."""

    asked: dict[str, list[Any]] = field(default_factory=dict)
    """The questions to each verb of each extender; the first one, of a pod that was refused."""
    order: list[str] = field(default_factory=list)
    """In which order extenders were asked, but for scores, which are asked for at once."""
    node: str = ""
    nominated: str = ""
    condition: list[str] = field(default_factory=list)
    events: list[list[str]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
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
        """Return the server that an extender is at."""
        return self.secure if extender.is_secure else self.plain

    def play(self, cases: Iterable[Case], name: SchedulerName) -> dict[str, Seen]:
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
        """Have extenders served, and return their part of the configuration."""
        made = []
        for one in extenders:
            server = self.server_of(one)
            server.scripts |= {f"/{one.name}/{verb}": run for verb, run in one.verbs.items()}
            made.append(one.stanza(server.url))
        return made

    def bind(self, asked: Json) -> None:
        """Bind a pod as an extender does that was asked to."""
        target = {"kind": "Node", "name": asked["Node"]}
        meta = {"name": asked["PodName"], "uid": asked["PodUID"]}
        path = f"/api/v1/namespaces/{asked['PodNamespace']}/pods/{asked['PodName']}/binding"
        with self.cluster.api() as api:
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
            api.post(path, body).must(201, 409)

    # -- one case

    def _run(self, case: Case, scheduler: SchedulerProcess) -> Seen:
        self._taken()
        for resident in case.in_process:
            self._create(case, resident)
        self._create(case, {"metadata": {"name": case.name}, "spec": _spec(case)})
        seen = Seen()
        try:
            pod = self._awaited(case, scheduler)
        except TimeoutError as problem:
            seen.problem = str(problem)
            pod = self.api.get(f"{PODS}/{case.name}").json
        self._describe(case, pod, seen)
        self.clean_up()
        return seen

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
        """Return the pod once it is bound, or is known not to be."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline_s:
            scheduler.check()
            pod = self.api.get(f"{PODS}/{case.name}").must(200).json
            is_bound = bool(pod["spec"].get("nodeName"))
            is_rejected = bool(_condition(pod)) and not pod["status"].get("nominatedNodeName")
            is_settled = is_bound or (is_rejected and case.until == "settled")
            wanted = "Scheduled" if is_bound and case.until != "hidden" else "FailedScheduling"
            if is_settled and wanted in {event[1] for event in self._events(case)}:
                return pod
            time.sleep(POLL_S)
        raise TimeoutError(f"not {case.until} after {WAIT_S_MAX:.0f} s")

    def _describe(self, case: Case, pod: Json, seen: Seen) -> None:
        seen.node = pod["spec"].get("nodeName", "")
        seen.condition = _condition(pod) if not seen.node else []
        calls = self._taken()
        for call in filter(lambda one: _is_about(one, case), calls):
            said = [
                call.method,
                call.content_type,
                call.client,
                self._known_by_name(_sorted(_body(call))),
            ]
            questions = seen.asked.setdefault(call.path, [])
            # A pod that is refused is tried again; how often by now is a matter of time.
            if said not in questions and (seen.node or not questions):
                questions.append(said)
            if not call.path.endswith("/prioritize") and seen.order[-1:] != [call.path]:
                seen.order.append(call.path)
        seen.order = list(dict.fromkeys(seen.order)) if not seen.node else seen.order
        seen.events = [list(one) for one in sorted(set(map(tuple, self._events(case))))]
        left = {item["metadata"]["name"] for item in self.api.get(PODS).json["items"]}
        names = (f"{case.name}.{one['metadata']['name']}" for one in case.in_process)
        seen.gone = sorted(name for name in names if name not in left)

    def _taken(self) -> list[Call]:
        return [*self.plain.taken(), *self.secure.taken()]

    def _events(self, case: Case) -> list[list[str]]:
        found = []
        for event in self.api.get(EVENTS).must(200).json["items"]:
            name = event["regarding"]["name"]
            if name != case.name and not name.startswith(f"{case.name}."):
                continue
            note = self._normal_text(event["note"])
            found.append([name, event["reason"], event["type"], event.get("action", ""), note])
        return found

    def clean_up(self) -> None:
        """Delete all pods and events."""
        self.api.delete(PODS, {"gracePeriodSeconds": 0}).must(200)
        while self.api.get(PODS).json["items"]:
            time.sleep(POLL_S)
        self.api.delete(EVENTS).must(200)

    # -- what differs from run to run

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
        # Which port our end has is chance.
        return re.sub(r"read tcp( \S+->\S+)?: read", "read tcp: read", text)


def _spec(case: Case) -> Json:
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "affinity": RANKED, **case.pod}
    managed = {one.resource: "1" for one in case.extenders if not one.is_for_all}
    resources = spec["containers"][0].setdefault("resources", {})
    resources["requests"] = {**resources.get("requests", {}), **managed}
    resources["limits"] = {**resources.get("limits", {}), **managed}
    return spec


def _condition(pod: Json) -> list[str]:
    """Return what is said of a pod that is not scheduled."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return [condition["reason"], _without_ports(condition["message"])]
    return []


def _without_ports(text: str) -> str:
    return re.sub(r"read tcp( \S+->\S+)?: read", "read tcp: read", text)


def _is_about(call: Call, case: Case) -> bool:
    """Return whether a call is about this case's pod, and not about an earlier one's retry."""
    body = _body(call)
    pod = body.get("Pod") if isinstance(body, dict) else None
    return case.name in (pod["metadata"]["name"] if pod else "", body.get("PodName", ""))


def _sorted(body: Any) -> Any:
    """Return a question with its nodes in order; which of them is looked at first is chance."""
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
