"""`check_plugin` accepts valid plugins, and names the rules that others break."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest

from kubesched import (
    SKIP,
    AllReasons,
    Handle,
    PreFilterResult,
    Reads,
    Rejected,
    StatusError,
    unresolvable,
    unschedulable,
    wait,
)
from kubesched.framework.pod_keys import TemplatePod
from kubesched.testing import ConfigError, PluginCheckError, a_node, a_pod, check_plugin
from tests.property.spellings import PAIRS

CLUSTERS = {
    "small": [
        a_node("n1", labels={"zone": "a"}),
        a_node("n2", labels={"zone": "b"}),
        a_node("n3", unschedulable=True),
        a_pod("there", node="n1", requests={"cpu": "1"}),
        a_pod("web", requests={"cpu": "500m"}),
    ]
}


def check(*plugins: Any, **more: Any) -> Any:
    return check_plugin(*plugins, clusters=CLUSTERS, **more)


@pytest.mark.parametrize("pair", PAIRS)
def test_both_forms_of_a_valid_plugin_pass(pair: str) -> None:
    report = check_plugin(*PAIRS[pair])
    assert report.pod_count > 20
    assert (report.rejected_count > 0) == ("filter" in report.points)
    assert (report.score_range is not None) == ("score" in report.points)


def test_the_report_counts_rejections_and_scores() -> None:
    class OnlyA:
        name = "OnlyA"

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            return None if node.labels.get("zone") == "a" else unschedulable("not a")

        def score(self, state: Any, pod: Any, node: Any) -> int:
            return 30 if pod.name == "web" else 70

    report = check(OnlyA)
    assert report.name == "OnlyA"
    assert report.points == ("filter", "score")
    assert (report.pod_count, report.rejected_count, report.passed_count) == (2, 4, 2)
    assert report.score_range == (30, 70)


class Plain:
    """The base class of faulty plugins."""

    name = "Faulty"

    def __init__(self) -> None:
        self.calls = count()

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return None


class Raises(Plain):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return node.labels["nobody/has"]


class ReturnsText(Plain):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return "no"


class Waits(Plain):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return wait("later")


class HandsOutTasks(Plain):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        async def later() -> None:
            return None

        return later()


class Forgets(Plain):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("every second time") if next(self.calls) % 2 else None


class Alternates(Plain):
    """Rejects the first of every three nodes that it is called for."""

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("the first") if next(self.calls) % 3 == 0 else None


class TooHigh(Plain):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return 101


class Negative(Plain):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return -1


class NotANumber(Plain):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return float("nan")


class ScoresTruth(Plain):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return True


class NormalizesTooHigh(Plain):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return 50

    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        return scores * 3


class NormalizesInPlace(NormalizesTooHigh):
    def normalize_scores(self, state: Any, pod: Any, scores: Any) -> Any:
        scores //= 2
        return scores


class OneScoreTooFew(Plain):
    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes) - 1, dtype=np.int64)


class Floats(Plain):
    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.zeros(len(nodes))


class WritesColumns(Plain):
    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        nodes.requested["cpu"][:] = 0
        return np.zeros(len(nodes), dtype=np.int64)


class NamesNobody(Plain):
    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
        return PreFilterResult(frozenset(["n1", "n9"]))


class EnqueuesText(Plain):
    def pre_enqueue(self, pod: Any) -> Any:
        return "no"


class RegistersText(Plain):
    def events_to_register(self) -> Any:
        return ["Node/Add"]


@pytest.mark.parametrize(
    ("plugin", "rule", "example"),
    [
        (
            Raises,
            "filter() raises",
            "small, pod default/there: KeyError: 'nobody/has' (test_plugin",
        ),
        (ReturnsText, "filter() returns something other than a Status or None", "str 'no' for"),
        (Waits, "filter() may not return Wait", "later"),
        (HandsOutTasks, "filter() returns an awaitable", "for node n1"),
        (Forgets, "repeated calls return the same", "(first), nothing (again)"),
        (Alternates, "a new instance and reversed nodes return the same", "the first"),
        (TooHigh, "score() leaves 0 to 100", "101 for node n1"),
        (Negative, "score() leaves 0 to 100", "-1 for node n1"),
        (NotANumber, "score() returns no integer", "NaN for node n1"),
        (ScoresTruth, "score() returns no integer", "bool True for node n1"),
        (NormalizesTooHigh, "normalize_scores() leaves 0 to 100", "150 for node n1"),
        (NormalizesInPlace, "normalize_scores() raises", "read-only"),
        (OneScoreTooFew, "score_nodes() returns another shape", "(1,) for 2 nodes"),
        (Floats, "score_nodes() returns no integers", "float64"),
        (WritesColumns, "score_nodes() raises", "read-only"),
        (NamesNobody, "pre_filter() names unknown nodes", "n9"),
        (EnqueuesText, "pre_enqueue() returns something other than a Status or None", "'no'"),
        (RegistersText, "events_to_register() returns something other", "Node/Add"),
    ],
)
def test_a_broken_rule_is_named_with_an_example(plugin: Any, rule: str, example: str) -> None:
    with pytest.raises(PluginCheckError) as failed:
        check(plugin)
    message = str(failed.value)
    assert message.startswith("Faulty breaks the rules:\n")
    assert f"  {rule}" in message
    assert example in message


class MaskOfNumbers:
    """Rejects with an invalid mask."""

    name = "Faulty"

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return [Rejected(nodes.pod_count, unschedulable("no"))]


class RejectsWithSkip(MaskOfNumbers):
    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return [Rejected(nodes.unschedulable, SKIP)]


class RejectsWithNothing(MaskOfNumbers):
    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("plugin", "rule"),
    [
        (MaskOfNumbers, "filter_nodes() has a mask that is not one bool per node"),
        (RejectsWithSkip, "filter_nodes() rejects with a status that is no rejection"),
        (RejectsWithNothing, "filter_nodes() returns something other than a list of Rejected"),
    ],
)
def test_a_broken_rule_of_a_column_filter_is_named(plugin: Any, rule: str) -> None:
    with pytest.raises(PluginCheckError) as failed:
        check(plugin)
    assert f"  {rule}:" in str(failed.value)


def test_a_change_of_the_pod_is_found() -> None:
    class Promotes(Plain):
        def pre_enqueue(self, pod: Any) -> Any:
            pod.priority = pod.priority + 1

    with pytest.raises(PluginCheckError, match=r"pre_enqueue\(\) raises|stay unchanged"):
        check(Promotes)


def test_a_change_inside_of_an_object_is_found() -> None:
    class Adds(Plain):
        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            node.status.allocatable["cpu"] = "1000"

    with pytest.raises(PluginCheckError, match=r"filter\(\) raises|it changed node n1: object"):
        check(Adds)


def test_differing_forms_are_reported() -> None:
    class NotThree:
        name = "NotThree"

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            return unschedulable("cordoned") if node.unschedulable else None

    class NotThreeColumns:
        name = "NotThree"

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            return [Rejected(nodes.unschedulable, unresolvable("cordoned"))]

    check(NotThree)
    check(NotThreeColumns)
    with pytest.raises(PluginCheckError) as failed:
        check(NotThree, NotThreeColumns)
    assert (
        "  both forms return the same:\n"
        "    small, pod default/there: on node n3: Unschedulable 'cordoned' (one node), "
        "UnschedulableAndUnresolvable 'cordoned' (columns)\n"
    ) in str(failed.value)


def test_raising_a_status_and_adding_reasons_up_agree_with_returning_them() -> None:
    class OneNode:
        name = "Both"

        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
            if pod.name == "web":
                raise StatusError(SKIP)
            return None

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            reasons = ["cordoned"] * node.unschedulable + ["no zone"] * ("zone" not in node.labels)
            return unschedulable(*reasons) if reasons else None

    class Columns:
        name = "Both"

        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Any:
            return SKIP if pod.name == "web" else None

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            return AllReasons(
                [
                    Rejected(nodes.unschedulable, unschedulable("cordoned")),
                    Rejected(~nodes.has_label("zone"), unschedulable("no zone")),
                ]
            )

    assert check(OneNode, Columns).rejected_count == 1


NO_ROOM = unschedulable("not for this pod")


class CountsPods:
    """Declares its reads correctly."""

    name = "CountsPods"

    def reads(self, pod: Any) -> Any:
        return Reads(usage=True)

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return [Rejected(nodes.pod_count > 1, unschedulable("full"))]

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return nodes.pod_count * 10


class CountsSilently(CountsPods):
    """Reads more than it declares."""

    def reads(self, pod: Any) -> Any:
        return Reads(nodes=True)


class CountsAll(CountsPods):
    """Scores all nodes by the pods of all nodes."""

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.full(len(nodes), min(nodes.view.whole().pod_count.sum(), 100))


class ArraysOnly(CountsPods):
    """Fails for one row."""

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return np.minimum(nodes.pod_count, 2)[:] * np.ones(len(nodes), dtype=np.int64)


def test_a_plugin_with_correct_reads_passes() -> None:
    assert check(CountsPods).score_range == (0, 10)


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (
            CountsSilently,
            "it reads no more than reads() declares:\n    small, pod default/there: another pod",
        ),
        (CountsAll, "another pod on n1 changes the result for n2"),
        (ArraysOnly, "one row gets the same result as all rows:\n"),
    ],
)
def test_undeclared_reads_are_reported(plugin: Any, fault: str) -> None:
    with pytest.raises(PluginCheckError) as failed:
        check(plugin)
    assert fault in str(failed.value)


class ForImportant(CountsPods):
    """Rejects nodes by fields of the pod that the report has to name."""

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        hit: Any = (
            pod.priority > 100
            or "team" in pod.annotations
            or pod.spec.runtime_class_name == "gvisor"
        )
        return [Rejected(np.full(len(nodes), hit) if len(np.shape(nodes.rows)) else hit, NO_ROOM)]


class BehindTheBack(CountsPods):
    """Reads the pod without being noticed."""

    read = staticmethod(lambda pod: pod.priority > 100)

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        if isinstance(pod, TemplatePod):
            pod = object.__getattribute__(pod, "_pod")
        hit: Any = type(self).read(pod)
        return [Rejected(np.full(len(nodes), hit) if len(np.shape(nodes.rows)) else hit, NO_ROOM)]


def test_the_report_names_the_fields_of_the_pod_that_are_read() -> None:
    fields = check(ForImportant).pod_fields
    assert fields == ("annotations", "priority", "spec.runtime_class_name")
    assert check(CountsPods).pod_fields == ()


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("priority", lambda pod: pod.priority > 100),
        ("annotations", lambda pod: any("varied" in name for name in pod.annotations)),
        ("spec.runtime_class_name", lambda pod: bool(pod.spec.runtime_class_name)),
        ("spec.priority_class_name", lambda pod: bool(pod.spec.priority_class_name)),
    ],
)
def test_a_field_that_is_read_unnoticed_is_named(field: str, read: Any) -> None:
    plugin = type("BehindTheBack", (BehindTheBack,), {"read": staticmethod(read)})
    with pytest.raises(PluginCheckError) as failed:
        check(plugin)
    assert f"another {field} changes a result, and was read unnoticed" in str(failed.value)


class ByName:
    """Sorts by name."""

    name = "ByName"

    def less(self, first: Any, second: Any) -> Any:
        return bool(first.pod.name < second.pod.name)

    def sort_key(self, queued: Any) -> Any:
        return queued.pod.name


class ByNameOrSame(ByName):
    def less(self, first: Any, second: Any) -> Any:
        return bool(first.pod.name <= second.pod.name)


class ByNameBackwards(ByName):
    def sort_key(self, queued: Any) -> Any:
        return [-ord(letter) for letter in queued.pod.name]


def test_a_queue_sort_with_a_total_order_passes() -> None:
    assert check(ByName).points == ("queueSort",)


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (ByNameOrSame, "less() is an order:\n    small: default/there precedes itself"),
        (ByNameBackwards, "sort_key() sorts as less() does:\n    small: not for default/th"),
    ],
)
def test_a_queue_sort_without_a_total_order_is_reported(plugin: Any, fault: str) -> None:
    with pytest.raises(PluginCheckError) as failed:
        check(plugin)
    assert fault in str(failed.value)


class Limit(msgspec.Struct, frozen=True):
    """Arguments."""

    pods_max: int = 5


class Limited:
    """Takes arguments and a handle, and starts a background task."""

    name = "Limited"

    def __init__(self, args: Limit, handle: Handle) -> None:
        self.args = args
        self.handle = handle
        handle.start_task("fetch", self.fetch)

    async def fetch(self) -> None:
        raise AssertionError("there is nothing to fetch")

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        assert self.handle.snapshot.node(node.name) is not None
        return unschedulable("full") if node.pod_count >= self.args.pods_max else None


def test_plugins_get_arguments_and_a_handle() -> None:
    assert check(Limited).rejected_count == 0
    assert check(Limited, args={"podsMax": 0}).rejected_count == 6
    with pytest.raises(ConfigError, match="did you mean 'podsMax'"):
        check(Limited, args={"podMax": 0})


def test_a_class_without_extension_points_is_rejected() -> None:
    class Nothing:
        name = "Nothing"

    with pytest.raises(TypeError, match="extends no extension point"):
        check(Nothing)
    with pytest.raises(ValueError, match="no cluster has a pod to check"):
        check_plugin(Plain, clusters={"empty": [a_node("n1")]})
