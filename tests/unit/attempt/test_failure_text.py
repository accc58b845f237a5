"""The text of an attempt that found no node."""

from typing import Any

import numpy as np
import pytest

from kubesched.attempt.diagnosis import Diagnosis, FitError
from kubesched.framework.status import Code, Status, unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus, Verdicts
from kubesched.snapshot.view import ClusterView
from tests.unit.builders import a_cluster, a_node

NAMES = ("n1", "n2", "n3")


@pytest.fixture
def view() -> ClusterView:
    return a_cluster([a_node(name) for name in NAMES])


def verdicts_on(view: ClusterView, *statuses: Status, absent: Status | None = None) -> NodeToStatus:
    """Return the verdicts on the first nodes."""
    verdicts = Verdicts(len(statuses))
    for position, status in enumerate(statuses):
        verdicts.ids[position] = verdicts.id_for(status)
    found = NodeToStatus(view, absent)
    found.set_all(view.visiting_rows()[: len(statuses)], verdicts)
    return found


CPU, TAINT = unschedulable("Insufficient cpu"), unresolvable("node(s) had untolerated taint(s)")


@pytest.mark.parametrize(
    ("statuses", "absent", "expected"),
    [
        pytest.param(
            [CPU, TAINT, CPU],
            None,
            "1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="reasons are counted",
        ),
        pytest.param(
            [unschedulable("a", "b"), unschedulable("b"), unschedulable("c")],
            None,
            "1 a, 1 c, 2 b.",
            id="each reason of a node counts, and entries sort as text",
        ),
        pytest.param(
            [unschedulable("a", "a"), CPU, CPU],
            None,
            "2 Insufficient cpu, 2 a.",
            id="a reason that a node gives twice counts twice",
        ),
        pytest.param(
            [CPU],
            unresolvable("node(s) didn't satisfy plugin(s) [P]"),
            "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [P].",
            id="nodes never looked at have a reason of their own",
        ),
        pytest.param(
            [CPU], None, "1 Insufficient cpu.", id="nodes never looked at may have no reason"
        ),
    ],
)
def test_filters(view: ClusterView, statuses: Any, absent: Any, expected: str) -> None:
    failure = FitError(3, Diagnosis(verdicts_on(view, *statuses, absent=absent)))
    assert str(failure) == f"0/3 nodes are available: {expected}"


def test_ten_sorts_before_two_because_entries_are_text() -> None:
    names = [f"n{number}" for number in range(12)]
    view = a_cluster([a_node(name) for name in names])
    failure = FitError(12, Diagnosis(verdicts_on(view, *[CPU] * 2, *[TAINT] * 10)))
    expected = "10 node(s) had untolerated taint(s), 2 Insufficient cpu."
    assert str(failure) == f"0/12 nodes are available: {expected}"


def test_texts_sort_by_their_bytes(view: ClusterView) -> None:
    statuses = [unschedulable("ä"), unschedulable("Z"), unschedulable("\U0001f600")]
    failure = FitError(3, Diagnosis(verdicts_on(view, *statuses)))
    assert str(failure) == "0/3 nodes are available: 1 Z, 1 ä, 1 \U0001f600."


def test_the_pre_filter_message_replaces_all_others(view: ClusterView) -> None:
    status = unschedulable("pod has unbound claims").by("P")
    diagnosis = Diagnosis(verdicts_on(view, absent=status), pre_filter_status=status)
    assert str(FitError(3, diagnosis)) == "0/3 nodes are available: pod has unbound claims."


def test_the_post_filter_message_comes_last(view: ClusterView) -> None:
    diagnosis = Diagnosis(
        verdicts_on(view, CPU, CPU, CPU), post_filter_message="preemption: no luck."
    )
    expected = "0/3 nodes are available: 3 Insufficient cpu. preemption: no luck."
    assert str(FitError(3, diagnosis)) == expected


def test_without_any_reason_only_the_count_is_left(view: ClusterView) -> None:
    assert str(FitError(3, Diagnosis(verdicts_on(view)))) == "0/3 nodes are available:"


def test_verdicts_by_name_code_and_plugin(view: ClusterView) -> None:
    found = verdicts_on(view, CPU.by("Fit"), TAINT.by("Taints"))
    assert found.get("n1") == CPU.by("Fit")
    assert found.get("n3").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert found.get("nobody").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert found.names_with(Code.UNSCHEDULABLE) == ["n1"]
    assert found.names_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == ["n2", "n3"]
    assert found.plugins() == {"Fit", "Taints"}
    assert found.items() == {"n1": CPU.by("Fit"), "n2": TAINT.by("Taints")}


def test_later_statuses_count_in_every_query(view: ClusterView) -> None:
    statuses = verdicts_on(view, CPU.by("Fit"))

    def answers() -> Any:
        rows = statuses.rows_with(Code.UNSCHEDULABLE).tolist()
        return statuses.plugins(), rows, dict(statuses.reason_counts(3))

    assert answers() == ({"Fit"}, [0], {"Insufficient cpu": 1})
    statuses.set_one(1, unschedulable("full").by("Other"))
    assert answers() == ({"Fit", "Other"}, [0, 1], {"Insufficient cpu": 1, "full": 1})
    statuses.absent = unschedulable("not looked at")
    assert answers()[1:] == ([0, 1, 2], {"Insufficient cpu": 1, "full": 1, "not looked at": 1})
    statuses.set_named({"n1": TAINT.by("Taint")})
    assert answers()[:2] == ({"Other", "Taint"}, [1, 2])
    statuses.set_all(view.visiting_rows(), Verdicts(3))
    assert answers()[1:] == ([1, 2], {"not looked at": 1, "full": 1, TAINT.reasons[0]: 1})


def test_reasons_are_counted_however_many_there_are() -> None:
    names = [f"n{number}" for number in range(9)]
    view = a_cluster([a_node(name) for name in names])
    statuses = verdicts_on(view, *(unschedulable(f"reason {name}").by(name) for name in names))
    assert statuses.reason_counts(9) == {f"reason {name}": 1 for name in names}
    assert statuses.plugins() == set(names)


def test_the_search_replaces_the_status_of_the_nominated_node(view: ClusterView) -> None:
    found = NodeToStatus(view)
    found.set_one(view.row_of("n2"), CPU)
    assert len(found) == 1
    verdicts = Verdicts(3)
    verdicts.reject(np.ones(3, dtype=np.bool_), TAINT)
    found.set_all(view.visiting_rows(), verdicts)
    assert len(found) == 3
    assert found.get("n2") == TAINT


def test_picked_verdicts_share_the_ids_of_statuses() -> None:
    verdicts = Verdicts(3)
    full = unschedulable("full")
    verdicts.reject(np.array([True, False, False]), full)
    picked = verdicts.at(np.array([1, 2]))
    picked.reject(np.array([True, False]), full)
    assert verdicts.statuses.count(full) == 1
    assert picked[0] == full
