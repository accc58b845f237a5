"""Nodes are judged with the pods that were promised them, and without; both must fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.columns.trial import Trial
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
from kubesched.model.pod_info import PodInfo
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile

FULL = unschedulable("full")


class FullOneNode:
    """A node takes one pod; the count is the plugin's own."""

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
    # What was supposed is not remembered.
    again = profile.run_filter_plugins(state, pod, nodes)
    assert {again[position] for position in range(3)} == {SUCCESS}
    return {name: verdicts[position] for position, name in enumerate(nodes.names)}


def promised(name: str, priority: int) -> PodInfo:
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
def test_promised_pods_count_if_they_are_no_less_important(
    plugin: Any, priority: int, counts: bool
) -> None:
    found = judged(plugin(), a_pod(priority=10), {"n2": [promised("other", priority)]})
    expected = FULL.by("Full") if counts else SUCCESS
    assert found == {"n1": SUCCESS, "n2": expected, "n3": SUCCESS}


@BOTH
def test_a_pods_own_promise_does_not_stand_in_its_way(plugin: Any) -> None:
    assert judged(plugin(), promised("me", 10), {"n2": [promised("me", 10)]})["n2"] == SUCCESS


@BOTH
def test_each_node_has_its_own_promises(plugin: Any) -> None:
    nominated = {
        "n1": [promised("a", 10), promised("b", 10)],
        "n3": [promised("c", 10), promised("d", 0)],
    }
    found = judged(plugin(), a_pod(priority=10), nominated)
    assert [found[name] == SUCCESS for name in NAMES] == [False, True, False]


@BOTH
def test_a_failure_to_suppose_a_pod_is_an_error_of_that_node(plugin: Any) -> None:
    found = judged(plugin(change_fails=True), a_pod(), {"n2": [promised("a", 10)]})
    assert found["n1"] == found["n3"] == SUCCESS
    assert found["n2"].code is Code.ERROR
    assert found["n2"].message == 'running AddPod on PreFilter plugin "Full": bad'


@BOTH
def test_a_plugin_that_skipped_hears_of_no_promise(plugin: Any) -> None:
    found = judged(plugin(skips=True), a_pod(), {"n2": [promised("a", 10)]})
    assert set(found.values()) == {SUCCESS}


class NeedsCompany:
    """Refuses a node without pods: what fits only beside a promised pod does not fit."""

    name = "NeedsCompany"

    def filter_nodes(self, state: CycleState, pod: Any, nodes: Any) -> list[Rejected]:
        return [Rejected(nodes.pod_count == 0, unschedulable("lonely"))]


def test_a_node_that_fits_only_with_the_promised_pod_does_not_fit() -> None:
    view = a_cluster([a_node("n1")], nominated={"n1": [promised("a", 10)]})
    verdicts = a_profile(NeedsCompany()).run_filter_plugins_with_nominated_pods(
        CycleState(), a_pod(), view.all_nodes()
    )
    assert verdicts[0] == unschedulable("lonely").by("NeedsCompany")


def test_promised_pods_weigh_on_the_supposed_node_only() -> None:
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
