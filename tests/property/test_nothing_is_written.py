"""No decision writes to a table, and a plugin that tries fails its pod and nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from kubesched.explanation.decision import decide
from kubesched.snapshot.view import NodeTable
from tests.property.facts import facts_of
from tests.property.random_cases import NUMBERS, case_of, load
from tests.unit.builders import a_cluster, a_handle, a_node, a_pod, a_profile

WRITES: dict[str, Callable[[NodeTable], Any]] = {
    "allocatable": lambda nodes: nodes.allocatable["cpu"],
    "requested": lambda nodes: nodes.requested["cpu"],
    "what pods weigh": lambda nodes: nodes.nonzero_requested["memory"],
    "pod count": lambda nodes: nodes.pod_count,
    "allowed pods": lambda nodes: nodes.allowed_pods,
    "cordoned": lambda nodes: nodes.unschedulable,
    "taint sets": lambda nodes: nodes.taint_set,
    "feature sets": lambda nodes: nodes.feature_set,
    "labels": lambda nodes: nodes.label("disk"),
    "labels of all rows": lambda nodes: nodes.view.label_ids("disk"),
    "the visiting order": lambda nodes: nodes.view.visiting_rows(),
    "a question's answers": lambda nodes: nodes.label_values("disk").lut("q", bool),
}


class Writer:
    """Writes to an argument that it may only read."""

    name = "Writer"

    def __init__(self, column: Callable[[NodeTable], Any], point: str) -> None:
        self._column = column
        setattr(self, point, self._write)

    def _write(self, state: Any, pod: Any, nodes: NodeTable) -> Any:
        self._column(nodes)[0] = 1


class Even:
    """Scores all nodes the same, since PreScore runs only with a score plugin."""

    name = "Even"

    def score_nodes(self, state: Any, pod: Any, nodes: NodeTable) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)


@pytest.mark.parametrize("point", ["pre_filter", "filter_nodes", "pre_score", "score_nodes"])
@pytest.mark.parametrize("column", WRITES)
def test_a_plugin_that_writes_fails_its_pod_and_is_named(column: str, point: str) -> None:
    nodes = [a_node(name, labels={"disk": "ssd"}) for name in ("n1", "n2")]
    view = a_cluster(nodes, {"n1": [a_pod("other", requests={"cpu": "1"})]})
    before = facts_of(view)
    profile = a_profile(Writer(WRITES[column], point), Even())
    a_handle(profile, view)
    decision = decide(profile, view, a_pod())
    assert decision.error is not None
    assert '"Writer"' in decision.error
    assert "read-only" in decision.error
    assert facts_of(view) == before


@settings(max_examples=60)
@given(NUMBERS)
def test_a_decision_leaves_the_cluster_as_it_was(number: int) -> None:
    loaded = load(case_of(number))
    before = facts_of(loaded.view)
    first = loaded.decide().as_json()
    assert facts_of(loaded.view) == before
    assert loaded.decide().as_json() == first
