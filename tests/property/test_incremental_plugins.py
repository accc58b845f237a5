"""Incremental plugins give the results of ordinary calls, in a cluster of many hosts.

Pods of a few templates arrive one by one, are placed by both profiles, and leave; sometimes a
service, a namespace or a node changes. There are more hosts than domains that are counted together,
so that masks, scores and the order of rows are all updated by single rows.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.decode import decode_as
from kubesched.api.namespace import Namespace
from kubesched.api.workloads import Service
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.framework.cycle_state import CycleState
from kubesched.profile.build import Built
from kubesched.snapshot import topology as domains
from kubesched.snapshot.pod_info import PodInfo
from tests.property.changes import HOST, PREFERRED, REQUIRED, ZONE, World
from tests.property.test_explained_decisions import check
from tests.property.test_kept_verdicts import NAME, agreed, profile_pair
from tests.unit.builders import a_wire_node, a_wire_pod

HOSTS = domains.FEW_DOMAINS_MAX + 6


def term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def weighted(key: str, app: str, weight: int) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": term(key, app)}


def spread(key: str, policy: str, app: str, skew: int = 1) -> dict[str, Any]:
    fields = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {**fields, "maxSkew": skew, "whenUnsatisfiable": policy}


TEMPLATES: dict[str, dict[str, Any]] = {
    "far": {"affinity": {"podAntiAffinity": {REQUIRED: [term(HOST, "far")]}}},
    "near": {"affinity": {"podAffinity": {REQUIRED: [term(ZONE, "near")]}}},
    "even": {"topologySpreadConstraints": [spread(HOST, "DoNotSchedule", "even")]},
    "zonal": {"topologySpreadConstraints": [spread(ZONE, "DoNotSchedule", "zonal", 2)]},
    "soft": {
        "topologySpreadConstraints": [
            spread(HOST, "ScheduleAnyway", "soft", 2),
            spread(ZONE, "ScheduleAnyway", "soft"),
        ]
    },
    "fond": {"affinity": {"podAffinity": {PREFERRED: [weighted(HOST, "fond", 7)]}}},
    "shy": {"affinity": {"podAntiAffinity": {PREFERRED: [weighted(HOST, "shy", 3)]}}},
    "served": {},
    "all": {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [term(HOST, "far")],
                PREFERRED: [weighted(HOST, "fond", 5), weighted(ZONE, "all", 2)],
            }
        },
        "topologySpreadConstraints": [
            spread(HOST, "DoNotSchedule", "all", 2),
            spread(ZONE, "ScheduleAnyway", "near"),
        ],
    },
}
STEPS = st.lists(
    st.one_of(
        st.sampled_from(list(TEMPLATES)),
        st.sampled_from(list(TEMPLATES)),
        st.tuples(st.sampled_from(["leave", "service", "namespace", "node"]), st.integers(0, 9)),
    ),
    min_size=12,
    max_size=24,
)


def add_node(world: World, number: int, *, zone: str) -> None:
    # A node without a zone has no label for its host either, if it is one of the first.
    labels = {ZONE: zone} if zone else {}
    labels |= {HOST: f"n{number}"} if zone or number > 3 else {}
    room = {"cpu": "2", "memory": "4Gi", "pods": f"{3 + number % 5}"}
    world.cache.add_node(a_wire_node(f"n{number}", labels=labels, allocatable=room))


def a_cluster(*, in_turn: bool, has_gap: bool, all_labels: bool) -> World:
    """Return a cluster, optionally with its own visiting order and deleted rows."""
    world = World()
    if has_gap:
        add_node(world, HOSTS, zone="z0")
    for number in range(HOSTS):
        zone = number % 3 if in_turn else number * 3 // HOSTS
        add_node(world, number, zone=f"z{zone}" if all_labels or number % 11 else "")
    if has_gap:
        world.cache.remove_node(f"n{HOSTS}")
    return world


def pod_of(world: World, app: str, number: int) -> PodInfo:
    parts = {"labels": {"app": app}, "requests": {"cpu": "100m"}, **TEMPLATES[app]}
    return world.cache.pod_info(a_wire_pod(f"{app}-{number}", **parts))


def change(world: World, verb: str, variant: int, placed: list[PodInfo]) -> None:
    if verb == "leave":
        if placed:
            world.cache.remove_pod(placed.pop(variant % len(placed)))
    elif verb == "service":
        metadata: dict[str, Any] = {"name": "one", "namespace": "default"}
        spec = {"selector": {"app": "served" if variant % 2 else "other"}}
        world.cache.put(decode_as(Service, {"metadata": metadata, "spec": spec}))
    elif verb == "namespace":
        metadata = {"name": "default", "labels": {"variant": f"{variant % 2}"}}
        world.cache.put(decode_as(Namespace, {"metadata": metadata}))
    else:
        add_node(world, variant, zone=f"z{variant % 2}")


@pytest.mark.parametrize(
    ("in_turn", "has_gap", "all_labels"),
    [(True, False, True), (False, False, True), (True, True, True), (True, False, False)],
)
@settings(max_examples=15)
@given(steps=STEPS, explained=st.booleans())
def test_pods_come_and_go(
    in_turn: bool,
    has_gap: bool,
    all_labels: bool,
    steps: list[str | tuple[str, int]],
    explained: bool,
) -> None:
    world = a_cluster(in_turn=in_turn, has_gap=has_gap, all_labels=all_labels)
    pair, placed = profile_pair(), list[PodInfo]()
    change(world, "service", 1, placed)
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            change(world, *step, placed)
            continue
        for turn in range(3):
            pod = pod_of(world, step, 3 * number + turn)
            host = agreed(pair, world.cache, pod)
            if explained:
                check(pair, world, pod, None, None)
            if host:
                world.cache.assume_pod(pod, host)
                placed.append(pod)


def decide(built: Built, world: World, pod: PodInfo) -> tuple[str, CycleState]:
    view, state = world.cache.snapshot(), CycleState()
    built.handles[NAME].view = view
    attempt = schedule_pod(built.profiles[NAME], view, state, pod, Search(all_nodes=True))
    return run_without_extenders(attempt).suggested_host, state


@pytest.mark.parametrize("app", ["far", "even", "soft", "fond"])
def test_the_state_equals_the_state_of_ordinary_calls(app: str) -> None:
    pair = profile_pair()
    world = a_cluster(in_turn=True, has_gap=False, all_labels=True)
    for number in range(4):
        pod = pod_of(world, app, number)
        host, kept = decide(pair.keeping, world, pod)
        other, ordinary = decide(pair.uncached, world, pod)
        assert host == other
        keys = [
            key for key in (*ordinary._values, *kept._values) if "Spread" in key or "Pod" in key
        ]
        for key in keys:
            assert type(kept.read(key)) is type(ordinary.read(key))
        assert kept.skip_filter_plugins == ordinary.skip_filter_plugins
        assert kept.skip_score_plugins == ordinary.skip_score_plugins
        world.cache.assume_pod(pod, host)
