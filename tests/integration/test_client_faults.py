"""The client when responses are lost, and when it is closed.

Always on the embedded server: the relay drops plain HTTP, which the real one does not serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kubesched.client.auth.credentials import ClusterAccess, FixedCredential
from kubesched.client.errors import TransportError
from kubesched.client.http.lanes import LIMITS, Lane
from kubesched.client.resources import CONFIG_MAPS, NODES
from kubesched.client.rest import Client
from kubesched.cluster.launch.server import ADMIN
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.testing import RunningEmbedded, embedded_server
from tests.integration.client_world import client_of, made_pod, relay_to
from tests.unit.client.request_world import on_a_loop


@pytest.fixture(scope="module")
def server() -> Iterator[RunningEmbedded]:
    with embedded_server(tls=False) as running:
        yield running


def access_to(address: str) -> ClusterAccess:
    return ClusterAccess(f"http://{address}", FixedCredential(f"Bearer {ADMIN.token}"))


@on_a_loop
@pytest.mark.parametrize(("requests", "answers"), [(0, 1), (1, 0), (1, 1)])
async def test_a_binding_is_settled(server: RunningEmbedded, requests: int, answers: int) -> None:
    name = f"settled-{requests}{answers}"
    async with relay_to(server.url) as (relay, address), client_of(access_to(address)) as client:
        uid = await made_pod(client, name, node=f"node-{requests}{answers}")
        relay.requests_to_drop, relay.responses_to_drop = requests, answers
        await client.bind_pod(
            namespace="default", name=name, uid=uid, node_name=f"node-{requests}{answers}"
        )
        assert (relay.requests_to_drop, relay.responses_to_drop) == (0, 0)
        pod = await client.get_pod("default", name)
        assert pod.spec.node_name == f"node-{requests}{answers}"


@on_a_loop
async def test_reads_are_retried_and_writes_are_not(server: RunningEmbedded) -> None:
    async with relay_to(server.url) as (relay, address), client_of(access_to(address)) as client:
        relay.responses_to_drop = 2
        await client.get(NODES)
        assert relay.responses_to_drop == 0
        relay.responses_to_drop = 1
        named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "written"}}
        with pytest.raises(TransportError) as lost:
            await client.create(CONFIG_MAPS, named, namespace="default")
        assert lost.value.was_sent
        await client.delete(CONFIG_MAPS, "written", namespace="default")


@on_a_loop
async def test_a_server_that_never_responds(server: RunningEmbedded) -> None:
    async with relay_to(server.url) as (relay, address), client_of(access_to(address)) as client:
        relay.is_silent = True
        with pytest.raises(TransportError, match="context deadline exceeded") as late:
            await client.get(NODES, timeout_s=0.2)
        assert late.value.is_timeout
        assert late.value.was_sent


@on_a_loop
async def test_a_lane_limits_its_connections(server: RunningEmbedded) -> None:
    async with relay_to(server.url) as (relay, address), client_of(access_to(address)) as client:
        await asyncio.gather(*(client.get(NODES, lane=Lane.EVENT) for _ in range(200)))
        assert relay.open_max == LIMITS[Lane.EVENT]


@on_a_loop
async def test_closing_cancels_active_requests(server: RunningEmbedded) -> None:
    async with relay_to(server.url) as (relay, address):
        relay.is_silent = True
        client = Client(
            access_to(address), qps=1, burst=2, user_agent="t", clock=SystemClock(), log=NullLog()
        )
        sibling = client.sibling(user_agent="events")

        async def watch() -> None:
            async with client.stream("/api/v1/pods", query={"watch": True}) as chunks:
                async for _ in chunks:
                    pass

        work = [
            client.get(NODES),
            client.get(NODES),
            client.get(NODES),
            sibling.get(NODES),
            watch(),
        ]
        tasks = [asyncio.ensure_future(one) for one in work]
        while relay.open < 4:
            await SystemClock().sleep(0.001)
        await sibling.close()
        await client.close()
        ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(isinstance(one, TransportError) for one in ended)
        with pytest.raises(TransportError, match="closed"):
            await client.get(NODES)


@on_a_loop
async def test_a_truncated_watch_is_an_error(server: RunningEmbedded) -> None:
    async with relay_to(server.url) as (relay, address), client_of(access_to(address)) as client:

        async def watch() -> None:
            async with client.stream(CONFIG_MAPS.path("default"), query={"watch": True}) as chunks:
                relay.responses_to_drop = 1
                named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cut"}}
                async with client_of(access_to(server.url.removeprefix("http://"))) as other:
                    await other.create(CONFIG_MAPS, named, namespace="default")
                async for chunk in chunks:
                    assert b'"name":"cut"' not in chunk

        with pytest.raises(TransportError) as lost:
            await watch()
        assert lost.value.is_reset
