"""Kept verdicts on nominated rows equal filtering with and without the nominated pods."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.framework.cycle_state import CycleState
from tests.property.changes import NODES, PODS, Change, World
from tests.property.test_kept_verdicts import (
    NAME,
    PROBES,
    USERS,
    LocalFilter,
    Pair,
    agreed,
    profile_pair,
)
from tests.unit.builders import a_wire_pod

PRIORITIES = (0, 20, 5000)
_VARIANTS = st.integers(0, 59)
_NODE, _POD = st.sampled_from(NODES), st.sampled_from(PODS)
CHANGES = st.lists(
    st.one_of(
        st.builds(Change, st.just("nominate_pod"), _POD, _VARIANTS, _NODE),
        st.builds(Change, st.just("nominate_pod"), _POD, _VARIANTS, _NODE),
        st.builds(Change, st.just("withdraw"), _POD),
        st.builds(Change, st.just("assume_pod"), _POD, _VARIANTS, _NODE),
        st.builds(Change, st.just("add_pod"), _POD, _VARIANTS, _NODE),
        st.builds(Change, st.just("remove_pod"), _POD),
        st.builds(Change, st.just("add_node"), _NODE, _VARIANTS),
    ),
    min_size=4,
    max_size=20,
)


def a_world() -> World:
    """Return a world of empty nodes, so that nominations decide."""
    world = World()
    for number, name in enumerate(NODES):
        world.apply(Change("add_node", name, (1, 2, 4, 8, 10)[number % 5]))
    return world


@pytest.mark.parametrize("plugins", USERS)
@settings(max_examples=40)
@given(changes=CHANGES, priorities=st.lists(st.sampled_from(PRIORITIES), min_size=1, max_size=3))
def test_every_attempt_with_changing_nominations(
    plugins: str, changes: list[Change], priorities: list[int]
) -> None:
    pair, world = profile_pair(*USERS[plugins]), a_world()
    for number, change in enumerate(changes):
        world.apply(change)
        priority = priorities[number % len(priorities)]
        for place, parts in enumerate(PROBES):
            probe = a_wire_pod(f"probe-{place}", **{**parts, "priority": priority})
            agreed(pair, world.cache, world.cache.pod_info(probe))


def groups(pair: Pair, world: World, parts: dict[str, Any], *, detail: bool) -> Any:
    """Return the rejected nodes by reasons, as in an explanation; None if no node fits."""
    built, view = pair.keeping, world.cache.snapshot()
    built.handles[NAME].view = view
    profile, state = built.profiles[NAME], CycleState()
    pod = world.cache.pod_info(a_wire_pod("probe", **parts))
    search = Search(all_nodes=True, detail=detail)
    try:
        result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    except Exception:  # noqa: BLE001 - failures are compared elsewhere
        return None
    attempt = AttemptRecord(profile, view, pod, state, result=result)
    found = {
        (group.status.plugin, group.status.reasons): sorted(view.nodes_at(group.rows).names)
        for group in attempt.groups()
    }
    return found, attempt.ranked_nodes().fit_count


@settings(max_examples=60)
@given(changes=CHANGES)
def test_an_explanation_with_kept_verdicts_equals_one_without(changes: list[Change]) -> None:
    pair, world = profile_pair(), a_world()
    for change in changes:
        world.apply(change)
    for parts in PROBES:
        assert groups(pair, world, parts, detail=False) == groups(pair, world, parts, detail=True)


def test_kept_verdicts_include_nominated_pods() -> None:
    pair, world = profile_pair(), a_world()
    for number, name in enumerate(PODS[:3]):
        world.apply(Change("nominate_pod", name, 20 + number, NODES[number]))
    pod = world.cache.pod_info(a_wire_pod("probe", **PROBES[0]))
    assert agreed(pair, world.cache, pod)
    cache = cache_of(pair.keeping.profiles[NAME])
    assert cache is not None
    found = cache.lookup(world.cache.snapshot(), pod)
    assert found is not None
    assert found[0].nominated is not None
    assert len(found[0].nominated.rows) == 3


def test_an_error_of_a_filter_with_nominated_pods_is_not_kept() -> None:
    pair, world = profile_pair(LocalFilter), a_world()
    node_name = NODES[0]
    world.apply(Change("nominate_pod", PODS[0], 20, node_name))
    probe = a_wire_pod("probe", **PROBES[0])
    for name in PODS[1:4]:
        agreed(pair, world.cache, world.cache.pod_info(probe))
        world.apply(Change("add_pod", name, 24, node_name))
    world.apply(Change("remove_pod", PODS[1]))
    world.apply(Change("remove_pod", PODS[2]))
    agreed(pair, world.cache, world.cache.pod_info(probe))
