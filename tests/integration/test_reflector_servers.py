"""Reflectors on a running API server: nothing missed, nothing told twice.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from kubesched.client.resources import NODES, Resource
from kubesched.kit.rng import Generator
from kubesched.objects.node import Node
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


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["list", "watch-list"])
@pytest.mark.parametrize("lines_max", [1, 2, 3, 7])
def test_watches_cut_after_each_nth_event(
    api_server: ApiServer, api: Api, namespace: str, lines_max: int, use_watch_list: bool
) -> None:
    writer = Writer(api, pods(namespace), Generator(lines_max, "writes"), a_pod)
    writer.write(10)

    async def scenario() -> None:
        async with reflected(
            api_server,
            field_selector=selecting(namespace),
            lines_max=lines_max,
            use_watch_list=use_watch_list,
        ) as told:
            await told.synced.wait()
            for _ in range(10):
                # On a thread, so that events come in the midst of writes.
                await asyncio.to_thread(writer.write, 6)
            await told.until_state(state_of(api, pods(namespace)))
            assert told.client.watch_count > 60 // (lines_max + 1) // 2
            if not use_watch_list:
                # All was resumed: each write after the list was told, and by its own version.
                assert told.client.list_count == 1
                later = [one for one in told.changes if not one.initial]
                versions = [int(one.object.metadata.resource_version) for one in later]
                assert versions == sorted(set(versions))

    asyncio.run(scenario())


def test_what_happens_while_nobody_listens_is_told_by_a_list(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    # A kind that was not there at version 1: of other kinds a server may know everything.
    path = make_things(api, namespace)
    group = path.split("/")[2]

    def thing(name: str) -> dict[str, Any]:
        return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name}}

    writer = Writer(api, path, Generator(5, "writes"), thing)
    writer.write(15)

    async def scenario() -> None:
        things = Resource(group, "v1", "things", "Thing")
        async with reflected(api_server, resource=things, decode=dict) as told:
            for turn in range(3):
                await told.until_state(state_of(api, path))
                # The stream is lost, and so is the way to resume it.
                told.client.is_cut = told.client.is_outdated = True
                writer.write(12)
                await told.until_state(state_of(api, path))
                assert told.client.list_count == turn + 2

    asyncio.run(scenario())


def test_a_history_that_is_sent_again_is_not_told_again(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    writer = Writer(api, pods(namespace), Generator(5, "writes"), a_pod)
    writer.write(15)

    async def scenario() -> None:
        async with reflected(api_server, field_selector=selecting(namespace)) as told:
            await told.until_state(state_of(api, pods(namespace)))
            # The server may still know all that happened to pods, or say that it does not.
            told.client.is_cut = told.client.is_outdated = True
            api.post(writer.path, a_pod("last")).must(201)
            state = state_of(api, pods(namespace))
            await told.until(lambda: f"{namespace}/last" in {one.key for one in told.changes})
            present = {key: one for key, one in told.replayed().items() if key in state}
            assert present == state

    asyncio.run(scenario())


def test_a_list_that_breaks_off_is_taken_up(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    writer = Writer(api, pods(namespace), Generator(5, "writes"), a_pod)
    writer.write(40)
    whole = len(api.get(writer.path).must(200).body)

    async def scenario(place: int) -> None:
        selector = selecting(namespace)
        async with reflected(api_server, field_selector=selector, list_bytes_max=place) as told:
            await told.synced.wait()
            await told.until_state(state_of(api, pods(namespace)))
            assert told.client.list_count == 2
            assert all(one.initial for one in told.changes)

    for place in (1, whole // 3, whole - 10):
        asyncio.run(scenario(place))


def test_a_pod_that_ends_leaves_the_selection(
    api_server: ApiServer, api: Api, namespace: str
) -> None:
    path = pods(namespace)
    api.post(path, a_pod("a")).must(201)

    async def scenario() -> None:
        selector = f"{LIVE},{selecting(namespace)}"
        async with reflected(api_server, field_selector=selector) as told:
            await told.until_state(state_of(api, pods(namespace)))
            ended = {"status": {"phase": "Succeeded"}}
            merge = "application/merge-patch+json"
            api.patch(f"{path}/a/status", ended, merge).must(200)
            await told.until_state({})
            assert [one.type for one in told.changes] == ["ADDED", "DELETED"]
            assert told.changes[1].object.metadata.name == "a"
            api.post(path, a_pod("b")).must(201)
            await told.until(lambda: len(told.changes) == 3)

    asyncio.run(scenario())


def test_json_is_kept_of_waiting_pods_and_is_what_the_server_has(
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
        ) as told:
            await told.synced.wait()
            api.post(path, a_pod("second")).must(201)
            await told.until(lambda: len(told.changes) == 3)
            kept = {one.key.partition("/")[2]: one.raw for one in told.changes}
            assert kept["bound"] == b""
            for name in ("first", "second"):
                shown = api.get(f"{path}/{name}").must(200).json
                # Items of a list do not name their kind.
                fields = {**json.loads(kept[name]), "kind": "Pod", "apiVersion": "v1"}
                assert fields == shown

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
        ) as told:
            await told.synced.wait()
            make("watched")
            await told.until_state(state_of(api, pods(namespace)))
            assert all(len(one.raw) > 240_000 for one in told.changes)

    asyncio.run(scenario())


def test_a_kind_that_is_not_there(api_server: ApiServer) -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")

    async def scenario() -> None:
        async with reflected(api_server, resource=widgets, decode=dict) as told:
            async with asyncio.timeout(10):
                await told.synced.wait()
            assert told.reflector.has_synced
            assert told.changes == []

    asyncio.run(scenario())


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["list", "watch-list"])
def test_a_right_that_comes_later(api_server: ApiServer, api: Api, use_watch_list: bool) -> None:
    name = f"reads-nodes-{next(_numbers)}"
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLAIN.name}],
    }

    async def scenario() -> None:
        async with reflected(
            api_server, user=PLAIN, resource=NODES, decode=Node, use_watch_list=use_watch_list
        ) as told:
            await told.until(lambda: bool(told.forbidden))
            assert told.forbidden == [("nodes", "watch" if use_watch_list else "list")]
            assert not told.reflector.has_synced
            roles = f"{ROLES}/clusterroles"
            api.post(roles, {"metadata": {"name": name}, "rules": [rule]}).must(201)
            api.post(f"{ROLES}/clusterrolebindings", binding).must(201)
            async with asyncio.timeout(30):
                await told.synced.wait()
            assert told.reflector.has_synced
            assert len(told.forbidden) == 1

    try:
        asyncio.run(scenario())
    finally:
        api.delete(f"{ROLES}/clusterrolebindings/{name}")
        api.delete(f"{ROLES}/clusterroles/{name}")
