"""One attempt, from the pod to its node or to the reasons against every node."""

from typing import Any

import numpy as np
import pytest

from kubesched.attempt.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.attempt.request import Detail, ScheduleResult, Search
from kubesched.attempt.schedule_pod import (
    ExtenderFilter,
    ExtenderFilterOutcome,
    ExtenderPrioritize,
    ExtenderPrioritizeOutcome,
    run_without_extenders,
    schedule_pod,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult, Rejected
from kubesched.framework.status import Status, error, pending, unresolvable, unschedulable
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import ColumnRejection, PreFilter, Score

NAMES = ("n1", "n2", "n3")


@pytest.fixture
def view() -> ClusterView:
    return a_cluster([a_node(name) for name in NAMES])


def attempt(view: ClusterView, *plugins: Any, pod: PodInfo | None = None) -> ScheduleResult:
    profile, search = a_profile(*plugins), Search(detail=True)
    pod = pod or a_pod()
    return run_without_extenders(schedule_pod(profile, view, CycleState(), pod, search))


def detail(result: ScheduleResult) -> Detail:
    assert result.detail is not None
    return result.detail


def failure(view: ClusterView, *plugins: Any, pod: PodInfo | None = None) -> FitError:
    with pytest.raises(FitError) as caught:
        attempt(view, *plugins, pod=pod)
    return caught.value


def scores(*values: int) -> Score:
    return Score("Score", dict(zip(NAMES, values, strict=True)))


def rejecting(name: str, **statuses: Status) -> ColumnRejection:
    return ColumnRejection(name, statuses)


def test_without_nodes_there_is_nothing_to_try() -> None:
    with pytest.raises(NoNodesError, match=r"^no nodes available to schedule pods$"):
        attempt(a_cluster([]))


def test_the_highest_total_is_taken(view: ClusterView) -> None:
    result = attempt(view, scores(1, 9, 5))
    assert result.suggested_host == "n2"
    scored = detail(result).scores
    assert scored is not None
    assert scored.total.tolist() == [1, 9, 5]


def test_one_fitting_node_is_taken_unscored(view: ClusterView) -> None:
    class NeverCalled(Score):
        def pre_score(self, state: Any, pod: Any, nodes: Any) -> Status | None:
            raise AssertionError("called")

    no = unschedulable("no")
    result = attempt(view, rejecting("P", n1=no, n3=no), NeverCalled("Score", {}))
    assert result.suggested_host == "n2"
    assert detail(result).scores is None


def test_only_fitting_nodes_are_scored(view: ClusterView) -> None:
    result = attempt(view, rejecting("P", n2=unschedulable("no")), scores(1, 9, 5))
    assert detail(result).feasible.names == ["n1", "n3"]
    assert result.suggested_host == "n3"


def test_a_failure_names_the_plugins_that_rejected(view: ClusterView) -> None:
    found = failure(
        view,
        rejecting("A", n1=unschedulable("a")),
        rejecting("B", n1=unschedulable("b"), n2=unresolvable("b"), n3=unresolvable("b")),
        rejecting("C", n3=unresolvable("c")),
    )
    assert found.diagnosis.unschedulable_plugins == {"A", "B"}
    assert str(found) == "0/3 nodes are available: 1 a, 2 b."


def test_a_plugin_that_waits_for_an_external_event_is_pending_too(view: ClusterView) -> None:
    no = unschedulable("no")
    found = failure(view, rejecting("A", n1=pending("claim")), rejecting("B", n2=no, n3=no))
    assert found.diagnosis.unschedulable_plugins == {"A", "B"}
    assert found.diagnosis.pending_plugins == {"A"}


def test_an_error_of_a_filter_ends_the_attempt(view: ClusterView) -> None:
    with pytest.raises(SchedulingError, match=r'^running "P" filter plugin: bad$'):
        attempt(view, rejecting("P", n1=error("bad")))


def test_an_error_of_pre_filter_ends_the_attempt(view: ClusterView) -> None:
    with pytest.raises(SchedulingError, match=r'^running PreFilter plugin "P": bad$'):
        attempt(view, PreFilter("P", error("bad")))


def test_a_rejection_of_pre_filter_holds_for_every_node(view: ClusterView) -> None:
    found = failure(view, PreFilter("P", unschedulable("no")))
    assert str(found) == "0/3 nodes are available: no."
    assert found.diagnosis.node_to_status.get("n2") == unschedulable("no").by("P")
    assert found.diagnosis.unschedulable_plugins == {"P"}


def test_nodes_that_pre_filter_did_not_name_have_no_rejecting_plugin(view: ClusterView) -> None:
    named = PreFilterResult(frozenset({"n2", "gone"}))
    found = failure(view, PreFilter("A", named), rejecting("B", n2=unschedulable("no")))
    statuses = found.diagnosis.node_to_status
    assert statuses.get("n1") == unresolvable("node(s) didn't satisfy plugin(s) [A]")
    assert statuses.get("n2") == unschedulable("no").by("B")
    assert found.diagnosis.unschedulable_plugins == {"A", "B"}


def test_named_nodes_that_do_not_exist_leave_no_candidates(view: ClusterView) -> None:
    found = failure(view, PreFilter("A", PreFilterResult(frozenset({"gone"}))))
    assert str(found) == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A]."


def nominated(node_name: str) -> PodInfo:
    return a_pod(status={"nominatedNodeName": node_name})


def test_a_nominated_node_that_fits_is_taken_without_looking_further(view: ClusterView) -> None:
    search = Search(next_start_index=1)
    run = schedule_pod(a_profile(scores(9, 0, 0)), view, CycleState(), nominated("n2"), search)
    result = run_without_extenders(run)
    assert (result.suggested_host, result.evaluated_node_count) == ("n2", 1)
    assert search.next_start_index == 1


@pytest.mark.parametrize("status", [unschedulable("no"), error("bad")], ids=["rejected", "error"])
def test_a_nominated_node_that_does_not_fit_sends_the_pod_elsewhere(status: Status) -> None:
    view = a_cluster([a_node(name) for name in NAMES])
    calls: list[int] = []

    class RejectsAlone:
        """Rejects the nominated node when it is evaluated alone."""

        name = "P"

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> list[Any]:
            calls.append(len(nodes))
            return [Rejected(np.array([len(nodes) == 1] * len(nodes)), status)]

    result = attempt(view, RejectsAlone(), scores(1, 2, 3), pod=nominated("n2"))
    assert calls == [1, 3]
    assert result.suggested_host == "n3"


def test_a_nominated_node_that_is_gone_is_ignored(view: ClusterView) -> None:
    assert attempt(view, scores(1, 2, 3), pod=nominated("gone")).suggested_host == "n3"


def test_extenders_get_the_feasible_nodes_and_add_to_the_totals(view: ClusterView) -> None:
    search = Search(has_extender_filters=True, has_extender_prioritizers=True, extender_count=1)
    profile = a_profile(rejecting("P", n1=unschedulable("no")), scores(9, 3, 2))
    run = schedule_pod(profile, view, CycleState(), a_pod(), search)
    question = next(run)
    assert isinstance(question, ExtenderFilter)
    assert question.nodes.names == ["n2", "n3"]
    question = run.send(ExtenderFilterOutcome(question.nodes))
    assert isinstance(question, ExtenderPrioritize)
    assert question.nodes.names == ["n2", "n3"]
    added = {"http://extender": np.array([0, 50])}
    with pytest.raises(StopIteration) as stop:
        run.send(ExtenderPrioritizeOutcome(added, np.array([True, True])))
    assert stop.value.value.suggested_host == "n3"


def test_extenders_that_reject_all_leave_no_node_and_are_named(view: ClusterView) -> None:
    search = Search(has_extender_filters=True, extender_count=1)
    run = schedule_pod(a_profile(), view, CycleState(), a_pod(), search)
    question = next(run)
    assert isinstance(question, ExtenderFilter)
    rejected = {name: unschedulable("busy") for name in question.nodes.names}
    no_nodes = question.nodes.take(np.zeros(3, dtype=np.bool_))
    with pytest.raises(FitError) as found:
        run.send(ExtenderFilterOutcome(no_nodes, rejected))
    assert str(found.value) == "0/3 nodes are available: 3 busy."
    assert "Extender" in found.value.diagnosis.unschedulable_plugins
