"""Extenders during an attempt: effects of their results on the decision and the log."""

import asyncio
import io
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from kubesched.api.decode import decode_as
from kubesched.api.node import Node
from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import Detail, ScheduleResult, Search
from kubesched.attempt.schedule_pod import schedule_pod
from kubesched.cache.cache import Cache
from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.extender.client.extenders import AbandonedError, Extenders
from kubesched.extender.client.http_extender import HTTPExtender
from kubesched.extender.wire import ExtenderFilterResult
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import ExtenderError
from kubesched.framework.status import Code, unschedulable
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_node, a_pod, a_profile, built_with
from tests.unit.extender.scripted_extenders import ScriptedExtender, failing, names, nodes
from tests.unit.framework.small_plugins import ColumnRejection, Score

NAMES = ("n1", "n2", "n3")
CLOCK = SystemClock()
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def of_document(document: dict[str, Any]) -> NodeInfo:
    raw = msgspec.json.encode(document)
    return NodeInfo(decode_as(Node, raw), raw)


def document(name: str, **parts: Any) -> dict[str, Any]:
    """Return a node as the watch has it."""
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": ROOM, "odd": {"kept": True}},
        **parts,
    }


class World:
    """Three nodes, a profile and some extenders."""

    def __init__(
        self,
        *extenders: ScriptedExtender,
        plugins: Sequence[Any] = (),
        verbosity: int = 0,
        draws: Sequence[int] = (),
    ) -> None:
        self.cache = Cache()
        for name in NAMES:
            self.cache.set_node_info(of_document(document(name)))
        self.text = io.StringIO()
        self.log = make_log(self.text, verbosity=verbosity, clock=CLOCK, buffer_bytes=0)
        self.metrics = SchedulerMetrics()
        self.extenders = Extenders(
            cast("Sequence[HTTPExtender]", extenders),
            placeholder_rows=self.cache.add_placeholders,
            log=self.log,
            metrics=self.metrics,
        )
        self.profile = a_profile(*plugins)
        self.profile.log = self.log
        self.bounds: list[int] = []
        """The sizes of random choices."""
        left = list(draws)

        def draw(bound: int) -> int:
            self.bounds.append(bound)
            return left.pop(0) if left else 0

        self.search = Search(
            extender_count=len(extenders),
            has_extender_filters=self.extenders.has_filters,
            has_extender_prioritizers=self.extenders.has_prioritizers,
            draw=draw,
        )

    async def attempt(self, pod: PodInfo | None = None) -> ScheduleResult:
        attempt = schedule_pod(
            self.profile, self.cache.snapshot(), CycleState(), pod or a_pod(), self.search
        )
        return await self.extenders.drive(attempt, next(attempt))

    def run(self, pod: PodInfo | None = None) -> ScheduleResult:
        return asyncio.run(self.attempt(pod))

    def rejection(self, pod: PodInfo | None = None) -> FitError:
        with pytest.raises(FitError) as caught:
            self.run(pod)
        return caught.value

    def lines_with(self, message: str) -> list[str]:
        return [line for line in self.text.getvalue().splitlines() if message in line]


def detail(result: ScheduleResult) -> Detail:
    assert result.detail is not None
    return result.detail


def scores(*values: int) -> Score:
    return Score("Score", dict(zip(NAMES, values, strict=True)))


# -- filter ---------------------------------------------------------------------------------------


def test_kept_nodes_have_the_order_of_the_response() -> None:
    world = World(ScriptedExtender(filters=lambda _: names("n3", "n1"), is_prioritizer=False))
    result = world.run()
    assert detail(result).feasible.names == ["n3", "n1"]
    assert result.feasible_node_count == 2
    # A node without a reason is not counted.
    assert result.evaluated_node_count == 2


def test_the_pod_is_sent_as_go_encodes_it() -> None:
    extender = ScriptedExtender(is_prioritizer=False)
    pod = a_pod(metadata={"managedFields": [{"manager": "x"}], "annotations": {"a": "b"}})
    World(extender).run(pod)
    (sent,) = extender.pods
    assert set(sent) == {"metadata", "spec", "status"}
    assert sent["metadata"]["annotations"] == {"a": "b"}
    assert "managedFields" not in sent["metadata"]


def test_whole_nodes_are_sent_without_their_kind() -> None:
    extender = ScriptedExtender(node_cache_capable=False)
    World(extender).run()
    expected = [document(name) for name in NAMES]
    for node in expected:
        del node["kind"], node["apiVersion"]
    assert extender.calls == [("filter", expected), ("prioritize", expected)]


def test_reasons_are_counted_with_those_of_plugins() -> None:
    def answer(_sent: list[Any]) -> ExtenderFilterResult:
        return ExtenderFilterResult(
            node_names=[],
            failed_nodes={"n2": "busy", "n3": "both"},
            failed_and_unresolvable_nodes={"n3": "broken", "nowhere": "unheard of"},
        )

    plugin = ColumnRejection("P", {"n1": unschedulable("no")})
    world = World(ScriptedExtender(filters=answer), plugins=[plugin])
    failure = world.rejection()
    assert str(failure) == ("0/3 nodes are available: 1 broken, 1 busy, 1 no, 1 unheard of.")
    statuses = failure.diagnosis.node_to_status
    assert statuses.get("n2").code is Code.UNSCHEDULABLE
    assert statuses.get("n3").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert failure.diagnosis.unschedulable_plugins == {"P", "Extender"}


def test_a_reason_for_a_node_that_a_plugin_rejected_replaces_the_plugins() -> None:
    plugin = ColumnRejection("P", {"n1": unschedulable("no")})
    extender = ScriptedExtender(filters=lambda _: names(n1="seen", n2="busy", n3="busy"))
    failure = World(extender, plugins=[plugin]).rejection()
    assert str(failure) == "0/3 nodes are available: 1 seen, 2 busy."
    assert failure.diagnosis.unschedulable_plugins == {"P", "Extender"}


def test_nodes_left_out_without_a_reason_have_no_status() -> None:
    failure = World(ScriptedExtender(filters=lambda _: names())).rejection()
    assert str(failure) == "0/3 nodes are available:"
    assert failure.diagnosis.unschedulable_plugins == {"Extender"}
    absent = failure.diagnosis.node_to_status.get("n1")
    assert absent.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_returned_name_outside_the_request_is_an_error() -> None:
    plugin = ColumnRejection("P", {"n3": unschedulable("no")})
    world = World(ScriptedExtender(filters=lambda _: names("n1", "n3")), plugins=[plugin])
    text = (
        'extender "http://extender" claims a filtered node "n3" which is not found in the input '
        "node list"
    )
    with pytest.raises(SchedulingError) as caught:
        world.run()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("capable", "answer"),
    [
        pytest.param(False, names("n1"), id="names, where nodes were requested"),
        pytest.param(True, ExtenderFilterResult(), id="nothing"),
    ],
)
def test_a_response_without_nodes_keeps_none(capable: bool, answer: ExtenderFilterResult) -> None:
    extender = ScriptedExtender(node_cache_capable=capable, filters=lambda _: answer)
    assert str(World(extender).rejection()) == "0/3 nodes are available:"


def test_each_extender_gets_the_nodes_of_the_previous_one_until_none_are_left() -> None:
    first = ScriptedExtender("http://a", filters=lambda _: names("n2", "n3"))
    other = ScriptedExtender("http://b", interest=lambda _: False)
    second = ScriptedExtender("http://c", filters=lambda _: names(n2="late"))
    third = ScriptedExtender("http://d")
    failure = World(first, other, second, third).rejection()
    assert first.calls == [("filter", ["n1", "n2", "n3"])]
    assert second.calls == [("filter", ["n2", "n3"])]
    assert other.calls == third.calls == []
    assert str(failure) == "0/3 nodes are available: 1 late."


def test_an_error_ends_the_attempt_unless_the_extender_is_ignorable() -> None:
    with pytest.raises(SchedulingError, match=r"^out of order$"):
        World(ScriptedExtender(filters=failing("out of order"))).run()
    ignorable = ScriptedExtender(
        filters=failing("out of order"), is_ignorable=True, is_prioritizer=False
    )
    after = ScriptedExtender("http://after", is_prioritizer=False)
    world = World(ignorable, after)
    assert world.run().feasible_node_count == 3
    assert after.calls == [("filter", ["n1", "n2", "n3"])]
    (line,) = world.lines_with("Skipping extender as it returned error and has ignorable flag set")
    assert 'extender="http://extender"' in line
    assert 'err="out of order"' in line


def test_a_nominated_node_is_sent_alone() -> None:
    extender = ScriptedExtender()
    result = World(extender).run(a_pod(status={"nominatedNodeName": "n2"}))
    assert result.suggested_host == "n2"
    assert extender.calls == [("filter", ["n2"])]


def test_a_rejected_nominated_node_keeps_its_reason_and_others_are_tried() -> None:
    extender = ScriptedExtender(
        filters=lambda sent: names(n2="gone") if sent == ["n2"] else names("n1"),
    )
    result = World(extender).run(a_pod(status={"nominatedNodeName": "n2"}))
    assert result.suggested_host == "n1"
    assert result.evaluated_node_count == 2
    assert extender.calls == [("filter", ["n2"]), ("filter", ["n1", "n2", "n3"])]


def test_an_error_on_a_nominated_node_is_ignored() -> None:
    def answer(sent: list[Any]) -> ExtenderFilterResult:
        return failing("hiccup")(sent) if sent == ["n2"] else names("n3")

    world = World(ScriptedExtender(filters=answer))
    assert world.run(a_pod(status={"nominatedNodeName": "n2"})).suggested_host == "n3"
    (line,) = world.lines_with("Evaluation failed on nominated node")
    assert 'err="hiccup"' in line
    assert 'node="n2"' in line


# -- nodes that extenders return -------------------------------------------------------------------


def test_returned_nodes_are_scored_as_if_they_had_no_pods() -> None:
    # Upstream makes new NodeInfos of returned nodes: nothing is requested on them.
    profile = built_with().profiles["default-scheduler"]
    by_name = World(ScriptedExtender(is_prioritizer=False))
    as_nodes = World(ScriptedExtender(is_prioritizer=False, node_cache_capable=False))
    totals = []
    for world in (by_name, as_nodes):
        world.profile = profile
        world.cache.add_pod(a_pod("big", requests={"cpu": "3", "memory": "6Gi"}, nodeName="n1"))
        found = detail(world.run(a_pod(requests={"cpu": "1", "memory": "2Gi"}))).scores
        assert found is not None
        totals.append(found.by_plugin["NodeResourcesFit"].tolist())
    # 4 cores and 8Gi: a quarter is requested, so that three quarters are left.
    assert totals == [[0, 75, 75], [75, 75, 75]]


def test_nodes_changed_by_an_extender_are_scored_as_returned() -> None:
    taint = {"key": "avoid", "effect": "PreferNoSchedule"}
    changed = [document("n1", spec={"taints": [taint]}), document("n2")]
    extender = ScriptedExtender(
        filters=lambda _: nodes(*changed), node_cache_capable=False, is_prioritizer=False
    )
    world = World(extender)
    world.profile = built_with().profiles["default-scheduler"]
    result = world.run()
    found = detail(result).scores
    assert found is not None
    # TaintToleration weighs 3.
    assert found.by_plugin["TaintToleration"].tolist() == [0, 300]
    assert result.suggested_host == "n2"
    # The node of the cluster is unchanged.
    assert world.cache.snapshot().all_nodes().taint_set.tolist() == [0, 0, 0]


def test_an_unknown_node_can_be_chosen() -> None:
    # Upstream does not check whether returned nodes were in the request.
    ghost = document("ghost")
    extender = ScriptedExtender(
        filters=lambda _: nodes(ghost), node_cache_capable=False, is_prioritizer=False
    )
    world, pod = World(extender), a_pod()
    result = world.run(pod)
    assert result.suggested_host == "ghost"
    record = AttemptRecord(world.profile, world.cache.snapshot(), pod, CycleState(), result=result)
    assert record.explanation().unvisited_count == 0
    assert world.cache.snapshot().row_of("ghost") == -1
    assert world.cache.snapshot().node_count == 3


def test_returned_nodes_may_lack_all_fields() -> None:
    bare = [{"metadata": {"name": name}} for name in NAMES]
    extender = ScriptedExtender(
        filters=lambda _: nodes(*bare), node_cache_capable=False, is_prioritizer=False
    )
    world = World(extender)
    world.profile = built_with().profiles["default-scheduler"]
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    result = world.run(a_pod(requests={"cpu": "1"}, topologySpreadConstraints=[spread]))
    assert result.feasible_node_count == 3
    found = detail(result).scores
    assert found is not None
    assert found.by_plugin["NodeResourcesFit"].tolist() == [0, 0, 0]
    # Nodes without the key are ignored by spreading, and score 0.
    assert found.by_plugin["PodTopologySpread"].tolist() == [0, 0, 0]


def test_a_node_returned_twice_counts_twice() -> None:
    extender = ScriptedExtender(
        filters=lambda _: nodes(document("n1"), document("n1")), node_cache_capable=False
    )
    world = World(extender)
    result = world.run()
    assert (result.suggested_host, result.feasible_node_count) == ("n1", 2)


def test_the_next_extender_gets_the_returned_nodes() -> None:
    first = ScriptedExtender(
        "http://a",
        filters=lambda _: nodes({"metadata": {"name": "n3"}}, {"metadata": {"name": "n1"}}),
        node_cache_capable=False,
        is_prioritizer=False,
    )
    second = ScriptedExtender("http://b", node_cache_capable=False, is_prioritizer=False)
    third = ScriptedExtender("http://c")
    World(first, second, third).run()
    sent = [{"metadata": {"name": "n3"}}, {"metadata": {"name": "n1"}}]
    assert second.calls == [("filter", sent)]
    assert third.calls == [("filter", ["n3", "n1"]), ("prioritize", ["n3", "n1"])]


def test_a_malformed_node_is_an_error() -> None:
    broken = {"metadata": {"name": 7}}
    extender = ScriptedExtender(filters=lambda _: nodes(broken), node_cache_capable=False)
    with pytest.raises(SchedulingError, match="json: cannot unmarshal"):
        World(extender).run()


# -- prioritize -----------------------------------------------------------------------------------


def test_scores_are_scaled_and_weighted_and_unknown_hosts_ignored() -> None:
    extender = ScriptedExtender(weight=3, scores={"n2": 2, "nowhere": 10})
    world = World(extender, plugins=[scores(50, 0, 0)])
    found = detail(world.run()).scores
    assert found is not None
    assert found.total.tolist() == [50, 60, 0]
    assert found.by_plugin["http://extender"].tolist() == [0, 60, 0]


def test_scores_of_extenders_and_repeated_hosts_are_added() -> None:
    first = ScriptedExtender("http://a", scores=[("n1", 1), ("n1", 2)])
    second = ScriptedExtender("http://b", weight=2, scores={"n1": -1, "n3": 100})
    found = detail(World(first, second).run()).scores
    assert found is not None
    assert found.total.tolist() == [10, 0, 2000]


def test_scores_overflow_as_go_integers_do() -> None:
    extender = ScriptedExtender(weight=1, scores={"n1": 2**62, "n2": 1, "n3": -(2**63)})
    found = detail(World(extender).run()).scores
    assert found is not None
    # 2^62 * 10 is 2.5 times 2^64, and -2^63 * 10 is 0 modulo 2^64.
    assert found.total.tolist() == [-(2**63), 10, 0]


def test_ties_between_scored_nodes_are_random_and_beat_unscored_ones() -> None:
    extender = ScriptedExtender(scores={"n2": 0, "n3": 0})
    world = World(extender, draws=[1, 0])
    assert [world.run().suggested_host for _ in range(2)] == ["n3", "n2"]
    assert world.bounds == [2, 2]


def test_ties_between_unscored_nodes_are_resolved_in_order() -> None:
    world = World(ScriptedExtender(scores={"n3": -1}))
    assert world.run().suggested_host == "n1"
    assert world.bounds == []


def test_an_extender_without_prioritize_still_randomizes_ties() -> None:
    extender = ScriptedExtender(is_prioritizer=False)
    world = World(extender, draws=[2])
    assert world.run().suggested_host == "n3"
    assert world.bounds == [3]
    assert [verb for verb, _ in extender.calls] == ["filter"]


def test_an_uninterested_extender_does_not_score() -> None:
    world = World(ScriptedExtender(interest=lambda _: False, scores={"n3": 10}))
    assert world.run().suggested_host == "n1"
    assert world.bounds == []


def test_extenders_score_concurrently() -> None:
    async def both() -> ScheduleResult:
        first = ScriptedExtender("http://a", is_filter=False, scores={"n1": 1})
        second = ScriptedExtender("http://b", is_filter=False, scores={"n2": 2})
        first.held = second.held = asyncio.Event()
        world = World(first, second)
        attempt = Tasks().start(world.attempt(), name="attempt")
        while not (first.calls and second.calls):
            await CLOCK.sleep(0)
        running = world.metrics.goroutines.labels("prioritizing_extender")
        assert running.value == 2
        first.held.set()
        result = await attempt
        assert running.value == 0
        return result

    assert asyncio.run(both()).suggested_host == "n2"


def test_failing_scores_are_logged_once_until_they_work_again() -> None:
    extender = ScriptedExtender(scores=ExtenderError("down"))
    world = World(extender, plugins=[scores(0, 1, 0)], verbosity=5)
    for _ in range(3):
        assert world.run().suggested_host == "n2"
    assert len(world.lines_with("Extender's priority function fails")) == 1
    assert len(world.lines_with("Failed to run extender's priority function.")) == 3
    extender.scores = {"n3": 10}
    assert [world.run().suggested_host for _ in range(2)] == ["n3", "n3"]
    assert len(world.lines_with("Extender's priority function works again")) == 1
    extender.scores = ExtenderError("down")
    world.run()
    assert len(world.lines_with("Extender's priority function fails")) == 2


# -- cancellation and explanations ----------------------------------------------------------------


def test_give_up_abandons_a_call() -> None:
    async def give_up() -> None:
        extender = ScriptedExtender(held=asyncio.Event())
        world = World(extender)
        attempt = Tasks().start(world.attempt(), name="attempt")
        while not extender.calls:
            await CLOCK.sleep(0)
        world.extenders.give_up()
        with pytest.raises(AbandonedError):
            await attempt

    asyncio.run(give_up())


def test_a_response_at_the_moment_of_give_up_is_dropped() -> None:
    async def give_up() -> None:
        loop = asyncio.get_running_loop()

        def answer(sent: list[Any]) -> ExtenderFilterResult:
            # Runs after the response, and before the waiting task.
            loop.call_soon(world.extenders.give_up)
            return names(*sent)

        world = World(ScriptedExtender(filters=answer))
        with pytest.raises(AbandonedError):
            await world.attempt()

    asyncio.run(give_up())


def test_cancellation_is_not_give_up() -> None:
    async def cancel() -> None:
        extender = ScriptedExtender(held=asyncio.Event())
        attempt = Tasks().start(World(extender).attempt(), name="attempt")
        while not extender.calls:
            await CLOCK.sleep(0)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt

    asyncio.run(cancel())


def test_explanations_name_the_extender() -> None:
    first = ScriptedExtender("http://a", filters=lambda _: names("n2", "n3", n1="busy"))
    second = ScriptedExtender(
        "http://b", filters=lambda _: names("n3"), scores={"n3": 1}, is_prioritizer=False
    )
    world = World(first, second)
    pod, view = a_pod(), world.cache.snapshot()
    record = AttemptRecord(
        world.profile, view, pod, CycleState(), result=world.run(pod)
    ).explanation()
    assert record.node == "n3"
    assert {
        (rejection.plugin, rejection.reasons, rejection.nodes) for rejection in record.rejections
    } == {
        ("http://a", ("busy",), ("n1",)),
        ("http://b", ("left out by the extender, which gave no reason",), ("n2",)),
    }


def test_explanations_show_the_chosen_node_first() -> None:
    extender = ScriptedExtender("http://a", scores=dict.fromkeys(NAMES, 4))
    world = World(extender, draws=[2])
    pod, view = a_pod(), world.cache.snapshot()
    record = AttemptRecord(
        world.profile, view, pod, CycleState(), result=world.run(pod)
    ).explanation()
    assert record.node == record.ranking[0].node == "n3"
    assert record.ranking[0].scores == {"http://a": 40}
    assert record.tied_count == 3


def test_closing_closes_all_extenders() -> None:
    made = [ScriptedExtender("http://a"), ScriptedExtender("http://b")]
    closing: Coroutine[Any, Any, None] = World(*made).extenders.close()
    asyncio.run(closing)
    assert all(extender.is_closed for extender in made)


def test_placeholder_rows_are_reused_for_unchanged_nodes() -> None:
    extender = ScriptedExtender(node_cache_capable=False, is_prioritizer=False)
    world = World(extender)
    view = world.cache.snapshot()
    world.run()
    epoch, count = view.node_epoch, view.row_count
    world.run()
    assert (view.node_epoch, view.row_count) == (epoch, count)
    world.cache.drop_placeholders()
    assert view.node_epoch > epoch
    world.cache.set_node_info(a_node("n4"))
    assert view.row_count == count
    assert np.array_equal(view.all_nodes().names, [*NAMES, "n4"])
