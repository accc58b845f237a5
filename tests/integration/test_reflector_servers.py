"""Reflectors on a running API server: no change is missed or repeated.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from kubesched.api.node import Node
from kubesched.client.resources import NODES, Resource
from kubesched.kit.rng import RandomStream
from kubesched.testing import PLAIN, Api, ApiServer, a_pod
from tests.api.objects import make_things
from tests.integration.reflected import (
    Writer,
    new_namespace,
    reflected,
    state_of,
)

LIVE = "status.phase!=Succeeded,status.phase!=Failed"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
_numbers = count(1)


@pytest.fixture
def namespace(api: Api) -> str:
    return new_namespace(api, f"reflected{next(_numbers):03}")


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def selecting(namespace: str) -> str:
    return f"metadata.namespace={namespace}"


@pytest.mark.parametrize("lines_max", [1, 2, 3, 7])
def test_watches_cut_after_each_nth_event(
    api_server: ApiServer, api: Api, namespace: str, lines_max: int
) -> None:
    writer = Writer(api, pods(namespace), RandomStream(lines_max, "writes"), a_pod)
    writer.write(10)

    async def scenario() -> None:
        async with reflected(
            api_server,
            field_selector=selecting(namespace),
            lines_max=lines_max,
        ) as recorder:
            await recorder.synced.wait()
            for _ in range(10):
                # In a thread, so that events arrive during writes.
                await asyncio.to_thread(writer.write, 6)
            await recorder.until_state(state_of(api, pods(namespace)))
            assert recorder.client.watch_count > 60 // (lines_max + 1) // 2
            # Every watch was resumed: each write after the list has its own change.
            assert recorder.client.list_count == 1
            later = [change for change in recorder.changes if not change.initial]
            versions = [int(one.object.metadata.resource_version) for one in later]
            assert versions == sorted(set(versions))

    asyncio.run(scenario())


def test_changes_during_an_outage_come_from_a_list(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    # A kind that did not exist at version 1: a server may have the history of other kinds.
    path = make_things(api, namespace)
    group = path.split("/")[2]

    def thing(name: str) -> dict[str, Any]:
        return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}}

    writer = Writer(api, path, RandomStream(5, "writes"), thing)
    writer.write(15)

    async def scenario() -> None:
        resource = Resource(group, "v1", "things", "Thing")
        async with reflected(api_server, resource=resource, decode=dict) as recorder:
            for turn in range(3):
                await recorder.until_state(state_of(api, path))
                # The watch is lost and cannot be resumed.
                recorder.client.is_cut = recorder.client.is_outdated = True
                writer.write(12)
                await recorder.until_state(state_of(api, path))
                assert recorder.client.list_count == turn + 2

    asyncio.run(scenario())


def test_repeated_events_are_reported_once(api_server: ApiServer, api: Api, namespace: str) -> None:
    writer = Writer(api, pods(namespace), RandomStream(5, "writes"), a_pod)
    writer.write(15)

    async def scenario() -> None:
        async with reflected(api_server, field_selector=selecting(namespace)) as recorder:
            await recorder.until_state(state_of(api, pods(namespace)))
            # The server may still have the history of pods, or reject the version.
            recorder.client.is_cut = recorder.client.is_outdated = True
            api.post(writer.path, a_pod("last")).must(201)
            state = state_of(api, pods(namespace))
            await recorder.until(
                lambda: f"{namespace}/last" in {change.key for change in recorder.changes}
            )
            present = {key: one for key, one in recorder.replayed().items() if key in state}
            assert present == state

    asyncio.run(scenario())


def test_an_interrupted_list_is_resumed(api_server: ApiServer, api: Api, namespace: str) -> None:
    writer = Writer(api, pods(namespace), RandomStream(5, "writes"), a_pod)
    writer.write(40)
    whole = len(api.get(writer.path).must(200).body)

    async def scenario(place: int) -> None:
        selector = selecting(namespace)
        async with reflected(api_server, field_selector=selector, list_bytes_max=place) as recorder:
            await recorder.synced.wait()
            await recorder.until_state(state_of(api, pods(namespace)))
            assert recorder.client.list_count == 2
            assert all(change.initial for change in recorder.changes)

    for place in (1, whole // 3, whole - 10):
        asyncio.run(scenario(place))


def test_a_finished_pod_leaves_the_selection(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    path = pods(namespace)
    api.post(path, a_pod("a")).must(201)

    async def scenario() -> None:
        selector = f"{LIVE},{selecting(namespace)}"
        async with reflected(api_server, field_selector=selector) as recorder:
            await recorder.until_state(state_of(api, pods(namespace)))
            ended = {"status": {"phase": "Succeeded"}}
            merge = "application/merge-patch+json"
            api.patch(f"{path}/a/status", ended, merge).must(200)
            await recorder.until_state({})
            assert [change.type for change in recorder.changes] == ["ADDED", "DELETED"]
            assert recorder.changes[1].object.metadata.name == "a"
            api.post(path, a_pod("b")).must(201)
            await recorder.until(lambda: len(recorder.changes) == 3)

    asyncio.run(scenario())


def test_the_json_of_pending_pods_is_kept_as_the_server_has_it(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    path = pods(namespace)
    api.post(path, a_pod("bound", nodeName="n")).must(201)
    api.post(path, a_pod("first")).must(201)

    async def scenario() -> None:
        async with reflected(
            api_server,
            field_selector=selecting(namespace),
            keep_raw=lambda pod: not pod.spec.node_name,
        ) as recorder:
            await recorder.synced.wait()
            api.post(path, a_pod("second")).must(201)
            await recorder.until(lambda: len(recorder.changes) == 3)
            kept = {change.key.partition("/")[2]: change.raw for change in recorder.changes}
            assert kept["bound"] == b""
            for name in ("first", "second"):
                document = api.get(f"{path}/{name}").must(200).json
                # Items of a list have no kind.
                fields = {**json.loads(kept[name]), "kind": "Pod", "apiVersion": "v1"}
                assert fields == document

    asyncio.run(scenario())


def test_large_objects(api_server: ApiServer, api: Api, namespace: str) -> None:
    path = pods(namespace)
    large = {"annotations": {f"example.com/{letter}": letter * 60_000 for letter in "abcd"}}

    def make(name: str) -> None:
        pod = a_pod(name)
        pod["metadata"] |= large
        api.post(path, pod).must(201)

    make("listed")

    async def scenario() -> None:
        async with reflected(
            api_server, field_selector=selecting(namespace), keep_raw=True
        ) as recorder:
            await recorder.synced.wait()
            make("watched")
            await recorder.until_state(state_of(api, pods(namespace)))
            assert all(len(change.raw) > 240_000 for change in recorder.changes)

    asyncio.run(scenario())


def test_an_unknown_kind(api_server: ApiServer) -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")

    async def scenario() -> None:
        async with reflected(api_server, resource=widgets, decode=dict) as recorder:
            async with asyncio.timeout(10):
                await recorder.synced.wait()
            assert recorder.reflector.has_synced
            assert recorder.changes == []

    asyncio.run(scenario())


def test_a_right_granted_later(api_server: ApiServer, api: Api) -> None:
    name = f"reads-nodes-{next(_numbers)}"
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLAIN.name}],
    }

    async def scenario() -> None:
        async with reflected(api_server, user=PLAIN, resource=NODES, decode=Node) as recorder:
            await recorder.until(lambda: bool(recorder.forbidden))
            assert recorder.forbidden == [("nodes", "list")]
            assert not recorder.reflector.has_synced
            roles = f"{ROLES}/clusterroles"
            api.post(roles, {"metadata": {"name": name}, "rules": [rule]}).must(201)
            api.post(f"{ROLES}/clusterrolebindings", binding).must(201)
            async with asyncio.timeout(30):
                await recorder.synced.wait()
            assert recorder.reflector.has_synced
            assert len(recorder.forbidden) == 1

    try:
        asyncio.run(scenario())
    finally:
        api.delete(f"{ROLES}/clusterrolebindings/{name}")
        api.delete(f"{ROLES}/clusterroles/{name}")
