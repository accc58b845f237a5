"""Which filter's word is a node's status."""

from typing import Any

import numpy as np
import pytest

from kubesched.columns.view import ClusterView
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Rejected
from kubesched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    StatusError,
    error,
    pending,
    unresolvable,
    unschedulable,
)
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import (
    AnyFilter,
    ColumnRefusal,
    OneNodeRefusal,
    PreFilter,
    Reasons,
)

NAMES = ("n1", "n2", "n3")
A_LIST: Any = [True, True, True]
FIRST, SECOND, THIRD = unschedulable("first"), unschedulable("second"), unschedulable("third")


def three_nodes() -> ClusterView:
    return a_cluster([a_node(name) for name in NAMES])


def statuses(*plugins: Any) -> dict[str, Status]:
    view, state, pod = three_nodes(), CycleState(), a_pod()
    profile = a_profile(*plugins)
    profile.run_pre_filter_plugins(state, pod, view.all_nodes())
    verdicts = profile.run_filter_plugins(state, pod, view.all_nodes())
    return {name: verdicts[position] for position, name in enumerate(NAMES)}


def test_the_first_refusing_plugin_in_order_is_named_whatever_its_spelling() -> None:
    found = statuses(
        OneNodeRefusal("One", {"n1": FIRST}),
        ColumnRefusal("Two", {"n1": SECOND, "n2": SECOND}),
        OneNodeRefusal("Three", {"n1": THIRD, "n2": THIRD, "n3": THIRD}),
    )
    assert found == {"n1": FIRST.by("One"), "n2": SECOND.by("Two"), "n3": THIRD.by("Three")}


def test_a_one_node_filter_is_asked_only_about_nodes_still_standing() -> None:
    late = OneNodeRefusal("Late", {})
    statuses(ColumnRefusal("Early", {"n2": FIRST}), late)
    assert late.asked == ["n1", "n3"]


def test_the_first_rejection_of_one_plugin_that_holds_is_the_status() -> None:
    def answer(nodes: Any) -> list[Rejected]:
        return [
            Rejected(np.array([False, True, True]), FIRST),
            Rejected(np.array([True, True, True]), SECOND),
        ]

    found = statuses(AnyFilter(answer, "P"))
    assert [found[name].message for name in NAMES] == ["second", "first", "first"]


def test_an_error_counts_only_on_nodes_that_reach_it() -> None:
    found = statuses(
        ColumnRefusal("Early", {"n1": FIRST, "n3": FIRST}),
        ColumnRefusal("Faulty", {"n1": error("bad"), "n2": error("bad")}),
    )
    assert found["n1"] == FIRST.by("Early")
    assert found["n2"] == Status(Code.ERROR, ('running "Faulty" filter plugin: bad',), "Faulty")
    assert found["n3"] == FIRST.by("Early")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        pytest.param(StatusError(error("bad")), "bad", id="a status from any depth"),
        pytest.param(KeyError("x"), "KeyError: 'x'", id="a fault of the plugin"),
    ],
)
@pytest.mark.parametrize("spelling", ["columns", "one node"])
def test_an_exception_becomes_an_error_that_names_the_plugin(
    raised: Exception, text: str, spelling: str
) -> None:
    class Column:
        name = "Faulty"

        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            raise raised

    class OneNode:
        name = "Faulty"

        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            raise raised

    plugin = Column() if spelling == "columns" else OneNode()
    expected = Status(Code.ERROR, (f'running "Faulty" filter plugin: {text}',), "Faulty")
    assert set(statuses(plugin).values()) == {expected}


def test_a_raised_refusal_is_a_refusal() -> None:
    def answer(nodes: Any) -> Any:
        raise StatusError(unresolvable("no"))

    assert set(statuses(AnyFilter(answer, "P")).values()) == {unresolvable("no").by("P")}


def test_a_filter_that_answers_neither_yes_nor_no_is_in_error() -> None:
    found = statuses(OneNodeRefusal("P", {"n1": Status(Code.SKIP, ("odd",))}))
    assert found["n1"] == Status(Code.ERROR, ('running "P" filter plugin: odd',), "P")
    assert found["n2"] == SUCCESS


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda n: [Rejected(np.ones(2, dtype=np.bool_), FIRST)], id="wrong length"),
        pytest.param(lambda n: [Rejected(np.ones(3, dtype=np.int64), FIRST)], id="integers"),
        pytest.param(lambda n: [Rejected(A_LIST, FIRST)], id="a list for a mask"),
        pytest.param(lambda n: None, id="nothing"),
        pytest.param(lambda n: np.ones(3, dtype=np.bool_), id="a bare mask"),
    ],
)
def test_a_wrong_answer_fails_the_pod_and_names_the_plugin(answer: Any) -> None:
    for status in statuses(AnyFilter(answer, "Wrong")).values():
        assert status.code is Code.ERROR
        assert status.plugin == "Wrong"
        assert status.message.startswith('running "Wrong" filter plugin: ')


def test_a_one_node_filter_that_returns_no_status_fails_the_pod_and_names_the_plugin() -> None:
    wrong: Any = {"n2": True}
    found = statuses(OneNodeRefusal("Wrong", wrong))
    assert found["n1"] == SUCCESS
    assert (found["n2"].code, found["n2"].plugin) == (Code.ERROR, "Wrong")


def test_reasons_add_up_and_the_worst_code_wins() -> None:
    found = statuses(
        Reasons(
            "P",
            [
                (["n1", "n2"], unschedulable("cpu")),
                (["n2"], unresolvable("memory")),
                (["n2", "n3"], unschedulable("gpu")),
            ],
        )
    )
    assert found == {
        "n1": unschedulable("cpu").by("P"),
        "n2": unresolvable("cpu", "memory", "gpu").by("P"),
        "n3": unschedulable("gpu").by("P"),
    }


def test_reasons_do_not_add_to_what_another_plugin_said_before() -> None:
    found = statuses(
        ColumnRefusal("Early", {"n1": FIRST}),
        Reasons("Late", [(["n1", "n2"], SECOND)]),
    )
    assert found == {"n1": FIRST.by("Early"), "n2": SECOND.by("Late"), "n3": SUCCESS}


def test_an_error_among_reasons_is_an_error() -> None:
    rejections = [(["n1"], unresolvable("no")), (["n1"], error("bad"))]
    found = statuses(Reasons("P", rejections))
    assert found["n1"].code is Code.ERROR


def test_a_plugin_that_skipped_is_not_asked_to_filter() -> None:
    class Skipping(PreFilter):
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            raise AssertionError("asked")

    assert set(statuses(Skipping("P", SKIP)).values()) == {SUCCESS}


def test_pending_is_a_refusal() -> None:
    assert statuses(ColumnRefusal("P", {"n1": pending("soon")}))["n1"] == pending("soon").by("P")
