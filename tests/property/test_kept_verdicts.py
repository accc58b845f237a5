"""Attempts with kept verdicts give the results of attempts that call every plugin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.decode import decode_as
from kubesched.api.pod import Pod
from kubesched.attempt.diagnosis import FitError, SchedulingError
from kubesched.attempt.kept import verdicts
from kubesched.attempt.kept.verdict_cache import cache_of
from kubesched.attempt.request import Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Reads, Rejected
from kubesched.framework.normalize import default_normalize
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.status import Status, error, pending, unschedulable
from kubesched.profile.build import Built
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeView
from tests.property.changes import CHANGES, HOST, ZONE, Change, World
from tests.property.random_cases import case_of, load, numbers_of
from tests.unit.builders import a_wire_pod, built_with

NAME = "default-scheduler"
JUDGED = [pytest.param(verdicts.CHANGES_BY_INTEGERS_MAX, id="rows"), pytest.param(0, id="tables")]
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
                "whenUnsatisfiable": policy,
                "labelSelector": {"matchLabels": {"app": "a0"}},
            }
            for key, policy in ((ZONE, "ScheduleAnyway"), (HOST, "DoNotSchedule"))
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
    {
        "labels": {"app": "a1"},
        "requests": {"cpu": "100m"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a1"}},
            }
        ],
    },
    {
        "labels": {"app": "a2"},
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a2"}}}
                ]
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 3,
                        "podAffinityTerm": {
                            "topologyKey": HOST,
                            "labelSelector": {"matchLabels": {"app": "a2"}},
                        },
                    }
                ]
            },
        },
    },
]

for _node in ("n0", "n1"):
    _fields = [{"key": "metadata.name", "operator": "In", "values": [_node]}]
    _required = {"nodeSelectorTerms": [{"matchFields": _fields}]}
    PROBES.append(
        {
            "labels": {"app": "a1"},
            "requests": {"cpu": "300m"},
            "containers": [{"name": "c", "image": "app:1", "ports": [{"hostPort": 8001}]}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _required}
            },
        }
    )


class Local:
    """The declaration of an out-of-tree plugin whose verdicts are kept."""

    name = "Local"

    def reads(self, pod: PodInfo) -> Reads | None:
        return Reads(usage=True)


class LocalFilter(Local):
    """Rejects a node with two pods, and fails on a node with three."""

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
    """Scores relative to the fullest feasible node, so that one row may change all scores."""

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


class OneNodeFilter(Local):
    """The local filter as a one-node filter, on which `reads` has no effect."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        statuses = {2: unschedulable("two"), 3: error("three"), 4: pending("four")}
        return statuses.get(node.pod_count)


class OneNodeBoth:
    """Rejects nodes with a disk label one by one, and scores nodes with pods."""

    name = "OneNodeBoth"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return unschedulable(f"disk of {node.name}") if "disk" in node.labels else None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 13 * node.pod_count

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        return default_normalize(scores)


USERS: dict[str, tuple[type, ...]] = {
    "in-tree plugins alone": (),
    "a local filter": (LocalFilter,),
    "a local score": (LocalScore,),
    "a local score that is normalised": (LocalNormalized,),
    "a local score that leaves the range": (OutOfRange,),
    "a filter for one node": (OneNodeFilter,),
    "filters for one node and a score": (OneNodeBoth, OneNodeFilter),
}


@dataclass(frozen=True)
class Pair:
    """The same profile twice, with and without kept verdicts."""

    keeping: Built
    uncached: Built


@cache
def profile_pair(*plugins: type) -> Pair:
    keeping, uncached = built_with(*plugins), built_with(*plugins)
    assert cache_of(keeping.profiles[NAME]) is not None
    uncached.profiles[NAME].without_caching()
    return Pair(keeping, uncached)


@dataclass(slots=True)
class FirstFew(Search):
    """Stops after a few feasible nodes, as a search in a large cluster stops after hundreds."""

    enough: int = 1

    def want(self, profile: Profile, node_count: int) -> int:
        return min(self.enough, node_count)


def outcome_of(
    built: Built, cached: Cache, pod: PodInfo, start: int | None, enough: int | None = None
) -> Any:
    """Return the outcome of an attempt; over all nodes if there is no start."""
    view, state, profile = cached.snapshot(), CycleState(), built.profiles[NAME]
    built.handles[NAME].view = view
    search = Search(all_nodes=start is None, next_start_index=start or 0)
    if enough is not None:
        search = FirstFew(next_start_index=start or 0, enough=enough)
    try:
        result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    except FitError as failure:
        diagnosis = failure.diagnosis
        statuses = dict(diagnosis.node_to_status.items())
        plugins = (sorted(diagnosis.unschedulable_plugins), sorted(diagnosis.pending_plugins))
        return "", str(failure), statuses, plugins, search.next_start_index % view.node_count
    except SchedulingError as failure:
        return "", str(failure)
    counts = (result.feasible_node_count, result.evaluated_node_count)
    return result.suggested_host, counts, search.next_start_index % view.node_count


def agreed(
    pair: Pair, cached: Cache, pod: PodInfo, start: int | None = None, enough: int | None = None
) -> str:
    """Return the node that both profiles choose; empty if both find none."""
    outcome = outcome_of(pair.keeping, cached, pod, start, enough)
    assert outcome == outcome_of(pair.uncached, cached, pod, start, enough)
    # Again: the second attempt for a signature keeps its verdicts for later ones.
    assert outcome == outcome_of(pair.keeping, cached, pod, start, enough)
    host: str = outcome[0]
    return host


def probes(cached: Cache) -> list[PodInfo]:
    return [
        cached.pod_info(a_wire_pod(f"probe-{number}", **parts))
        for number, parts in enumerate(PROBES)
    ]


@pytest.mark.parametrize("plugins", USERS)
@settings(max_examples=40)
@given(changes=CHANGES, starts=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=3))
def test_every_attempt_in_a_changing_cluster(
    plugins: str, changes: list[Change], starts: list[int | None]
) -> None:
    pair, world = profile_pair(*USERS[plugins]), World()
    for number, change in enumerate(changes):
        world.apply(change)
        for pod in probes(world.cache):
            agreed(pair, world.cache, pod, starts[number % len(starts)])


@pytest.mark.parametrize("plugins", USERS)
@settings(max_examples=30)
@given(changes=CHANGES, enough=st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=4))
def test_a_search_that_ends_early(
    plugins: str, changes: list[Change], enough: list[int | None]
) -> None:
    pair, world = profile_pair(*USERS[plugins]), World()
    for number, change in enumerate(changes):
        world.apply(change)
        for start, pod in enumerate(probes(world.cache)):
            agreed(pair, world.cache, pod, start, enough[(number + start) % len(enough)])


@pytest.mark.parametrize("changes_by_integers_max", JUDGED)
@settings(max_examples=50)
@given(changes=CHANGES)
def test_all_changes_between_two_attempts_take_effect(
    changes_by_integers_max: int, changes: list[Change]
) -> None:
    pair, world = profile_pair(), World()
    for change in (Change("add_node", "n0", 1), Change("add_node", "n1", 8)):
        world.apply(change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "CHANGES_BY_INTEGERS_MAX", changes_by_integers_max)
        for _ in range(2):
            for pod in probes(world.cache):
                agreed(pair, world.cache, pod)
            for change in changes:
                world.apply(change)
        for pod in probes(world.cache):
            agreed(pair, world.cache, pod)


@pytest.mark.parametrize("changes_by_integers_max", JUDGED)
@settings(max_examples=60)
@given(
    number=numbers_of("resources", "volumes", "mixed", "images", "nodeaffinity", "topologyspread")
)
def test_copies_of_a_pod_placed_one_after_the_other(
    changes_by_integers_max: int, number: int
) -> None:
    case = case_of(number)
    case["pod"]["spec"]["schedulerName"] = NAME
    pair = profile_pair()
    loaded = load(case, built=pair.uncached)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "CHANGES_BY_INTEGERS_MAX", changes_by_integers_max)
        for turn in range(6):
            case["pod"]["metadata"].update(name=f"copy-{turn}", uid=f"copy-{turn}")
            pod = loaded.cache.pod_info(decode_as(Pod, case["pod"]))
            host = agreed(pair, loaded.cache, pod)
            if host:
                loaded.cache.assume_pod(pod, host)


def test_two_clusters_of_one_profile_are_kept_apart() -> None:
    pair = profile_pair()
    for variant in (1, 2, 4, 7, 8):
        world = World()
        for number, name in enumerate(("n0", "n1", "n2")):
            world.apply(Change("add_node", name, variant + number))
        for pod in probes(world.cache):
            agreed(pair, world.cache, pod)
            agreed(pair, world.cache, pod)
