"""The status of each node after filtering."""

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
    pending,
    unresolvable,
    unschedulable,
)
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_node, a_pod, a_profile
from tests.unit.framework.small_plugins import (
    AnyFilter,
    ColumnRejection,
    OneNodeRejection,
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
    verdicts = profile.filters.judge(state, pod, view.all_nodes())
    return {name: verdicts[position] for position, name in enumerate(NAMES)}


def test_the_first_rejecting_plugin_in_order_is_named() -> None:
    found = statuses(
        OneNodeRejection("One", {"n1": FIRST}),
        ColumnRejection("Two", {"n1": SECOND, "n2": SECOND}),
        OneNodeRejection("Three", {"n1": THIRD, "n2": THIRD, "n3": THIRD}),
    )
    assert found == {"n1": FIRST.by("One"), "n2": SECOND.by("Two"), "n3": THIRD.by("Three")}


def test_a_one_node_filter_is_called_only_for_nodes_not_yet_rejected() -> None:
    late = OneNodeRejection("Late", {})
    statuses(ColumnRejection("Early", {"n2": FIRST}), late)
    assert late.called_for == ["n1", "n3"]


def test_the_first_of_a_plugins_rejections_is_the_status() -> None:
    def answer(nodes: Any) -> list[Rejected]:
        return [
            Rejected(np.array([False, True, True]), FIRST),
            Rejected(np.array([True, True, True]), SECOND),
        ]

    found = statuses(AnyFilter(answer, "P"))
    assert [found[name].message for name in NAMES] == ["second", "first", "first"]


def test_an_error_counts_only_on_nodes_not_yet_rejected() -> None:
    found = statuses(
        ColumnRejection("Early", {"n1": FIRST, "n3": FIRST}),
        ColumnRejection("Faulty", {"n1": error("bad"), "n2": error("bad")}),
    )
    assert found["n1"] == FIRST.by("Early")
    assert found["n2"] == Status(Code.ERROR, ('running "Faulty" filter plugin: bad',), "Faulty")
    assert found["n3"] == FIRST.by("Early")


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        pytest.param(StatusError(error("bad")), "bad", id="a raised status"),
        pytest.param(KeyError("x"), "KeyError: 'x'", id="an exception"),
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


def test_a_raised_rejection_is_a_rejection() -> None:
    def answer(nodes: Any) -> Any:
        raise StatusError(unresolvable("no"))

    assert set(statuses(AnyFilter(answer, "P")).values()) == {unresolvable("no").by("P")}


def test_a_status_that_a_filter_may_not_return_is_an_error() -> None:
    found = statuses(OneNodeRejection("P", {"n1": Status(Code.SKIP, ("odd",))}))
    assert found["n1"] == Status(Code.ERROR, ('running "P" filter plugin: odd',), "P")
    assert found["n2"] == SUCCESS


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda n: [Rejected(np.ones(2, dtype=np.bool_), FIRST)], id="wrong length"),
        pytest.param(lambda n: [Rejected(np.ones(3, dtype=np.int64), FIRST)], id="integers"),
        pytest.param(lambda n: [Rejected(A_LIST, FIRST)], id="a list as mask"),
        pytest.param(lambda n: None, id="nothing"),
        pytest.param(lambda n: np.ones(3, dtype=np.bool_), id="a bare mask"),
    ],
)
def test_an_invalid_verdict_fails_the_pod_and_names_the_plugin(answer: Any) -> None:
    for status in statuses(AnyFilter(answer, "Wrong")).values():
        assert status.code is Code.ERROR
        assert status.plugin == "Wrong"
        assert status.message.startswith('running "Wrong" filter plugin: ')


def test_a_one_node_filter_that_returns_no_status_fails_the_pod_and_names_the_plugin() -> None:
    wrong: Any = {"n2": True}
    found = statuses(OneNodeRejection("Wrong", wrong))
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


def test_reasons_do_not_add_to_the_rejection_of_an_earlier_plugin() -> None:
    found = statuses(
        ColumnRejection("Early", {"n1": FIRST}),
        Reasons("Late", [(["n1", "n2"], SECOND)]),
    )
    assert found == {"n1": FIRST.by("Early"), "n2": SECOND.by("Late"), "n3": SUCCESS}


def test_an_error_among_reasons_is_an_error() -> None:
    rejections = [(["n1"], unresolvable("no")), (["n1"], error("bad"))]
    found = statuses(Reasons("P", rejections))
    assert found["n1"].code is Code.ERROR


def test_the_filter_of_a_skipped_plugin_is_not_called() -> None:
    class Skipping(PreFilter):
        def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
            raise AssertionError("the filter was called")

    assert set(statuses(Skipping("P", SKIP)).values()) == {SUCCESS}


def test_pending_is_a_rejection() -> None:
    assert statuses(ColumnRejection("P", {"n1": pending("soon")}))["n1"] == pending("soon").by("P")
