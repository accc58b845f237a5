"""`kubesched run` with extenders that bind pods and choose victims.

`conformance` compares requests and the handling of replies with kube-scheduler; these tests cover
the whole process. Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conformance.extender.scripts import frees, victims_in
from conformance.extender.server import Exchange, ScriptedExtender
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Place, start
from tests.integration.test_live_extenders import reload

IMPORTANT = "system-cluster-critical"


@pytest.fixture
def server() -> Iterator[ScriptedExtender]:
    with ScriptedExtender() as created:
        yield created


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api) as created:
        for name in "ab":
            created.node(name)
        yield created


def stanza(server: ScriptedExtender, verb: str, **more: Any) -> dict[str, Any]:
    return {"urlPrefix": server.url, f"{verb}Verb": verb, "httpTimeout": "60s", **more}


def test_a_pod_bound_by_an_extender_gets_the_usual_event(
    api_server: ApiServer, place: Place, group: ProcessGroup, server: ScriptedExtender
) -> None:
    def bind(exchange: Exchange) -> None:
        request = exchange.json
        meta = {"name": request["PodName"], "uid": request["PodUID"]}
        target = {"kind": "Node", "name": request["Node"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        with api_server.api() as api:
            api.post(f"{place.pods}/{request['PodName']}/binding", body).must(201)
        exchange.answer({"Error": ""})

    server.scripts["/bind"] = bind
    scheduler = start(api_server, group, "-v=2", extenders=[stanza(server, "bind")])
    names = [place.pod(f"pod-{number}") for number in range(5)]
    scheduler.until(lambda: all(map(place.node_of, names)), "they are bound")
    scheduler.until(
        lambda: all(place.notes(name, "Scheduled") for name in names), "they have events"
    )
    assert sorted(call.json["PodName"] for call in server.taken()) == names
    assert scheduler.metric("scheduler_schedule_attempts_total", result="scheduled") == 5


def test_an_extender_added_by_a_reload_gets_whole_victims_and_spares_some(
    api_server: ApiServer, place: Place, group: ProcessGroup, server: ScriptedExtender
) -> None:
    scheduler = start(api_server, group, "-v=2", "--reload")
    old = [place.pod(f"old-{number}", cpu="3", dnsPolicy="Default") for number in range(2)]
    scheduler.until(lambda: all(map(place.node_of, old)), "the nodes are full")
    spared, victim = sorted(old, key=place.node_of)
    # Not read by the extender: it runs in another thread than the client.
    freed = place.node_of(victim)
    seen: list[dict[str, Any]] = []

    def preempt(exchange: Exchange) -> None:
        seen.append(exchange.json["NodeNameToVictims"])
        assert set(victims_in(exchange)) == set(place.nodes)
        frees(freed)(exchange)

    server.scripts["/preempt"] = preempt
    reload(scheduler, [stanza(server, "preempt")])
    place.pod("important", cpu="3", priorityClassName=IMPORTANT)
    scheduler.until(lambda: bool(place.node_of("important")), "there is room")
    assert (place.read(victim), place.node_of("important")) == ({}, place.nodes[1])
    assert place.node_of(spared) == place.nodes[0]
    (sent_victim,) = seen[0][place.nodes[0]]["Pods"]
    known = place.read(spared)
    for absent in ("kind", "apiVersion"):
        known.pop(absent)
    known["metadata"].pop("managedFields", None)
    assert sent_victim == known
    assert sent_victim["spec"]["dnsPolicy"] == "Default"
