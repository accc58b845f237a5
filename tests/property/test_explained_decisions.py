"""Explanations from kept verdicts equal explanations from a full evaluation.

One profile keeps verdicts and explains from its columns; the other calls every plugin and keeps the
detail. Their explanations of a pod must be equal, in a search over all nodes and in one that ends
early, and must not mention nodes that were not visited.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.explanation.report import Explanation
from kubesched.framework.cycle_state import CycleState
from kubesched.profile.build import Built
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.property.changes import CHANGES, NODES, PODS, Change, World
from tests.property.test_kept_verdicts import NAME, PROBES, USERS, FirstFew, Pair, profile_pair
from tests.unit.builders import a_wire_pod


def _named(*names: str) -> dict[str, Any]:
    """Return an affinity to nodes by name, as DaemonSets use it."""
    field = {"key": "metadata.name", "operator": "In"}
    terms = [{"matchFields": [{**field, "values": [name]}]} for name in names]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"labels": {"app": "a1"}, "affinity": {"nodeAffinity": required}}


MORE_PROBES: list[dict[str, Any]] = [
    *PROBES,
    _named("n1"),
    _named("n0", "n2", "n3"),
    {"labels": {"app": "a1"}, "status": {"nominatedNodeName": "n2"}},
]


def tried(built: Built, view: ClusterView, pod: PodInfo, search: Search) -> AttemptRecord:
    """Return the record of an attempt, made as in the live scheduler."""
    built.handles[NAME].view = view
    profile, state = built.profiles[NAME], CycleState()
    try:
        result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    except (FitError, SchedulingError) as failure:
        return AttemptRecord(profile, view, pod, state, failure=failure)
    return AttemptRecord(profile, view, pod, state, result=result)


def search_of(start: int | None, enough: int | None) -> Search:
    if enough is not None:
        return FirstFew(next_start_index=start or 0, enough=enough)
    return Search(all_nodes=start is None, next_start_index=start or 0)


def facts(explanation: Explanation) -> Any:
    """Return an explanation without the examples of rejected nodes, which are arbitrary."""
    tree = msgspec.to_builtins(explanation)
    for rejection in tree["rejections"]:
        rejection["nodes"] = len(rejection["nodes"])
    return tree


def grouped(one: AttemptRecord) -> dict[Any, list[str]]:
    return {group.status: sorted(one.view.nodes_at(group.rows).names) for group in one.groups()}


def check(pair: Pair, world: World, pod: PodInfo, start: int | None, enough: int | None) -> None:
    """Check that both profiles give the same, correct explanation."""
    view = world.cache.snapshot()
    kept = tried(pair.keeping, view, pod, search_of(start, enough))
    plain = tried(pair.uncached, view, pod, search_of(start, enough))
    explanation, expected = kept.explanation(top=3), plain.explanation(top=3)
    assert facts(explanation) == facts(expected)
    groups = grouped(plain)
    assert grouped(kept) == groups
    for status, nodes in groups.items():
        named = [
            rejection.nodes
            for rejection in explanation.rejections
            if (rejection.plugin, rejection.reasons)
            == (status.plugin, tuple(sorted(status.reasons)))
        ]
        assert all(set(some) <= set(nodes) for some in named)
    if kept.result is not None:
        _check_placed(explanation, kept)


def _check_placed(explanation: Explanation, one: AttemptRecord) -> None:
    result = one.result
    assert result is not None
    assert explanation.node == result.suggested_host
    assert explanation.fit_count == result.feasible_node_count
    explained = explanation.fit_count + explanation.rejected_count
    assert explanation.unvisited_count == explanation.node_count - explained
    if explanation.ranking:
        assert explanation.ranking[0].node == result.suggested_host
        assert explanation.total == explanation.ranking[0].total
        for row in explanation.ranking:
            assert row.total == sum(row.scores.values())


def probe(world: World, number: int, parts: dict[str, Any]) -> PodInfo:
    return world.cache.pod_info(a_wire_pod(f"probe-{number}", **parts))


@pytest.mark.parametrize("plugins", USERS)
@settings(max_examples=25)
@given(
    changes=CHANGES,
    enough=st.lists(st.sampled_from([None, None, 1, 2, 3]), min_size=1, max_size=4),
    starts=st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=3),
)
def test_explanations_are_equal_after_random_changes(
    plugins: str, changes: list[Change], enough: list[int | None], starts: list[int | None]
) -> None:
    pair, world = profile_pair(*USERS[plugins]), World()
    for number, change in enumerate(changes):
        world.apply(change)
        for place, parts in enumerate(MORE_PROBES):
            turn = number + place
            start, few = starts[turn % len(starts)], enough[turn % len(enough)]
            check(pair, world, probe(world, place, parts), start, few)


@settings(max_examples=60)
@given(
    nominations=st.lists(
        st.builds(
            Change,
            st.just("nominate_pod"),
            st.sampled_from(PODS),
            st.integers(0, 59),
            st.sampled_from(NODES),
        ),
        min_size=1,
        max_size=7,
    ),
    enough=st.sampled_from([None, 1, 2, 3]),
    priority=st.sampled_from([0, 20, 5000]),
)
def test_explanations_are_equal_among_nominated_pods(
    nominations: list[Change], enough: int | None, priority: int
) -> None:
    pair, world = profile_pair(), World()
    for number, name in enumerate(NODES):
        world.apply(Change("add_node", name, (1, 2, 4, 8)[number]))
    for change in nominations:
        world.apply(change)
        for place, parts in enumerate(MORE_PROBES):
            pod = probe(world, place, {**parts, "priority": priority})
            for start in (place % 4, place % 4):  # The second attempt uses kept verdicts.
                check(pair, world, pod, start, enough)


def test_the_cached_path_is_taken() -> None:
    pair, world = profile_pair(), World()
    for number, name in enumerate(NODES):
        world.apply(Change("add_node", name, (1, 2, 4, 8)[number]))
    for parts in PROBES[:2]:
        one = tried(pair.keeping, world.cache.snapshot(), probe(world, 0, parts), search_of(1, 2))
        assert one.result is not None
        assert (one.result.detail, one.result.basis is None) == (None, False)
