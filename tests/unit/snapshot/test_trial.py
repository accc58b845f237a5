"""Trials: nodes with pods added and removed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.snapshot.trial import NO_POD, Trial
from kubesched.snapshot.view import ClusterView
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
    indexes = [NO_POD if n is None else view.pods.index_of[f"uid-default-{n}"] for n in names]
    return np.array(indexes, dtype=np.int32)


def facts(trial: Trial) -> dict[str, Any]:
    nodes = trial.nodes
    return {
        "cpu": nodes.requested["cpu"].tolist(),
        "nonzero": nodes.nonzero_requested["memory"].tolist(),
        "count": nodes.pod_count.tolist(),
        "pods": [sorted(pod.name for pod in node.pods) for node in nodes],
        "ports": [sorted(port.port for port in node.host_ports) for node in nodes],
    }


def test_a_new_trial_equals_the_tables() -> None:
    view = small()
    result = facts(a_trial(view, "n2", "n1"))
    assert result["cpu"] == [0, 1500]
    assert result["pods"] == [[], ["a", "b"]]
    assert result["ports"] == [[], [80]]


def test_removing_and_adding_change_the_trial_and_not_the_tables() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.remove(indices(view, "b", None))
    trial.add(indices(view, None, "c"))
    result = facts(trial)
    assert result["cpu"] == [1000, 500]
    assert result["count"] == [1, 1]
    assert result["pods"] == [["a"], ["c"]]
    assert result["ports"] == [[], [443]]
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
def test_a_copy_of_a_trial_is_independent(verb: str) -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    other = trial.copy() if verb == "copy" else trial.take(np.array([0, 1]))
    other.remove(indices(view, "a", None))
    assert facts(trial)["cpu"] == [1500, 0]
    assert facts(trial)["pods"][0] == ["a", "b"]
    assert facts(other)["cpu"] == [500, 0]


def test_a_trial_of_some_rows_keeps_its_steps() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.add(indices(view, None, "c"))
    assert facts(trial.take(np.array([1])))["cpu"] == [500]
    assert trial.nodes.take(np.array([1])).requested["cpu"].tolist() == [500]


def test_columns_of_a_trial_cannot_be_written() -> None:
    trial = a_trial(small(), "n1", "n2")
    with pytest.raises(ValueError, match="read-only"):
        trial.nodes.requested["cpu"][0] = 1


def test_pod_rows_return_the_pod_at_a_position() -> None:
    view = small()
    rows = a_trial(view, "n1", "n2").remove(indices(view, "a", None))
    assert rows.present.tolist() == [True, False]
    first = rows[0]
    assert first is not None
    assert first.name == "a"
    assert rows[1] is None
    assert len(rows) == 2


def play(trial: Trial, view: ClusterView, *, read_in_between: bool) -> dict[str, Any]:
    """Return the facts after some steps, read after each step or only at the end."""
    both = np.stack([indices(view, "a", None), indices(view, "b", None)], axis=1)
    steps: list[Callable[[], object]] = [
        lambda: trial.remove(both),
        lambda: trial.add(indices(view, "b", "c")),
        lambda: trial.take_back(np.array([False, True])),
        lambda: trial.add(indices(view, "a", None)),
        lambda: trial.take_back(np.array([False, False])),
    ]
    for step in steps:
        if read_in_between:
            facts(trial)
        step()
    return facts(trial)


@pytest.mark.parametrize("read_in_between", [False, True])
@pytest.mark.parametrize("source", ["itself", "copy", "take"])
def test_several_pods_per_row_are_removed_at_once_and_additions_undone(
    read_in_between: bool, source: str
) -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    if read_in_between:
        facts(trial)
    if source != "itself":
        trial = trial.copy() if source == "copy" else trial.take(np.array([0, 1]))
    result = play(trial, view, read_in_between=read_in_between)
    assert result["cpu"] == [1500, 0]
    assert result["count"] == [2, 0]
    assert result["pods"] == [["a", "b"], []]
    assert result["ports"] == [[80], []]


def test_an_addition_is_undone_in_a_copy_too() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    facts(trial)
    trial.add(indices(view, None, "c"))
    other = trial.copy()
    other.take_back(np.array([True, True]))
    assert facts(other)["cpu"] == [1500, 0]
    assert facts(trial)["cpu"] == [1500, 500]


def test_only_an_addition_can_be_undone() -> None:
    view = small()
    trial = a_trial(view, "n1", "n2")
    trial.remove(indices(view, "a", None))
    with pytest.raises(AssertionError, match="only an addition"):
        trial.take_back(np.array([True, True]))


def test_a_resource_that_no_pod_requests_stays_zero() -> None:
    view = a_cluster([a_node("n1", allocatable={"example.com/gpu": "1"})], {"n1": [a_pod("a")]})
    trial = a_trial(view, "n1")
    assert trial.nodes.requested["example.com/gpu"].tolist() == [0]
    trial.remove(indices(view, "a"))
    assert trial.nodes.requested["example.com/gpu"].tolist() == [0]
