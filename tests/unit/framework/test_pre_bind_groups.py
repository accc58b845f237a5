"""Groups of PreBind plugins that run in parallel, and the order of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.bind_phase import Call
from kubesched.framework.status import Status, error, unschedulable
from tests.unit.builders import a_pod, a_profile


class Named:
    """A plugin with a given PreBind result."""

    def __init__(self, name: str, answer: Status | None = None) -> None:
        self.name = name
        self._answer = answer

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return self._answer


class Groups:
    """Runs calls in order, and records the size of each group."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        self.sizes.append(len(calls))
        answers = [await call for call in calls]
        return next(((n, s) for n, s in enumerate(answers) if s is not None), None)


def run(
    plugins: Sequence[Named], parallel: str = "", skipped: str = ""
) -> tuple[Status | None, list[int]]:
    state, groups = CycleState(), Groups()
    state.parallel_pre_bind_plugins = frozenset(parallel)
    state.skip_pre_bind_plugins = frozenset(skipped)
    profile = a_profile(*plugins)
    status = asyncio.run(profile.run_pre_bind_plugins(state, a_pod(), "n1", groups))
    return status, groups.sizes


@pytest.mark.parametrize(
    ("names", "parallel", "skipped", "sizes"),
    [
        pytest.param("ABC", "", "", [1, 1, 1], id="no plugin allows it"),
        pytest.param("ABC", "ABC", "", [3], id="all plugins allow it"),
        pytest.param("ABCD", "AC", "", [1, 1, 1, 1], id="only neighbours"),
        pytest.param("ABCD", "BC", "", [1, 2, 1], id="neighbours in the middle"),
        pytest.param(
            "ABC", "ABC", "B", [2], id="a skipped plugin does not separate its neighbours"
        ),
        pytest.param(
            "ABC", "AC", "B", [1, 1], id="a skipped plugin that runs alone separates them"
        ),
        pytest.param("AB", "AB", "AB", [], id="no plugin has work"),
    ],
)
def test_neighbours_that_allow_it_run_in_parallel(
    names: str, parallel: str, skipped: str, sizes: list[int]
) -> None:
    assert run([Named(name) for name in names], parallel, skipped) == (None, sizes)


def test_a_failure_in_a_group_names_its_plugin_and_ends_the_phase() -> None:
    plugins = [Named("A"), Named("B", error("bad")), Named("C")]
    status, sizes = run(plugins, parallel="AB")
    assert status == error('running PreBind plugin "B": bad').by("B")
    assert sizes == [2]


def test_a_rejection_in_a_group_keeps_its_code() -> None:
    status, _ = run([Named("A"), Named("B", unschedulable("late"))], parallel="AB")
    assert status == unschedulable("late").by("B")


def test_without_a_parallelizer_groups_run_in_order() -> None:
    state = CycleState()
    state.parallel_pre_bind_plugins = frozenset("ABC")
    profile = a_profile(Named("A"), Named("B", error("bad")), Named("C", error("worse")))
    status = asyncio.run(profile.run_pre_bind_plugins(state, a_pod(), "n1"))
    assert status == error('running PreBind plugin "B": bad').by("B")
