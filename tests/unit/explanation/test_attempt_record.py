"""Explanations of attempts agree with the decision, which is kube-scheduler's."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.writer import ClusterWriter
from kubesched.explanation.attempt_record import GROUPS_MAX, AttemptRecord, attempt
from kubesched.explanation.decision import Decision, decide
from kubesched.explanation.report import EVENT_BYTES_MAX, Explanation, Preemption, event_text
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import AllReasons, FilterVerdict, Rejected
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status, unschedulable
from kubesched.profile.build import Built
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.tables import ClusterTables
from kubesched.snapshot.view import ClusterView, NodeTable
from tests.unit.builders import a_budget, a_cluster, a_handle, a_node, a_pod, a_profile, built_with

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


@cache
def the_defaults() -> Built:
    return built_with()


def default_profile(view: ClusterView) -> Profile:
    built = the_defaults()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    return profile


def tried(view: ClusterView, pod: PodInfo) -> AttemptRecord:
    return attempt(default_profile(view), view, pod)


def bounded(view: ClusterView, pod: PodInfo) -> Explanation:
    """Return an attempt without detail, as the running scheduler makes it."""
    profile, state = default_profile(view), CycleState()
    search = Search(all_nodes=True)
    result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    return AttemptRecord(profile, view, pod, state, result=result).explanation()


def labelled(name: str, zone: str = "a", **rest: Any) -> NodeInfo:
    return a_node(name, labels={HOST: name, ZONE: zone}, **rest)


def agrees(explanation: Explanation, decision: Decision) -> None:
    """Fail unless the explanation agrees with the decision."""
    assert explanation.node == decision.suggested_host
    assert explanation.fit_count == len(decision.feasible)
    assert explanation.rejected_count == len(decision.rejected)
    for row in explanation.ranking:
        scores = dict(decision.scores[row.node])
        assert row.total == scores.pop("total")
        assert row.scores == scores
    totals = [row.total for row in explanation.ranking]
    every = sorted((scores["total"] for scores in decision.scores.values()), reverse=True)
    assert totals == (every[: len(totals)] if totals else [])
    if decision.scores:
        assert explanation.tied_count == len(decision.best)
        assert {explanation.node, *explanation.tied} <= set(decision.best)
    groups = Counter(decision.rejected.values())
    assert {(r.plugin, r.code, r.reasons): r.count for r in explanation.rejections} == {
        (s.plugin, s.code.wire_name, tuple(sorted(s.reasons))): n for s, n in groups.items()
    }
    for rejection in explanation.rejections:
        for node in rejection.nodes:
            status = decision.rejected[node]
            assert (status.plugin, tuple(sorted(status.reasons))) == (
                rejection.plugin,
                rejection.reasons,
            )


taints = st.sampled_from(
    [
        [],
        [],
        [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
        [{"key": "spot", "effect": "PreferNoSchedule"}],
    ]
)
nodes = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 4), taints, st.booleans()),
    min_size=1,
    max_size=8,
)
bound = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 8), st.sampled_from(["web", "db"])), max_size=10
)
constraint = st.builds(
    lambda key, action: {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "web"}},
    },
    st.sampled_from([ZONE, HOST]),
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
)


@given(nodes, bound, st.integers(1, 30), st.lists(constraint, max_size=2), st.booleans())
@settings(deadline=None, max_examples=60)
def test_explanations_with_and_without_detail_agree_with_the_decision(
    drawn: list[tuple[str, int, list[dict[str, str]], bool]],
    placed: list[tuple[int, int, str]],
    tenths: int,
    constraints: list[dict[str, Any]],
    nominated: bool,
) -> None:
    infos = [
        labelled(
            f"n{number}",
            zone,
            allocatable={"cpu": str(cpu), "memory": "8Gi", "pods": "5"},
            taints=marks,
            unschedulable=closed and number > 0,
        )
        for number, (zone, cpu, marks, closed) in enumerate(drawn)
    ]
    pods: dict[str, list[PodInfo]] = {}
    for number, (position, size, app) in enumerate(placed):
        name = f"n{position % len(infos)}"
        pod = a_pod(f"p{number}", labels={"app": app}, requests={"cpu": f"{size}00m"})
        pods.setdefault(name, []).append(pod)
    nominee = {"n0": [a_pod("other", priority=5, requests={"cpu": "1"})]} if nominated else {}
    view = a_cluster(infos, pods, nominated=nominee)
    pod = a_pod(
        "new",
        labels={"app": "web"},
        requests={"cpu": f"{tenths}00m"},
        topologySpreadConstraints=constraints,
    )
    decision = decide(default_profile(view), view, pod)
    explanation = tried(view, pod).explanation(top=None)
    agrees(explanation, decision)
    if decision.suggested_host:
        agrees(bounded(view, pod), decision)
    else:
        assert decision.message_after_post_filter is not None
        assert explanation.event.message == decision.message_after_post_filter
        assert (explanation.preemption is None) == (decision.preemption is None)


def test_the_difference_to_the_runner_up_adds_up() -> None:
    spot = [{"key": "spot", "effect": "PreferNoSchedule"}]
    view = a_cluster(
        [labelled("a"), labelled("b", taints=spot)],
        {"a": [a_pod("x", requests={"cpu": "2", "memory": "1Gi"})]},
    )
    runner_up = tried(view, a_pod(requests={"cpu": "1", "memory": "1Gi"})).explanation().runner_up
    assert runner_up is not None
    assert runner_up.node == "b"
    assert runner_up.behind > 0
    assert sum(runner_up.difference.values()) == runner_up.behind
    # Three times a hundred for the taint, less the points of the emptier node.
    assert next(iter(runner_up.difference.items())) == ("TaintToleration", 300)
    assert runner_up.difference["NodeResourcesFit"] < 0
    assert 0 not in runner_up.difference.values()


def test_a_placed_pod_has_the_scheduled_event() -> None:
    explanation = tried(a_cluster([labelled("a")]), a_pod("p", namespace="shop")).explanation()
    assert msgspec.to_builtins(explanation.event) == {
        "type": "Normal",
        "reason": "Scheduled",
        "message": "Successfully assigned shop/p to a",
    }
    assert explanation.why == "only"
    assert (explanation.ranking, explanation.runner_up, explanation.total) == ((), None, None)


def test_without_nodes_there_is_nothing_to_reject() -> None:
    explanation = tried(a_cluster([]), a_pod()).explanation()
    assert (explanation.outcome, explanation.node_count) == ("unschedulable", 0)
    assert explanation.event.message == "no nodes available to schedule pods"


def test_a_nominated_node_and_an_only_node_are_distinguished() -> None:
    view = a_cluster([labelled("a"), labelled("b")])
    pod = a_pod(status={"nominatedNodeName": "b"})
    explanation = tried(view, pod).explanation()
    assert (explanation.node, explanation.why) == ("b", "nominated")
    assert (explanation.fit_count, explanation.rejected_count) == (1, 0)


def test_a_rejection_by_pre_filter_is_one_of_the_whole_pod() -> None:
    pod = a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}])
    explanation = tried(a_cluster([labelled("a"), labelled("b")]), pod).explanation()
    assert explanation.rejected_whole is not None
    assert explanation.rejected_whole.plugin == "VolumeRestrictions"
    assert explanation.rejected_whole.reasons == ('persistentvolumeclaim "gone" not found',)
    assert (explanation.rejections, explanation.rejected_count) == ((), 2)


def test_victims_are_reported_with_their_budgets() -> None:
    small = {"cpu": "1", "memory": "8Gi", "pods": "9"}
    victim = a_pod("low", labels={"app": "db"}, requests={"cpu": "800m"}, priority=-1)
    view = a_cluster(
        [labelled("a", allocatable=small)],
        {"a": [victim]},
        [a_budget("db", {"app": "db"}), a_budget("web", {"app": "web"}), a_budget("all", {})],
    )
    preemption = tried(view, a_pod(requests={"cpu": "500m"})).explanation().preemption
    assert msgspec.json.decode(msgspec.json.encode(preemption)) == {
        "node": "a",
        "victims": [{"pod": "default/low", "priority": -1}],
        "victimCount": 1,
        "budgetViolations": 1,
        "budgets": [
            {
                "name": "default/db",
                "disruptionsAllowed": 0,
                "victims": ["default/low"],
                "victimCount": 1,
            }
        ],
        "budgetsLeftOut": 0,
    }


def crowd(count: int, budgets: list[Any]) -> Preemption:
    """Return a plan with a number of victims on a node, pod n labelled `n: x` and `all: x`."""
    victims = [
        a_pod(f"v{n:03}", labels={f"n{n}": "x", "all": "x"}, requests={"cpu": "100m"}, priority=-n)
        for n in range(count)
    ]
    full = {"cpu": f"{count * 100}m", "memory": "8Gi", "pods": "999"}
    view = a_cluster([labelled("a", allocatable=full)], {"a": victims}, budgets)
    pod = a_pod(requests={"cpu": f"{count * 100}m"}, priority=1)
    preemption = tried(view, pod).explanation().preemption
    assert preemption is not None
    assert preemption.victim_count == count
    return preemption


def test_a_budget_counts_all_victims_and_names_some() -> None:
    preemption = crowd(150, [a_budget("all", {"all": "x"}, allowed=20)])
    (budget,) = preemption.budgets
    assert budget.victim_count == 150
    assert budget.victims == tuple(f"default/v{n:03}" for n in range(10))
    assert (preemption.budget_violations, len(preemption.victims), preemption.budgets_left_out) == (
        130,
        100,
        0,
    )


def test_the_most_exceeded_budgets_are_reported() -> None:
    own = [a_budget(f"b{n:02}", {f"n{n}": "x"}, allowed=n % 2) for n in range(30)]
    preemption = crowd(30, [*own, a_budget("z", {"all": "x"})])
    evens = [f"default/b{n:02}" for n in range(0, 18, 2)]
    assert [budget.name for budget in preemption.budgets] == ["default/z", *evens]
    assert preemption.budgets_left_out == 21


class SpeaksOfEveryNode:
    name = "SpeaksOfEveryNode"

    def filter(self, state: CycleState, pod: PodInfo, node: Any) -> Status | None:
        return unschedulable(f"{node.name} is not to its taste, whatever it may offer")


def test_the_size_of_an_explanation_is_limited() -> None:
    view = a_cluster([labelled(f"n{number:03}") for number in range(300)])
    profile = a_profile(SpeaksOfEveryNode())
    a_handle(profile, view)
    explanation = attempt(profile, view, a_pod()).explanation()
    assert len(explanation.rejections) == GROUPS_MAX
    assert explanation.rejections_left_out == 300 - GROUPS_MAX
    assert len(explanation.event.message) == EVENT_BYTES_MAX
    assert len(msgspec.json.encode(explanation)) < 8_000


def test_the_ranking_is_truncated_with_a_count() -> None:
    view = a_cluster([labelled(f"n{number:03}") for number in range(300)])
    explanation = bounded(view, a_pod())
    assert len(explanation.ranking) == 10
    assert explanation.ranking_left_out == 290
    assert explanation.ranking[0].node == explanation.node
    assert len(explanation.tied) == 3
    assert explanation.tied_count == 300
    assert len(msgspec.json.encode(explanation)) < 4_000
    assert len(tried(view, a_pod()).explanation(top=None).ranking) == 300


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="the maximum length"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="one byte too long"),
        pytest.param("ä" * 600, "ä" * 510 + " ...", id="bytes are counted"),
    ],
)
def test_an_event_is_truncated_as_by_the_scheduler(message: str, expected: str) -> None:
    assert event_text(message) == expected


def test_explaining_does_not_change_the_next_decision() -> None:
    view = a_cluster([labelled("a"), labelled("b")])
    profile, pod = default_profile(view), a_pod(requests={"cpu": "1"})
    first = decide(profile, view, pod)
    attempt(profile, view, pod).explanation()
    state = CycleState()
    result = run_without_extenders(schedule_pod(profile, view, state, pod, Search(all_nodes=True)))
    AttemptRecord(profile, view, pod, state, result=result).explanation()
    assert decide(profile, view, pod) == first


# -- searches that end early ----------------------------------------------------------------------


def live(view: ClusterView, pod: PodInfo, search: Search) -> Explanation:
    """Return the explanation of an attempt as a running scheduler makes it."""
    profile, state = default_profile(view), CycleState()
    result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    explanation = AttemptRecord(profile, view, pod, state, result=result).explanation()
    assert explanation.node == result.suggested_host
    return explanation


def numbers(nodes: Iterable[str]) -> list[int]:
    return [int(name.removeprefix("n")) for name in nodes]


def test_only_visited_nodes_are_reported() -> None:
    view = a_cluster([labelled(f"n{number:03}") for number in range(300)])
    search = Search()
    # kube-scheduler searches for 48 % of 300 nodes: 50 less one for every 125 nodes.
    first = live(view, a_pod(), search)
    assert (first.node_count, first.fit_count, first.unvisited_count) == (300, 144, 156)
    assert (first.ranking_left_out, first.rejected_count, first.rejections) == (134, 0, ())
    assert first.tied_count == 144
    assert max(numbers(row.node for row in first.ranking)) < 144
    second = live(view, a_pod(), search)
    assert second.fit_count == 144
    assert min(numbers(row.node for row in second.ranking)) >= 144
    third = live(view, a_pod(), search)
    assert set(numbers(row.node for row in third.ranking)) <= {*range(288, 300), *range(132)}


def test_nodes_rejected_before_the_search_ended_are_counted() -> None:
    tainted = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    view = a_cluster(
        [labelled(f"n{number:03}", taints=tainted if number < 50 else []) for number in range(300)]
    )
    search = Search()
    explanation = live(view, a_pod(), search)
    assert (explanation.fit_count, explanation.rejected_count) == (144, 50)
    assert explanation.unvisited_count == 106
    (rejection,) = explanation.rejections
    assert (rejection.plugin, rejection.count, len(rejection.nodes)) == ("TaintToleration", 50, 3)
    assert max(numbers(rejection.nodes)) < 50
    # From 194 on: 106 that fit, then the rejected ones, then 38 more.
    repeated = live(view, a_pod(), search)
    assert (repeated.fit_count, repeated.rejected_count, repeated.unvisited_count) == (144, 50, 106)


def test_a_pod_for_one_node_is_rejected_by_all_other_nodes() -> None:
    view = a_cluster([labelled(f"n{number:03}") for number in range(300)])
    field = {"key": "metadata.name", "operator": "In", "values": ["n007"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    explanation = live(view, a_pod(affinity=affinity), Search())
    assert (explanation.node, explanation.why) == ("n007", "only")
    assert (explanation.rejected_count, explanation.unvisited_count) == (299, 0)
    (rejection,) = explanation.rejections
    assert rejection.reasons == ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
    assert "n007" not in rejection.nodes


def test_without_scores_the_first_fitting_node_is_chosen() -> None:
    view = a_cluster([labelled("a"), labelled("b"), labelled("c")])
    profile = a_profile(Indifferent())
    a_handle(profile, view)
    state = CycleState()
    result = run_without_extenders(schedule_pod(profile, view, state, a_pod(), Search()))
    explanation = AttemptRecord(profile, view, a_pod(), state, result=result).explanation()
    assert (explanation.why, explanation.fit_count, explanation.unvisited_count) == ("first", 1, 2)
    whole = attempt(profile, view, a_pod()).explanation()
    assert (whole.why, whole.fit_count, whole.unvisited_count) == ("unscored", 3, 0)


class Indifferent:
    name = "Indifferent"

    def filter(self, state: CycleState, pod: PodInfo, node: Any) -> Status | None:
        return None


def test_an_attempt_is_repeated_if_the_snapshot_has_changed() -> None:
    cluster = ClusterTables()
    writer = ClusterWriter(cluster)
    for name in ("a", "b"):
        writer.set_node(labelled(name))
    view, pod = ClusterView(cluster), a_pod(requests={"cpu": "1"})
    profile, state = default_profile(view), CycleState()
    result = run_without_extenders(schedule_pod(profile, view, state, pod, Search(all_nodes=True)))
    other = "b" if result.suggested_host == "a" else "a"
    writer.add_pod(a_pod("new", requests={"cpu": "2"}), other)
    explanation = AttemptRecord(profile, view, pod, state, result=result).explanation()
    assert explanation == tried(view, pod).explanation()
    assert explanation.tied_count == 1


def test_the_best_nodes_begin_the_whole_ranking() -> None:
    view = a_cluster(
        [
            labelled(
                f"n{number}",
                allocatable={
                    "cpu": str(4 if number % 90 else 5 + number // 90),
                    "memory": "8Gi",
                    "pods": "9",
                },
            )
            for number in range(700)
        ]
    )
    pod = a_pod(requests={"cpu": "1"})
    whole = tried(view, pod).explanation(top=None)
    assert bounded(view, pod).ranking == whole.ranking[:10]
    assert len({row.total for row in whole.ranking[:10]}) > 1


class Particular:
    """A plugin whose verdicts and scores are never kept; it counts its calls."""

    name = "Particular"

    def __init__(self, *_: object) -> None:
        self.call_count = 0

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        self.call_count += 1
        thirds = [
            Rejected(nodes.rows % 3 == 1, unschedulable("one in three")),
            Rejected(nodes.rows % 6 < 2, unschedulable("two in six")),
        ]
        return AllReasons(thirds) if pod.name == "all" else thirds

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        self.call_count += 1
        scores: IntColumn = nodes.rows * 7 % 101
        return scores


@pytest.mark.parametrize("name", ["first", "all"])
def test_an_explanation_calls_no_plugin(name: str) -> None:
    view = a_cluster([labelled(f"n{number}") for number in range(30)])
    built = built_with(Particular)
    profile, pod = built.profiles["default-scheduler"], a_pod(name)
    built.handles[profile.name].view = view
    plugin: Any = profile.plugins["Particular"]
    for _ in range(2):
        state, search = CycleState(), Search(all_nodes=True)
        result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
        call_count = plugin.call_count
        explanation = AttemptRecord(profile, view, pod, state, result=result).explanation(top=None)
        assert plugin.call_count == call_count
        agrees(explanation, decide(profile, view, pod))
