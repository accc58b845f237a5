"""Differences between two schedulers that count, and sequences that depend only on seeds."""

from __future__ import annotations

import pytest

from conformance.side_by_side.compare import (
    Difference,
    Rest,
    event_differences,
    is_race,
    is_tie,
    is_transient,
    rest_differences,
    settled_notes,
)
from conformance.side_by_side.generate import FAMILIES, sequence_of
from conformance.side_by_side.scores import best_nodes
from conformance.side_by_side.state import Event, Events, State

REJECTED = "status=False reason=Unschedulable message=0/1 nodes are available. observedGeneration=1"
NOTE = "0/1 nodes are available."


def a_pod(node: str = "", condition: str = "") -> dict[str, str]:
    return {"nodeName": node, "PodScheduled": condition or ("status=True" if node else REJECTED)}


def an_event(
    subject: str = "Pod a/p1", reason: str = "FailedScheduling", note: str = NOTE
) -> Event:
    return (subject, "Warning", reason, "Scheduling", "default-scheduler", note, "")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_sequence_again(family: str) -> None:
    assert sequence_of(family, 7) == sequence_of(family, 7)
    assert sequence_of(family, 7) != sequence_of(family, 8)


@pytest.mark.parametrize("family", FAMILIES)
def test_pods_of_a_burst_wait_for_nothing_but_each_other(family: str) -> None:
    for seed in range(40):
        for step in sequence_of(family, seed).steps:
            created = [op.body for op in step.ops if op.verb == "create" and op.kind == "Pod"]
            classes = {pod["spec"].get("priorityClassName") for pod in created}
            # Pods of different priorities would be tried in a random order.
            assert len(classes) <= 1


def test_another_node_is_a_difference() -> None:
    found = rest_differences(Rest({"pod a/p1": a_pod("n1")}), Rest({"pod a/p1": a_pod("n2")}))
    assert found == [Difference("pod a/p1", "nodeName", "n1", "n2")]


def test_a_pod_that_is_gone_is_a_difference() -> None:
    found = rest_differences(Rest({"pod a/p1": a_pod("n1")}), Rest({}))
    assert found == [Difference("pod a/p1", "existence", "there", "")]


def test_other_answers_to_requests_are_a_difference() -> None:
    assert rest_differences(Rest({}, (200,)), Rest({}, (404,)))


def test_the_best_nodes_are_those_of_the_last_attempt() -> None:
    line = '"Calculated node\'s final score for pod" pod="a/p1" node="{}" score={}'
    scores = [("n1", 5), ("n2", 5), ("n3", 4), ("n1", 1), ("n2", 7), ("n3", 7)]
    log = "\n".join(line.format(node, score) for node, score in scores)
    assert best_nodes(log) == {"a/p1": {"n2", "n3"}}


@pytest.mark.parametrize(
    ("chosen", "best", "is_one"),
    [
        pytest.param("n2", {"n1", "n2"}, True, id="another of the best"),
        pytest.param("n3", {"n1", "n2"}, False, id="not one of the best"),
        pytest.param("n2", {"n1"}, False, id="the best is unique"),
        pytest.param("", {"n1", "n2"}, False, id="none at all"),
    ],
)
def test_a_tie_is_between_the_best_nodes(chosen: str, best: set[str], is_one: bool) -> None:
    difference = Difference("pod a/p1", "nodeName", "n1", chosen)
    assert is_tie([difference], {"a/p1": frozenset(best)}) is is_one


@pytest.mark.parametrize(
    ("waited", "tested", "is_one"),
    [
        pytest.param(("p1", "p2"), {"p1": "", "p2": "n1"}, True, id="another took the place"),
        pytest.param(("p1", "p2"), {"p1": "", "p2": ""}, False, id="no pod took it"),
        pytest.param(("p1",), {"p1": "", "p2": "n1"}, False, id="one of them is new"),
    ],
)
def test_a_race_is_between_pods_that_waited(
    waited: tuple[str, ...], tested: dict[str, str], is_one: bool
) -> None:
    before: State = {f"pod a/{name}": a_pod() for name in waited}
    reference = {"pod a/p1": a_pod("n1"), "pod a/p2": a_pod()}
    ours = {f"pod a/{name}": a_pod(node) for name, node in tested.items()}
    found = rest_differences(Rest(reference), Rest(ours))
    assert is_race(found, before) is is_one


@pytest.mark.parametrize(
    ("event", "repeated", "is_one"),
    [
        pytest.param(an_event(note="in between"), (), True, id="never a condition at rest"),
        pytest.param(an_event(), (), False, id="a condition at rest"),
        pytest.param(an_event(), ("Pod a/p1",), True, id="merged into the one before"),
        pytest.param(an_event(reason="Scheduled", note="done"), (), False, id="not a rejection"),
    ],
)
def test_only_rejections_in_between_are_transient(
    event: Event, repeated: tuple[str, ...], is_one: bool
) -> None:
    settled = settled_notes([{"pod a/p1": a_pod()}])
    reference = Events(frozenset(), frozenset(repeated))
    tested = Events(frozenset({event}))
    (difference,) = event_differences(reference, tested)
    assert is_transient(difference, settled, reference, tested) is is_one


@pytest.mark.parametrize("seed", range(20))
def test_nodes_of_a_sequence_differ_in_size(seed: int) -> None:
    first = next(step for step in sequence_of("spread", seed).steps if step.ops[0].kind == "Node")
    sizes = [op.body["status"]["allocatable"]["cpu"] for op in first.ops]
    assert len(set(sizes)) == len(sizes)
