"""Pods supposed on nodes, or gone from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.columns.trial import NO_POD, Trial
from kubesched.columns.view import ClusterView
from tests.unit.builders import a_cluster, a_node, a_pod, a_trial


def a_port(number: int) -> list[dict[str, Any]]:
    requests = {"requests": {"cpu": "500m"}}
    return [{"name": "c", "ports": [{"hostPort": number}], "resources": requests}]


def small() -> ClusterView:
    return a_cluster(
        [a_node("n1"), a_node("n2")],
        {"n1": [a_pod("a", requests={"cpu": "1"}), a_pod("b", containers=a_port(80))]},
        nominated={"n2": [a_pod("c", containers=a_port(443))]},
    )


def indices(view: ClusterView, *names: str | None) -> Any:
    found = [NO_POD if n is None else view.pods.index_of[f"uid-default-{n}"] for n in names]
    return np.array(found, dtype=np.int32)


def facts(trial: Trial) -> dict[str, Any]:
    nodes = trial.nodes
    return {
        "cpu": nodes.requested["cpu"].tolist(),
        "nonzero": nodes.nonzero_requested["memory"].tolist(),
        "count": nodes.pod_count.tolist(),
        "pods": [sorted(pod.name for pod in node.pods) for node in nodes],
        "ports": [sorted(port.port for port in node.host_ports) for node in nodes],
    }


def test_a_trial_starts_as_things_are() -> None:
    view = small()
    found = facts(a_trial(view, "n2", "n1"))
    assert found["cpu"] == [0, 1500]
    assert found["pods"] == [[], ["a", "b"]]
    assert found["ports"] == [[], [80]]


def test_removing_and_adding_change_the_trial_and_not_the_tables() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.remove(indices(view, "b", None))
    trial.add(indices(view, None, "c"))
    found = facts(trial)
    assert found["cpu"] == [1000, 500]
    assert found["count"] == [1, 1]
    assert found["pods"] == [["a"], ["c"]]
    assert found["ports"] == [[], [443]]
    assert facts(a_trial(view, "n1", "n2"))["cpu"] == [1500, 0]


def test_a_table_taken_before_a_change_does_not_follow_it() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    before = trial.nodes
    assert before.requested["cpu"].tolist() == [1500, 0]
    trial.remove(indices(view, "a", None))
    assert before.requested["cpu"].tolist() == [1500, 0]
    assert trial.nodes.requested["cpu"].tolist() == [500, 0]


@pytest.mark.parametrize("verb", ["copy", "take"])
def test_a_copy_goes_on_by_itself(verb: str) -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    other = trial.copy() if verb == "copy" else trial.take(np.array([0, 1]))
    other.remove(indices(view, "a", None))
    assert facts(trial)["cpu"] == [1500, 0]
    assert facts(trial)["pods"][0] == ["a", "b"]
    assert facts(other)["cpu"] == [500, 0]


def test_some_rows_of_a_trial_keep_what_is_supposed() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.add(indices(view, None, "c"))
    assert facts(trial.take(np.array([1])))["cpu"] == [500]
    assert trial.nodes.take(np.array([1])).requested["cpu"].tolist() == [500]


def test_columns_of_a_trial_cannot_be_written() -> None:
    trial = a_trial(small(), "n1", "n2")
    with pytest.raises(ValueError, match="read-only"):
        trial.nodes.requested["cpu"][0] = 1


def test_pod_rows_tell_who_is_where() -> None:
    view = small()
    rows = a_trial(view, "n1", "n2").remove(indices(view, "a", None))
    assert rows.present.tolist() == [True, False]
    first = rows[0]
    assert first is not None
    assert first.name == "a"
    assert rows[1] is None
    assert len(rows) == 2


def play(trial: Trial, view: ClusterView, *, asked_in_between: bool) -> dict[str, Any]:
    """Return the facts after a line of steps, asked for all along or only in the end."""
    both = np.stack([indices(view, "a", None), indices(view, "b", None)], axis=1)
    steps: list[Callable[[], object]] = [
        lambda: trial.remove_all(both),
        lambda: trial.add(indices(view, "b", "c")),
        lambda: trial.take_back(np.array([False, True])),
        lambda: trial.add(indices(view, "a", None)),
        lambda: trial.take_back(np.array([False, False])),
    ]
    for step in steps:
        if asked_in_between:
            facts(trial)
        step()
    return facts(trial)


@pytest.mark.parametrize("asked_in_between", [False, True])
@pytest.mark.parametrize("by_way_of", ["itself", "copy", "take"])
def test_lines_of_pods_go_at_once_and_additions_are_taken_back(
    asked_in_between: bool, by_way_of: str
) -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    if asked_in_between:
        facts(trial)
    if by_way_of != "itself":
        trial = trial.copy() if by_way_of == "copy" else trial.take(np.array([0, 1]))
    found = play(trial, view, asked_in_between=asked_in_between)
    assert found["cpu"] == [1500, 0]
    assert found["count"] == [2, 0]
    assert found["pods"] == [["a", "b"], []]
    assert found["ports"] == [[80], []]


def test_an_addition_is_taken_back_in_a_copy_too() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    facts(trial)
    trial.add(indices(view, None, "c"))
    other = trial.copy()
    other.take_back(np.array([True, True]))
    assert facts(other)["cpu"] == [1500, 0]
    assert facts(trial)["cpu"] == [1500, 500]


def test_only_an_addition_is_taken_back() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.remove(indices(view, "a", None))
    with pytest.raises(AssertionError, match="only an addition"):
        trial.take_back(np.array([True, True]))


def test_a_resource_that_no_pod_has_asked_for_stays_untaken() -> None:
    view = a_cluster([a_node("n1", allocatable={"example.com/gpu": "1"})], {"n1": [a_pod("a")]})
    trial = a_trial(view, "n1")
    assert trial.nodes.requested["example.com/gpu"].tolist() == [0]
    trial.remove(indices(view, "a"))
    assert trial.nodes.requested["example.com/gpu"].tolist() == [0]
