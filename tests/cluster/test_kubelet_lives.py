"""Kubelets alone: static pods, missing heartbeats, stops and restarts.

They run on the API server that --server names, without controllers: nothing is bound, tainted
or collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.cluster.informers.context import Dependencies
from kubesched.cluster.informers.informer import Informers
from kubesched.cluster.kubelet import Kubelets, KubeletSettings, LogBuffer
from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.launch.server import ApiServer
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.testing import Api
from tests.cluster.running_pods import a_pod, conditions_of

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
FAST = KubeletSettings(speed=20.0)
_numbers = count(1)


@dataclass(slots=True)
class Running:
    """Running kubelets and their event loop."""

    kubelets: Kubelets
    thread: LoopThread

    def call(self, act: Callable[[], object]) -> None:
        self.thread.call(act)


@contextmanager
def kubelets(server: ApiServer, settings: KubeletSettings = FAST) -> Iterator[Running]:
    access = load_access(kubeconfig=str(server.kubeconfig), environ={})
    clock, log = SystemClock(), NullLog()

    async def make() -> tuple[Kubelets, Informers, Client]:
        client = Client(access, qps=-1, burst=0, user_agent="test", clock=clock, log=log)
        informers = Informers(client, clock, log, RandomStream(0, "kubelets"))
        created = Kubelets(Dependencies(client, informers, clock, log), settings)
        informers.start()
        await informers.wait_until_synced()
        await created.start()
        return created, informers, client

    with LoopThread("kubelets") as thread:
        created, informers, client = thread.run(make())
        try:
            yield Running(created, thread)
        finally:
            thread.run(created.stop())
            thread.run(informers.stop())
            thread.run(client.close())


@pytest.fixture
def api(api_server: ApiServer) -> Iterator[Api]:
    with api_server.api() as requested:
        # Only the controllers of a cluster create it.
        body = {"metadata": {"name": "kube-node-lease"}}
        requested.post("/api/v1/namespaces", body).must(201, 409)
        yield requested


@pytest.fixture
def node(api: Api) -> Iterator[str]:
    name = f"alone-{next(_numbers)}"
    api.post("/api/v1/nodes", {"metadata": {"name": name}}).must(201)
    yield name
    api.delete(f"/api/v1/nodes/{name}").must(200)


def get(api: Api, path: str) -> Document:
    response = api.get(path)
    return response.json if response.code == 200 else {}


def is_ready(document: Document) -> bool:
    return bool(document) and conditions_of(document).get("Ready", {}).get("status") == "True"


def end(api: Api, name: str) -> None:
    api.delete(f"{PODS}/{name}", query={"gracePeriodSeconds": 0}).must(200, 404)


def test_pods_continue_under_new_kubelets(api_server: ApiServer, api: Api, node: str) -> None:
    name = f"stays-{node}"
    with kubelets(api_server):
        api.post(PODS, a_pod(name, nodeName=node)).must(201)
        until(lambda: is_ready(get(api, f"{PODS}/{name}")), "the pod runs")
    before = get(api, f"{PODS}/{name}")
    with kubelets(api_server):
        next_pod = f"next-{node}"
        api.post(PODS, a_pod(next_pod, nodeName=node)).must(201)
        until(lambda: is_ready(get(api, f"{PODS}/{next_pod}")), "the next pod runs")
        after, other = get(api, f"{PODS}/{name}"), get(api, f"{PODS}/{next_pod}")
        assert after["status"] == before["status"]
        assert other["status"]["podIP"] != after["status"]["podIP"]
        api.delete(f"{PODS}/{name}").must(200)
        until(lambda: not get(api, f"{PODS}/{name}"), "the pod is gone")
        end(api, next_pod)


def test_a_terminating_pod_is_stopped_by_a_new_kubelet(
    api_server: ApiServer, api: Api, node: str
) -> None:
    name = f"told-{node}"
    with kubelets(api_server):
        api.post(PODS, a_pod(name, nodeName=node)).must(201)
        until(lambda: is_ready(get(api, f"{PODS}/{name}")), "the pod runs")
    api.delete(f"{PODS}/{name}").must(200)
    assert get(api, f"{PODS}/{name}")["metadata"]["deletionTimestamp"]
    with kubelets(api_server):
        until(lambda: not get(api, f"{PODS}/{name}"), "the pod is gone")


def test_a_dead_kubelet_does_nothing(api_server: ApiServer, api: Api, node: str) -> None:
    name = f"left-{node}"
    path = f"/api/v1/nodes/{node}"

    def switch(value: str | None) -> None:
        patch = {"metadata": {"annotations": {"kubesched.dev/heartbeat": value}}}
        api.patch(path, patch, MERGE_PATCH).must(200)

    def renewed() -> str:
        return str(get(api, f"{LEASES}/{node}").get("spec", {}).get("renewTime", ""))

    with kubelets(api_server):
        until(renewed, "the node has a lease")
        first = renewed()
        until(lambda: renewed() > first, "the lease is renewed")
        api.post(PODS, a_pod(name, nodeName=node)).must(201)
        until(lambda: is_ready(get(api, f"{PODS}/{name}")), "the pod runs")
        switch("off")
        # As a controller does on a node without heartbeats.
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        api.patch(f"{path}/status", {"status": {"conditions": [unknown]}}, MERGE_PATCH).must(200)
        api.delete(f"{PODS}/{name}").must(200)
        last = renewed()
        other = f"alive-{node}"
        api.post("/api/v1/nodes", {"metadata": {"name": other}}).must(201)
        until(lambda: get(api, f"{LEASES}/{other}"), "another node has a lease")
        began = get(api, f"{LEASES}/{other}")["spec"]["renewTime"]
        until(
            lambda: get(api, f"{LEASES}/{other}")["spec"]["renewTime"] > began,
            "the other node's lease is renewed",
        )
        assert renewed() == last
        assert get(api, f"{PODS}/{name}"), "the pods of a dead kubelet stay"
        assert conditions_of(get(api, path))["Ready"]["status"] == "Unknown"
        switch(None)
        until(lambda: is_ready(get(api, path)), "the node is ready again")
        until(lambda: renewed() > last, "the lease is renewed again")
        until(lambda: not get(api, f"{PODS}/{name}"), "the pod is gone")
        api.delete(f"/api/v1/nodes/{other}").must(200)


def test_a_foreign_change_of_a_status_is_reverted(
    api_server: ApiServer, api: Api, node: str
) -> None:
    name = f"changed-{node}"
    with kubelets(api_server):
        api.post(PODS, a_pod(name, nodeName=node)).must(201)
        until(lambda: is_ready(get(api, f"{PODS}/{name}")), "the pod runs")
        conditions = get(api, f"{PODS}/{name}")["status"]["conditions"]
        foreign = {"type": "example.com/theirs", "status": "True"}
        lost = [
            {**condition, "status": "False"} if condition["type"] == "Ready" else condition
            for condition in conditions
        ]
        patch = {"status": {"conditions": [*lost, foreign]}}
        response = api.patch(f"{PODS}/{name}/status", patch, MERGE_PATCH).must(200)
        assert not is_ready(response.json)
        until(lambda: is_ready(get(api, f"{PODS}/{name}")), "the kubelet puts it right")
        left = conditions_of(get(api, f"{PODS}/{name}"))
        assert left["example.com/theirs"]["status"] == "True", "it is not the kubelet's"
        end(api, name)


def test_a_static_pod_has_a_mirror_and_a_log(api_server: ApiServer, api: Api, node: str) -> None:
    path = f"{PODS}/agent-{node}"
    static = a_pod("agent", hostNetwork=True)
    static["metadata"]["namespace"] = "default"
    with kubelets(api_server) as running:
        log = LogBuffer(SystemClock())

        def add() -> None:
            running.kubelets.add_static_pod(node, static, log)
            log.append("first line")

        running.call(add)
        until(lambda: is_ready(get(api, path)), "the mirror runs")
        mirror = get(api, path)
        assert mirror["spec"]["nodeName"] == node
        assert mirror["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
        (owner,) = mirror["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Node", node)
        assert api.get(f"{path}/log").must(200).text == "first line\n"

        end(api, f"agent-{node}")
        uid = mirror["metadata"]["uid"]
        until(
            lambda: is_ready(get(api, path)) and get(api, path)["metadata"]["uid"] != uid,
            "the mirror is there again",
        )
        connection = api.connect(30.0)
        connection.request(
            "GET", f"{path}/log?follow=true", headers={"Authorization": f"Bearer {api.token}"}
        )
        response = connection.getresponse()
        assert response.readline() == b"first line\n"
        running.call(lambda: log.append("second line"))
        assert response.readline() == b"second line\n"
        running.call(log.close)
        assert response.read() == b""
        connection.close()
    end(api, f"agent-{node}")
