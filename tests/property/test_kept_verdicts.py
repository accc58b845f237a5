"""What is kept from attempt to attempt answers as if every plugin were asked anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.cache.cache import Cache
from kubesched.columns.node_columns import IntColumn
from kubesched.engine.diagnosis import FitError, SchedulingError
from kubesched.engine.schedule_pod import Search, run_without_extenders, schedule_pod
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads, Rejected
from kubesched.framework.normalize import default_normalize
from kubesched.framework.profile import Profile
from kubesched.framework.status import error, pending, unschedulable
from kubesched.model.pod_info import PodInfo
from tests.property.changes import CHANGES, HOST, ZONE, Change, World
from tests.property.random_cases import case_of, load, numbers_of
from tests.unit.builders import a_wire_pod, built_with

PROBES: list[dict[str, Any]] = [
    {"labels": {"app": "a1"}, "requests": {"cpu": "300m"}},
    {"labels": {"app": "a1"}, "requests": {"cpu": "300m"}, "nodeSelector": {"disk": "ssd"}},
    {"labels": {"app": "a2"}, "image": "app:2", "tolerations": [{"operator": "Exists"}]},
    {
        "labels": {"app": "a0"},
        "containers": [{"name": "c", "image": "app:1", "ports": [{"hostPort": 8001}]}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "a0"}},
            }
            for key, when in ((ZONE, "ScheduleAnyway"), (HOST, "DoNotSchedule"))
        ],
    },
    {
        "labels": {"app": "a1"},
        "requests": {"example.com/gpu": "1"},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a1"}}}
                ]
            }
        },
    },
]


class Local:
    """What a user's plugin says to have its answers kept."""

    name = "Local"

    def reads(self, pod: PodInfo) -> Reads | None:
        return Reads(usage=True)


class LocalFilter(Local):
    """Refuses a node with two pods, and cannot say about one with three."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> list[Rejected]:
        return [
            Rejected(nodes.pod_count == 2, unschedulable("two")),
            Rejected(nodes.pod_count == 3, error("three")),
            Rejected(nodes.pod_count == 4, pending("four")),
        ]


class LocalScore(Local):
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> IntColumn:
        scores: IntColumn = nodes.pod_count * 7
        return scores


class LocalNormalized(Local):
    """Relative to the fullest node that fits, so that one row's change may move them all."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> IntColumn:
        scores: IntColumn = nodes.pod_count
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        return default_normalize(scores, reverse=True)


class OutOfRange(Local):
    """Fails every attempt in which a node with many pods is scored."""

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Any) -> IntColumn:
        scores: IntColumn = nodes.pod_count * 60
        return scores


USERS: dict[str, tuple[type, ...]] = {
    "in-tree plugins alone": (),
    "a local filter": (LocalFilter,),
    "a local score": (LocalScore,),
    "a local score that is normalised": (LocalNormalized,),
    "a local score that leaves the range": (OutOfRange,),
}


@dataclass(frozen=True)
class Pair:
    """The same profile twice: one keeps what it can, the other keeps nothing."""

    keeping: Profile
    asking: Profile


@cache
def pair_with(*plugins: type) -> Pair:
    keeping, asking = (built_with(*plugins).profiles["default-scheduler"] for _ in range(2))
    assert keeping.planner is not None
    return Pair(keeping, asking.without_caching())


def answer(profile: Profile, cached: Cache, pod: PodInfo, start: int | None) -> Any:
    """Return all that an attempt comes to; without a start, all nodes are wanted."""
    view, state = cached.snapshot(), CycleState()
    search = Search(all_nodes=start is None, next_start_index=start or 0)
    try:
        found = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    except FitError as failure:
        diagnosis = failure.diagnosis
        given = diagnosis.node_to_status.items()
        plugins = (sorted(diagnosis.unschedulable_plugins), sorted(diagnosis.pending_plugins))
        return str(failure), dict(given), plugins, search.next_start_index
    except SchedulingError as failure:
        return str(failure)
    counts = (found.feasible_node_count, found.evaluated_node_count, search.next_start_index)
    return found.suggested_host, counts


def probes(cached: Cache) -> Iterator[PodInfo]:
    for number, parts in enumerate(PROBES):
        yield cached.pod_info(a_wire_pod(f"probe-{number}", **parts))


@pytest.mark.parametrize("plugins", USERS)
@settings(max_examples=50)
@given(changes=CHANGES, starts=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=3))
def test_every_attempt_in_a_changing_cluster(
    plugins: str, changes: list[Change], starts: list[int | None]
) -> None:
    pair, world = pair_with(*USERS[plugins]), World()
    for number, change in enumerate(changes):
        world.apply(change)
        start = starts[number % len(starts)]
        for pod in probes(world.cache):
            kept = answer(pair.keeping, world.cache, pod, start)
            assert kept == answer(pair.asking, world.cache, pod, start)


@settings(max_examples=50)
@given(changes=CHANGES)
def test_changes_between_two_attempts_are_all_seen(changes: list[Change]) -> None:
    pair, world = pair_with(), World()
    for change in (Change("add_node", "n0", 1), Change("add_node", "n1", 8)):
        world.apply(change)
    for _ in probes(world.cache):
        pass
    for pod in probes(world.cache):
        answer(pair.keeping, world.cache, pod, None)
    for change in changes:
        world.apply(change)
    for pod in probes(world.cache):
        kept = answer(pair.keeping, world.cache, pod, None)
        assert kept == answer(pair.asking, world.cache, pod, None)


@settings(max_examples=60)
@given(numbers_of("resources", "volumes", "mixed", "images", "nodeaffinity", "topologyspread"))
def test_pods_placed_one_after_the_other(number: int) -> None:
    made = case_of(number)
    made["config"] = None
    made["pod"]["spec"]["schedulerName"] = "default-scheduler"
    pair = pair_with()
    loaded = load(made)
    cached = Cache()
    cached._cluster = loaded.view._cluster
    cached._writer._cluster = loaded.view._cluster
    cached._writer._nodes, cached._writer._pods = cached._cluster.nodes, cached._cluster.pods
    for turn in range(6):
        pod = loaded.pod
        for profile in (pair.keeping, pair.asking):
            handle_of(profile).view = loaded.view
        kept = answer(pair.keeping, cached, pod, None)
        assert kept == answer(pair.asking, cached, pod, None)
        placed = a_wire_pod(f"copy-{turn}", uid=f"copy-{turn}", requests={"cpu": "100m"})
        if isinstance(kept[0], str) and loaded.view.row_of(kept[0]) >= 0:
            cached.assume_pod(cached.pod_info(placed), kept[0])
