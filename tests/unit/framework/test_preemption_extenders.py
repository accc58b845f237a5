"""Preemption with extenders: which are called, and which candidates they accept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesched.config.types import DefaultPreemptionArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ExtenderError, Handle
from kubesched.framework.interface import PostFilterResult, Victims
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.framework.verdicts import NodeToStatus
from kubesched.plugins.default_preemption import DefaultPreemption
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile

BOSS = a_pod("boss", priority=100)
Candidates = Mapping[str, Victims]


class Slots:
    """Each node has one slot."""

    name = "Slots"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("no slot") if node.pod_count >= 1 else None


@dataclass
class Extender:
    """Accepts given candidates, and records its calls."""

    leaves: Callable[[Candidates], Candidates]
    name: str = "http://extender"
    is_ignorable: bool = False
    supports_preemption: bool = True
    interest: bool = True
    calls: list[dict[str, list[str]]] = field(default_factory=list)

    def is_interested(self, pod: PodInfo) -> bool:
        return self.interest

    async def process_preemption(
        self, pod: PodInfo, victims: Candidates, view: ClusterView
    ) -> dict[str, Victims]:
        assert pod is BOSS
        self.calls.append(
            {name: [p.name for p in node_victims.pods] for name, node_victims in victims.items()}
        )
        return dict(self.leaves(victims))


class HandleWithExtenders(Handle):
    """A handle with extenders."""

    configured: tuple[Extender, ...] = ()

    @property
    def extenders(self) -> tuple[Extender, ...]:
        return self.configured


def a_world(*extenders: Extender) -> tuple[Profile, ClusterView, NodeToStatus]:
    """Return three full nodes; the cheapest victim is on the last."""
    nodes = [a_node(name) for name in ("n1", "n2", "n3")]
    pods = {
        name: [a_pod(f"on-{name}", priority=priority)]
        for name, priority in (("n1", 30), ("n2", 20), ("n3", 10))
    }
    view = a_cluster(nodes, pods)
    handle = HandleWithExtenders("default-scheduler")
    handle.configured = extenders
    handle.view = view
    profile = a_profile(Slots(), DefaultPreemption(DefaultPreemptionArgs(10, 100), handle))
    handle.attach(profile)
    found = NodeToStatus(view)
    for name in ("n1", "n2", "n3"):
        found.set_one(view.row_of(name), unschedulable("no slot"))
    return profile, view, found


def preempt(*extenders: Extender) -> tuple[PostFilterResult | None, Status]:
    profile, view, statuses = a_world(*extenders)
    state = CycleState()
    profile.run_pre_filter_plugins(state, BOSS, view.all_nodes())
    found = asyncio.run(profile.run_post_filter_plugins_live(state, BOSS, statuses))
    assert not state.may_wait
    return found


def place(found: tuple[PostFilterResult | None, Status]) -> tuple[str, list[str]]:
    result, status = found
    assert status.is_success
    assert result is not None
    assert result.victims is not None
    return result.nominated_node_name, [pod.name for pod in result.victims.pods]


def only(*names: str) -> Callable[[Candidates], Candidates]:
    return lambda victims: {name: victims[name] for name in names if name in victims}


def fails(victims: Candidates) -> Candidates:
    raise ExtenderError("the extender is down")


ALL = {"n1": ["on-n1"], "n2": ["on-n2"], "n3": ["on-n3"]}


def test_an_extender_without_interest_or_support_is_not_called() -> None:
    silent = [
        Extender(fails, supports_preemption=False),
        Extender(fails, interest=False),
    ]
    assert place(preempt(*silent)) == ("n3", ["on-n3"])
    assert [extender.calls for extender in silent] == [[], []]


def test_each_extender_gets_the_candidates_that_the_previous_one_accepted() -> None:
    first, second = Extender(only("n1", "n2")), Extender(only("n1", "n2", "n3"))
    assert place(preempt(first, second)) == ("n2", ["on-n2"])
    assert (first.calls, second.calls) == ([ALL], [{"n1": ["on-n1"], "n2": ["on-n2"]}])


def test_the_best_candidate_is_picked_by_the_victims_that_extenders_return() -> None:
    def costly(victims: Candidates) -> Candidates:
        return {
            name: Victims(name, node_victims.pods, 0 if name == "n1" else 2)
            for name, node_victims in victims.items()
        }

    assert place(preempt(Extender(costly))) == ("n1", ["on-n1"])


def test_without_a_candidate_no_further_extender_is_called() -> None:
    second = Extender(only("n1"))
    result, status = preempt(Extender(only()), second)
    assert (result, status.code) == (None, Code.UNSCHEDULABLE)
    assert status.message == "preemption: no candidate node for preemption"
    assert second.calls == []


def test_a_failing_extender_ends_preemption() -> None:
    result, status = preempt(Extender(fails))
    assert (result, status.code) == (None, Code.ERROR)
    assert status.message == "preemption: the extender is down"


def test_an_ignorable_extender_that_fails_is_ignored() -> None:
    assert place(preempt(Extender(fails, is_ignorable=True))) == ("n3", ["on-n3"])


def no_victims_on(*names: str) -> Callable[[Candidates], Candidates]:
    return lambda victims: {
        name: Victims(name, () if name in names else node_victims.pods)
        for name, node_victims in victims.items()
    }


def test_a_node_without_victims_is_an_error() -> None:
    _, status = preempt(Extender(no_victims_on("n3")))
    assert status.code is Code.ERROR
    assert status.message == 'preemption: expected at least one victim pod on node "n3"'


def test_a_node_without_victims_is_dropped_if_the_extender_is_ignorable() -> None:
    extender = Extender(no_victims_on("n3"), is_ignorable=True)
    assert place(preempt(extender)) == ("n2", ["on-n2"])


def test_no_extender_is_called_if_the_state_does_not_permit_waiting() -> None:
    extender = Extender(fails)
    profile, view, statuses = a_world(extender)
    state = CycleState()
    profile.run_pre_filter_plugins(state, BOSS, view.all_nodes())
    assert place(profile.run_post_filter_plugins(state, BOSS, statuses)) == ("n3", ["on-n3"])
    assert extender.calls == []
