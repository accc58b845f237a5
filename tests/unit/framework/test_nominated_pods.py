"""Nodes are evaluated with and without the pods nominated to them; both must fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Rejected
from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    unschedulable,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import Trial
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile

FULL = unschedulable("full")


class FullOneNode:
    """Allows one pod per node; the plugin counts pods itself."""

    name = "Full"

    def __init__(self, change_fails: bool = False, skips: bool = False) -> None:
        self._change_fails = change_fails
        self._skips = skips

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status | None:
        state.write("count", Counted(dict.fromkeys(nodes.names, 0)))
        return SKIP if self._skips else None

    def add_pod(self, state: CycleState, pod: Any, added: Any, node: Any) -> Status | None:
        if self._change_fails:
            return error("bad")
        state.read("count").count[node.name] += 1
        return None

    def remove_pod(self, state: CycleState, pod: Any, removed: Any, node: Any) -> Status | None:
        state.read("count").count[node.name] -= 1
        return None

    def filter(self, state: CycleState, pod: Any, node: Any) -> Status | None:
        return FULL if state.read("count").count[node.name] else None


class FullColumn:
    name = "Full"

    def __init__(self, change_fails: bool = False, skips: bool = False) -> None:
        self._change_fails = change_fails
        self._skips = skips

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Any) -> Status | None:
        state.write("count", Counted(np.zeros(nodes.view.row_count, dtype=np.int64)))
        return SKIP if self._skips else None

    def add_pods(self, state: CycleState, pod: Any, added: Any, nodes: Any) -> Status | None:
        if self._change_fails:
            raise StatusError(error("bad"))
        state.read("count").count[nodes.rows] += added.present
        return None

    def remove_pods(self, state: CycleState, pod: Any, removed: Any, nodes: Any) -> Status | None:
        state.read("count").count[nodes.rows] -= removed.present
        return None

    def filter_nodes(self, state: CycleState, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(state.read("count").count[nodes.rows] > 0, FULL)]


class Counted:
    def __init__(self, count: Any) -> None:
        self.count = count

    def clone(self) -> Counted:
        return Counted(self.count.copy())


BOTH = pytest.mark.parametrize("plugin", [FullOneNode, FullColumn], ids=["one node", "columns"])
NAMES = ("n1", "n2", "n3")


def judged(plugin: Any, pod: PodInfo, nominated: dict[str, list[PodInfo]]) -> dict[str, Status]:
    view, state = a_cluster([a_node(name) for name in NAMES], nominated=nominated), CycleState()
    profile = a_profile(plugin)
    profile.run_pre_filter_plugins(state, pod, view.all_nodes())
    nodes = view.all_nodes()
    verdicts = profile.run_filter_plugins_with_nominated_pods(state, pod, nodes)
    # The trial leaves no trace.
    again = profile.filters.judge(state, pod, nodes)
    assert {again[position] for position in range(3)} == {SUCCESS}
    return {name: verdicts[position] for position, name in enumerate(nodes.names)}


def nominee(name: str, priority: int) -> PodInfo:
    return a_pod(name, priority=priority)


@BOTH
@pytest.mark.parametrize(
    ("priority", "counts"),
    [
        pytest.param(11, True, id="more important"),
        pytest.param(10, True, id="as important"),
        pytest.param(9, False, id="less important"),
    ],
)
def test_nominated_pods_count_if_they_are_no_less_important(
    plugin: Any, priority: int, counts: bool
) -> None:
    found = judged(plugin(), a_pod(priority=10), {"n2": [nominee("other", priority)]})
    expected = FULL.by("Full") if counts else SUCCESS
    assert found == {"n1": SUCCESS, "n2": expected, "n3": SUCCESS}


@BOTH
def test_a_pods_own_nomination_does_not_count(plugin: Any) -> None:
    assert judged(plugin(), nominee("me", 10), {"n2": [nominee("me", 10)]})["n2"] == SUCCESS


@BOTH
def test_nominated_pods_count_only_on_their_own_node(plugin: Any) -> None:
    nominated = {
        "n1": [nominee("a", 10), nominee("b", 10)],
        "n3": [nominee("c", 10), nominee("d", 0)],
    }
    found = judged(plugin(), a_pod(priority=10), nominated)
    assert [found[name] == SUCCESS for name in NAMES] == [False, True, False]


@BOTH
def test_a_failure_to_add_a_nominated_pod_is_an_error_of_its_node(plugin: Any) -> None:
    found = judged(plugin(change_fails=True), a_pod(), {"n2": [nominee("a", 10)]})
    assert found["n1"] == found["n3"] == SUCCESS
    assert found["n2"].code is Code.ERROR
    assert found["n2"].message == 'running AddPod on PreFilter plugin "Full": bad'


@BOTH
def test_a_skipped_plugin_is_not_called_for_nominated_pods(plugin: Any) -> None:
    found = judged(plugin(skips=True), a_pod(), {"n2": [nominee("a", 10)]})
    assert set(found.values()) == {SUCCESS}


class NeedsCompany:
    """Rejects a node without pods."""

    name = "NeedsCompany"

    def filter_nodes(self, state: CycleState, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(nodes.pod_count == 0, unschedulable("lonely"))]


def test_a_node_that_fits_only_with_the_nominated_pod_does_not_fit() -> None:
    view = a_cluster([a_node("n1")], nominated={"n1": [nominee("a", 10)]})
    verdicts = a_profile(NeedsCompany()).run_filter_plugins_with_nominated_pods(
        CycleState(), a_pod(), view.all_nodes()
    )
    assert verdicts[0] == unschedulable("lonely").by("NeedsCompany")


def test_nominated_pods_use_resources_only_in_the_trial() -> None:
    seen: list[tuple[list[int], bool]] = []

    class Watching:
        name = "Watching"

        def filter_nodes(self, state: CycleState, pod: Any, nodes: Any) -> list[Rejected]:
            seen.append((nodes.requested["cpu"].tolist(), isinstance(nodes.usage, Trial)))
            return []

    other = a_pod("other", priority=10, requests={"cpu": "2"})
    view = a_cluster([a_node(name) for name in NAMES], nominated={"n2": [other]})
    profile = a_profile(Watching())
    profile.run_filter_plugins_with_nominated_pods(CycleState(), a_pod(), view.all_nodes())
    assert sorted(seen) == [([0, 0, 0], False), ([2000], True)]
    assert view.all_nodes().requested["cpu"].tolist() == [0, 0, 0]
