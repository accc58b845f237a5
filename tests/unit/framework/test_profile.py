"""The plugins of a profile, and its PreEnqueue and PostFilter phases."""

from typing import Any

import pytest

from kubesched.config.load import default_config
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    EventRegistration,
    NodeStatuses,
    PostFilterResult,
)
from kubesched.framework.status import (
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    unresolvable,
    unschedulable,
)
from kubesched.framework.verdicts import NodeToStatus
from kubesched.profile.build import build
from tests.unit.builders import a_cluster, a_pod, a_profile, built_with
from tests.unit.framework.small_plugins import ColumnRejection, OneNodeScore, Score


class Gate:
    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self._answer = answer

    def pre_enqueue(self, pod: Any) -> Status | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        answer: Status | None = self._answer
        return answer


class Making:
    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self._answer = answer

    def post_filter(self, state: Any, pod: Any, statuses: NodeStatuses) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def post_filter(*answers: Any) -> tuple[PostFilterResult | None, Status]:
    plugins = [Making(chr(ord("A") + number), answer) for number, answer in enumerate(answers)]
    statuses = NodeToStatus(a_cluster([]))
    return a_profile(*plugins).run_post_filter_plugins(CycleState(), a_pod(), statuses)


PLAN, CLEARED = PostFilterResult("n1"), PostFilterResult("")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            [(None, unschedulable("a")), (PLAN, SUCCESS), (None, error("never called"))],
            (PLAN, SUCCESS.by("B")),
            id="the first success ends it",
        ),
        pytest.param(
            [(None, unresolvable("a")), (PLAN, SUCCESS)],
            (None, unresolvable("a").by("A")),
            id="an unresolvable rejection ends it",
        ),
        pytest.param(
            [(None, unschedulable("a")), (CLEARED, unschedulable("b", "c"))],
            (CLEARED, unschedulable("a", "b", "c").by("A")),
            id="rejections add up under the first plugin, and a cleared nomination is kept",
        ),
        pytest.param(
            [(CLEARED, unschedulable("a")), (None, unschedulable("b"))],
            (CLEARED, unschedulable("a", "b").by("A")),
            id="a plugin without a result does not undo another's",
        ),
        pytest.param(
            [(None, unschedulable("a")), (PLAN, error("bad"))],
            (None, error("bad").by("B")),
            id="an error ends it, and leaves no result",
        ),
        pytest.param(
            [ValueError("bad")], (None, error("ValueError: bad").by("A")), id="an exception"
        ),
        pytest.param(
            [StatusError(unschedulable("a")), (PLAN, SUCCESS)],
            (PLAN, SUCCESS.by("B")),
            id="a raised rejection is a rejection",
        ),
        pytest.param([], (None, Status(Code.UNSCHEDULABLE)), id="no plugins"),
    ],
)
def test_post_filter(answers: list[Any], expected: Any) -> None:
    assert post_filter(*answers) == expected


def test_pre_enqueue_stops_at_the_first_rejection() -> None:
    profile = a_profile(
        Gate("A", None), Gate("B", SUCCESS), Gate("C", unresolvable("gated")), Gate("D", error("x"))
    )
    assert profile.run_pre_enqueue_plugins(a_pod()) == unresolvable("gated").by("C")
    assert a_profile(Gate("A", None)).run_pre_enqueue_plugins(a_pod()) is None


def test_an_exception_in_pre_enqueue_is_an_error() -> None:
    status = a_profile(Gate("A", ValueError("bad"))).run_pre_enqueue_plugins(a_pod())
    assert status == error("ValueError: bad").by("A")


def test_has_attributes_show_which_points_have_plugins() -> None:
    bare = a_profile(Gate("A", None))
    full = a_profile(ColumnRejection("A", {}), OneNodeScore("B", {}), Making("C", None))
    for profile, expected in ((bare, False), (full, True)):
        assert profile.has_filter_plugins is expected
        assert profile.has_score_plugins is expected
        assert profile.has_post_filter_plugins is expected


def test_plugins_are_listed_in_order_with_weights_where_they_apply() -> None:
    profile = a_profile(
        OneNodeScore("B", {}), Score("A", {}), ColumnRejection("C", {}), weights={"A": 5}
    )
    assert profile.list_plugins() == {
        "filter": [("C", 0)],
        "preScore": [("A", 0)],
        "score": [("B", 1), ("A", 5)],
    }
    assert profile.plugin_names("score") == ("B", "A")
    assert profile.plugin_names("permit") == ()
    assert profile.score_weights == {"A": 5, "B": 1}


def test_the_default_profile_has_upstreams_weights() -> None:
    profile = build(default_config()).profiles["default-scheduler"]
    assert profile.score_weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "DynamicResources": 2,
    }
    assert profile.plugin_names("filter")[:3] == (
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
    )


def test_a_users_plugin_comes_after_the_defaults() -> None:
    class Mine:
        name = "Mine"

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
            return []

    profile = built_with(Mine).profiles["default-scheduler"]
    usual = build(default_config()).profiles["default-scheduler"]
    assert profile.plugin_names("filter") == (*usual.plugin_names("filter"), "Mine")
    assert profile.plugin_names("score") == usual.plugin_names("score")


def test_event_registrations_are_none_for_a_plugin_without_the_method() -> None:
    event = EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD))

    class Telling(Gate):
        def events_to_register(self) -> list[EventRegistration]:
            return [event]

    profile = a_profile(Telling("A", None), Gate("B", None))
    assert profile.event_registrations() == {"A": [event], "B": None}
