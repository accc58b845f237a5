"""Methods that may be async, and the rejection of others."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

import numpy as np
import pytest

from kubesched import SKIP, CycleState, NodeTable, NodeView, PodInfo, Status
from kubesched.framework.runtime.registry import Registry, SignatureError
from kubesched.testing import a_node, a_pod
from kubesched.testing.cluster import Cluster

TEXT = "this method must not await: fetch external data in the background with handle.start_task()"


class Turn:
    """Yields to the event loop."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class AllAsync:
    """Yields to the event loop at each point that may wait."""

    name = "AllAsync"

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Any:
        await self._note("permit")
        return None, 0.0

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await self._note("pre_bind")
        return None

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await self._note("bind")
        return SKIP

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await self._note("post_bind")

    async def _note(self, point: str) -> None:
        for _ in range(3):
            await Turn()
        self.calls.append(point)


@pytest.mark.cluster(plugins=[AllAsync])
def test_permit_pre_bind_and_post_bind_may_be_async(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert cluster.node_of("web") == "n1"
    plugin = cluster.live.profiles["default-scheduler"].plugins["AllAsync"]
    assert plugin.calls == ["permit", "pre_bind", "post_bind"]


ONLY_BINDER = {
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "AllAsync"}]},
                "bind": {
                    "enabled": [{"name": "AllAsync"}, {"name": "DefaultBinder"}],
                    "disabled": [{"name": "*"}],
                },
            }
        }
    ],
}


@pytest.mark.cluster(plugins=[AllAsync], config=ONLY_BINDER)
def test_bind_may_be_async(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert cluster.node_of("web") == "n1"
    plugin = cluster.live.profiles["default-scheduler"].plugins["AllAsync"]
    assert plugin.calls == ["permit", "pre_bind", "bind", "post_bind"]


class AsyncFilter:
    async def filter(self, state: Any, pod: Any, node: Any) -> None:
        return None


class AsyncScores:
    async def score_nodes(self, state: Any, pod: Any, nodes: Any) -> None:
        return None


class AsyncReserve:
    async def reserve(self, state: Any, pod: Any, node_name: str) -> None:
        return None


@pytest.mark.parametrize(
    ("plugin", "method"),
    [(AsyncFilter, "filter"), (AsyncScores, "score_nodes"), (AsyncReserve, "reserve")],
)
def test_methods_within_a_decision_may_not_be_async(plugin: type, method: str) -> None:
    with pytest.raises(SignatureError) as rejected:
        Registry({"X": plugin})
    assert str(rejected.value) == f"plugin X: {method}() is async, but {TEXT}"


async def later(value: Any) -> Any:
    return value


class LateFilter:
    name = "Late"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Awaitable[Any]:
        return later(None)


class LateFilterNodes:
    name = "Late"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Awaitable[Any]:
        return later([])


class LateScore:
    name = "Late"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> Awaitable[int]:
        return later(1)


class LateScoreNodes:
    name = "Late"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Awaitable[Any]:
        return later(np.zeros(2, np.int64))


class LatePreFilter:
    name = "Late"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Awaitable[Any]:
        return later(None)


@pytest.mark.parametrize(
    "plugin", [LateFilter, LateFilterNodes, LateScore, LateScoreNodes, LatePreFilter]
)
def test_an_awaitable_result_fails_the_attempt_and_names_the_plugin(plugin: type) -> None:
    cluster = Cluster(plugins=[plugin])
    try:
        cluster.add(a_node("n1"), a_node("n2"), a_pod("web"))
        cluster.schedule()
        assert cluster.node_of("web") == ""
        reason, note = cluster.events("web")[-1]
    finally:
        cluster.close()
    assert reason == "FailedScheduling"
    assert f"returned an awaitable, but {TEXT}" in note
    assert "Late" in note
