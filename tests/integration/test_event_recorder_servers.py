"""Events on a running API server: accepted like kube-scheduler's.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.events.recorder import EventBroadcaster, truncated_note
from kubesched.client.rest import Client
from kubesched.cluster.launch.server import SCHEDULER
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.tasks import Tasks
from kubesched.testing import Api, ApiServer
from tests.integration.reflected import new_namespace

EVENTS = "/apis/events.k8s.io/v1"
_numbers = count(1)

# The fields that kube-scheduler v1.36.4 sets in an event, by recording.
FIELDS = {
    "f:action",
    "f:eventTime",
    "f:note",
    "f:reason",
    "f:regarding",
    "f:reportingController",
    "f:reportingInstance",
    "f:type",
}
CORE_FIELDS = {
    "f:count",
    "f:firstTimestamp",
    "f:involvedObject",
    "f:lastTimestamp",
    "f:message",
    "f:reason",
    "f:reportingComponent",
    "f:source",
    "f:type",
}


@dataclass(frozen=True)
class Subject:
    """The fields of a pod that an event has."""

    namespace: str
    name: str = "a"
    uid: str = "4f672486-14d5-4860-a387-a11bf5ad40fe"
    resource_version: str = "237"


@pytest.fixture
def namespace(api: Api) -> str:
    return new_namespace(api, f"events{next(_numbers):03}")


@asynccontextmanager
async def broadcasting(server: ApiServer) -> AsyncIterator[EventBroadcaster]:
    """Write events with the rights of a scheduler."""
    access = load_access(kubeconfig=str(server.kubeconfigs[SCHEDULER.name]), environ={})
    clock, log = SystemClock(), NullLog()
    client = Client(access, qps=-1.0, user_agent="kube-scheduler/test", clock=clock, log=log)
    broadcaster = EventBroadcaster(client, clock=clock, log=log, hostname=socket.gethostname())
    tasks = Tasks()
    tasks.start(broadcaster.run(), name="events")
    try:
        yield broadcaster
    finally:
        await tasks.stop()
        await client.close()


def failed(broadcaster: EventBroadcaster, subject: Subject, note: str) -> None:
    broadcaster.recorder("default-scheduler").event(
        subject, kind="Warning", reason="FailedScheduling", action="Scheduling", note=note
    )


def stored(api: Api, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]]
    items = api.get(f"{EVENTS}/namespaces/{namespace}/events").must(200).json["items"]
    return items


def test_a_stored_event_equals_kube_schedulers(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            failed(broadcaster, Subject(namespace), "0/2 nodes are available: 2 Insufficient cpu.")
            assert await broadcaster.drain(20)
            assert broadcaster.dropped_count == 0

    asyncio.run(scenario())
    (event,) = stored(api, namespace)
    (managed,) = event["metadata"]["managedFields"]
    assert set(managed["fieldsV1"]) == FIELDS
    assert managed["manager"] == "kube-scheduler"
    assert event["metadata"]["name"].startswith("a.")
    assert event["regarding"] == {
        "kind": "Pod",
        "namespace": namespace,
        "name": "a",
        "uid": "4f672486-14d5-4860-a387-a11bf5ad40fe",
        "apiVersion": "v1",
        "resourceVersion": "237",
    }
    assert event["reportingInstance"] == f"default-scheduler-{socket.gethostname()}"
    assert (event["type"], event["reason"], event["action"]) == (
        "Warning",
        "FailedScheduling",
        "Scheduling",
    )


def test_a_series_is_patched_and_recreated_after_deletion(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    subject, other = Subject(namespace), Subject(namespace, name="b")

    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            for one in (subject, other, subject):
                failed(broadcaster, one, "first")
            assert await broadcaster.drain(20)
            (gone,) = [one for one in stored(api, namespace) if one["regarding"]["name"] == "b"]
            name = gone["metadata"]["name"]
            api.delete(f"{EVENTS}/namespaces/{namespace}/events/{name}").must(200)
            failed(broadcaster, other, "second")
            assert await broadcaster.drain(20)
            assert broadcaster.dropped_count == 0

    asyncio.run(scenario())
    events = {one["regarding"]["name"]: one for one in stored(api, namespace)}
    assert [events[name]["series"]["count"] for name in ("a", "b")] == [2, 2]
    assert [events[name]["note"] for name in ("a", "b")] == ["first", "first"]


def test_the_longest_note_is_accepted(api_server: ApiServer, api: Api, namespace: str) -> None:
    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            failed(broadcaster, Subject(namespace), truncated_note("é" * 2000))
            assert await broadcaster.drain(20)

    asyncio.run(scenario())
    assert [one["note"] for one in stored(api, namespace)] == ["é" * 510 + " ..."]


def test_an_event_that_the_server_rejects_is_counted(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            failed(broadcaster, Subject("there-is-no-such-namespace"), "lost")
            failed(broadcaster, Subject(namespace), "x" * 1025)
            failed(broadcaster, Subject(namespace, name="b"), "kept")
            assert await broadcaster.drain(20)
            assert broadcaster.dropped_count == 2

    asyncio.run(scenario())
    assert [one["note"] for one in stored(api, namespace)] == ["kept"]


def test_an_event_about_a_lease(api_server: ApiServer, api: Api) -> None:
    name = f"lease{next(_numbers):03}"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = api.post(leases, {"metadata": {"name": name}}).must(201).json

    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            recorder = broadcaster.core_recorder("default-scheduler")
            recorder.event(lease, reason="LeaderElection", note="me became leader")
            assert await broadcaster.drain(20)

    asyncio.run(scenario())
    listed = api.get("/api/v1/namespaces/kube-system/events").must(200).json["items"]
    (event,) = [one for one in listed if one["involvedObject"]["name"] == name]
    (managed,) = event["metadata"]["managedFields"]
    assert set(managed["fieldsV1"]) == CORE_FIELDS
    assert event["involvedObject"]["uid"] == lease["metadata"]["uid"]
    assert event["source"] == {"component": "default-scheduler"}
    assert (event["reason"], event["message"], event["count"]) == (
        "LeaderElection",
        "me became leader",
        1,
    )


def test_every_event_of_a_burst_arrives(api_server: ApiServer, api: Api, namespace: str) -> None:
    async def scenario() -> None:
        async with broadcasting(api_server) as broadcaster:
            recorder = broadcaster.recorder("default-scheduler")
            for number in range(1500):
                recorder.event(
                    Subject(namespace, name=f"p{number}"),
                    kind="Normal",
                    reason="Scheduled",
                    action="Binding",
                    note=f"Successfully assigned {namespace}/p{number} to n",
                )
            assert await broadcaster.drain(60)
            assert broadcaster.dropped_count == 0

    asyncio.run(scenario())
    assert len({one["regarding"]["name"] for one in stored(api, namespace)}) == 1500
