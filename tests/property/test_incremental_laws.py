"""Incremental filters and scores equal the ordinary calls of plugins, after every step.

Pods are added to nodes and removed one at a time, so that every count crosses its limit in both
directions. The reference is built from scratch after every step, and checked by plain loops.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from kubesched.cache.cache import Cache
from kubesched.config.load import default_config
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.runtime.adapters import ColumnFilter, ColumnScore
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.in_tree import IN_TREE
from kubesched.profile.build import Built, build
from kubesched.snapshot import topology
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows, Trial
from kubesched.snapshot.view import ClusterView, Rows
from tests.property.changes import HOST, PREFERRED, REQUIRED, ZONE
from tests.unit.builders import a_wire_node, a_wire_pod
from tests.unit.plugins.builders import statuses_of

NAME = "default-scheduler"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
APP = {"app": "it"}


def term(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": APP}}


def weighted(key: str, weight: int) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": term(key)}


def spread(key: str, policy: str, skew: int, **more: Any) -> dict[str, Any]:
    return {**term(key), "maxSkew": skew, "whenUnsatisfiable": policy, **more}


def spreading(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"topologySpreadConstraints": list(constraints)}


def near(side: str, kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {side: {kind: list(terms)}}}


PODS: dict[str, dict[str, Any]] = {
    "zone skew 1": spreading(spread(ZONE, HARD, 1)),
    "zone skew 2": spreading(spread(ZONE, HARD, 2)),
    "zone skew 3, four domains": spreading(spread(ZONE, HARD, 3, minDomains=4)),
    "zone skew 2, three domains": spreading(spread(ZONE, HARD, 2, minDomains=3)),
    "host skew 1": spreading(spread(HOST, HARD, 1)),
    "host and zone": spreading(spread(HOST, HARD, 2), spread(ZONE, HARD, 1)),
    "soft zone": spreading(spread(ZONE, SOFT, 1)),
    "soft host": spreading(spread(HOST, SOFT, 2)),
    "soft both": spreading(spread(HOST, SOFT, 2), spread(ZONE, SOFT, 3)),
    "anti host": near("podAntiAffinity", REQUIRED, term(HOST)),
    "anti zone": near("podAntiAffinity", REQUIRED, term(ZONE)),
    "zone affinity": near("podAffinity", REQUIRED, term(ZONE)),
    "both affinities": near("podAffinity", REQUIRED, term(ZONE), term(HOST)),
    "prefers zone": near("podAffinity", PREFERRED, weighted(ZONE, 7)),
    "prefers host": near("podAffinity", PREFERRED, weighted(HOST, 3)),
    "prefers both": near("podAffinity", PREFERRED, weighted(ZONE, 7), weighted(HOST, 2)),
    "avoids both": near("podAntiAffinity", PREFERRED, weighted(ZONE, 7), weighted(HOST, 2)),
}


@dataclass
class Growing:
    """A cluster that can be rebuilt from scratch."""

    node_count: int
    cache: Cache = field(default_factory=Cache)
    placed: dict[str, str] = field(default_factory=dict)
    """The node of each pod."""

    def __post_init__(self) -> None:
        self._add_nodes(self.cache)

    def _add_nodes(self, cache: Cache) -> None:
        for number in range(self.node_count):
            labels = {ZONE: f"z{number % 3}", HOST: f"n{number}"}
            cache.add_node(a_wire_node(f"n{number}", labels=labels))

    def put(self, name: str, node: str) -> None:
        """Add a pod to a node."""
        self.placed[name] = node
        self._add(self.cache, name, node)

    def _add(self, cache: Cache, name: str, node: str) -> None:
        cache.add_pod(cache.pod_info(a_wire_pod(name, labels=APP, nodeName=node)))

    def take(self, name: str) -> None:
        """Remove a pod."""
        pod = a_wire_pod(name, labels=APP, nodeName=self.placed.pop(name))
        self.cache.remove_pod(self.cache.pod_info(pod))

    def rebuilt(self) -> Cache:
        """Return the same cluster, built from scratch."""
        cache = Cache()
        self._add_nodes(cache)
        for name, node in self.placed.items():
            self._add(cache, name, node)
        return cache

    def counts(self, key: str) -> dict[str, int]:
        """Return the number of pods by domain, counted one by one."""
        numbers = range(self.node_count)
        found = dict.fromkeys((self.domain(f"n{number}", key) for number in numbers), 0)
        for node in self.placed.values():
            found[self.domain(node, key)] += 1
        return found

    def domain(self, node: str, key: str) -> str:
        """Return a node's domain."""
        return node if key == HOST else f"z{int(node[1:]) % 3}"


def walk(world: Growing) -> Iterator[str]:
    """Add pods to nodes one by one, filling one domain after the other, and remove them."""
    yield "empty"
    order = [0, 3, 0, 1, 4, 2, 1, 5, 0, 0, 2, 3]
    for number, node in enumerate(order):
        world.put(f"p{number}", f"n{node}")
        yield f"pod {number} on n{node}"
    for number in (0, 3, 8, 1, 9, 11, 4, 2, 10, 5, 7, 6):
        world.take(f"p{number}")
        yield f"pod {number} gone"


def plugins_with(hook: str) -> list[Any]:
    return [name for name, record in IN_TREE.items() if hasattr(record.plugin, hook)]


@pytest.mark.parametrize("name", plugins_with("incremental_filter"))
def test_an_incremental_filter_is_used(name: str) -> None:
    plugin = build(default_config()).profiles[NAME].plugins[name]
    assert ColumnFilter(plugin).incremental == plugin.incremental_filter


@pytest.mark.parametrize("name", plugins_with("incremental_score"))
def test_an_incremental_score_is_used(name: str) -> None:
    plugin = build(default_config()).profiles[NAME].plugins[name]
    assert ColumnScore(plugin).incremental == plugin.incremental_score


@pytest.fixture(scope="module")
def pair() -> tuple[Built, Built]:
    """Return two builds of the default profile: for incremental and for ordinary calls."""
    return build(default_config()), build(default_config())


def over(built: Built, cache: Cache, name: str) -> tuple[Any, ClusterView]:
    view = cache.snapshot()
    built.handles[NAME].view = view
    return built.profiles[NAME].plugins[name], view


def a_subject(cache: Cache, parts: dict[str, Any]) -> PodInfo:
    return cache.pod_info(a_wire_pod("probe", labels=APP, **parts))


def rejected_names(rejections: Any, view: ClusterView) -> dict[str, Status]:
    """Return the first verdict on each node that is rejected."""
    names, found = view.whole().names, dict[str, Status]()
    for rejected in rejections:
        for place in np.flatnonzero(rejected.mask).tolist():
            found.setdefault(names[place], rejected.status)
    return found


def in_full(plugin: Any, view: ClusterView, pod: PodInfo) -> dict[str, Status] | None:
    """Return the verdicts of PreFilter and Filter; None if the plugin is skipped."""
    state, nodes = CycleState(), view.whole()
    answer = plugin.pre_filter(state, pod, nodes)
    if answer is SKIP:
        return None
    assert answer is None
    return rejected_names(plugin.filter_nodes(state, pod, nodes), view)


SIZES = [6, topology.FEW_DOMAINS_MAX + 6]


@pytest.mark.parametrize("name", plugins_with("incremental_filter"))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("title", PODS)
def test_an_incremental_filter_equals_the_filter(
    pair: tuple[Built, Built], name: str, size: int, title: str
) -> None:
    world, incremental, version = Growing(size), None, -1
    before: dict[str, Status] | None = None
    for step in walk(world):
        plugin, view = over(pair[0], world.cache, name)
        pod = a_subject(world.cache, PODS[title])
        if incremental is None:
            incremental = plugin.incremental_filter(pod, view)
        answer = incremental.refresh(view)
        assert answer is not None, step
        fresh, fresh_view = over(pair[1], rebuilt := world.rebuilt(), name)
        plain = in_full(fresh, fresh_view, a_subject(rebuilt, PODS[title]))
        if answer is SKIP:
            assert plain is None or plain == {}, step
            continue
        found = rejected_names(answer, view)
        assert found == (plain or {}), step
        masks = answer.masks()
        union = np.logical_or.reduce(masks) if masks else np.zeros(size, dtype=np.bool_)
        assert {n for n, hit in zip(view.whole().names, union, strict=True) if hit} == set(found)
        if answer.version == version:
            assert found == before, step
        before, version = found, answer.version


@pytest.mark.parametrize("name", plugins_with("incremental_filter"))
@pytest.mark.parametrize("title", PODS)
def test_pods_that_do_not_concern_an_incremental_filter_change_nothing(
    pair: tuple[Built, Built], name: str, title: str
) -> None:
    world = Growing(6)
    world.put("p0", "n0")
    for labels in (APP, {"app": "other"}):
        plugin, view = over(pair[0], world.cache, name)
        pod = a_subject(world.cache, PODS[title])
        incremental = plugin.incremental_filter(pod, view)
        if incremental.refresh(view) is SKIP:
            return
        guest = a_wire_pod("guest", labels=labels, nodeName="n1")
        before = in_full(plugin, view, pod)
        world.cache.add_pod(world.cache.pod_info(guest))
        plugin, view = over(pair[0], world.cache, name)
        index = view.pods.index_of["uid-default-guest"]
        concerns = incremental.concerns(PodRows(view, np.array([index], dtype=np.int32)))
        assert concerns or in_full(plugin, view, pod) == before
        world.cache.remove_pod(world.cache.pod_info(guest))


@pytest.mark.parametrize("name", plugins_with("add_pods"))
@pytest.mark.parametrize("title", PODS)
def test_a_pod_removed_in_a_trial_counts_as_removed(
    pair: tuple[Built, Built], name: str, title: str
) -> None:
    """Trials count by deltas, in separate code."""
    world = Growing(6)
    for step in walk(world):
        plugin, view = over(pair[0], world.cache, name)
        pod = a_subject(world.cache, PODS[title])
        on = {node: pod_name for pod_name, node in world.placed.items()}
        rows = np.array([view.row_of(node) for node in on], dtype=np.int64)
        index = np.array([view.pods.index_of[f"uid-default-{p}"] for p in on.values()], np.int32)
        state = CycleState()
        if not on or plugin.pre_filter(state, pod, view.whole()) is SKIP:
            continue
        full = rejected_names(plugin.filter_nodes(state, pod, view.whole()), view)
        trial, state = Trial(view, rows), state.clone()
        plugin.remove_pods(state, pod, trial.remove(index), trial.nodes)
        found = statuses_of(plugin.filter_nodes(state, pod, trial.nodes), list(on))
        for node, gone in on.items():
            without = replace(world, cache=Cache())
            without.placed = {k: v for k, v in world.placed.items() if k != gone}
            fresh, fresh_view = over(pair[1], rebuilt := without.rebuilt(), name)
            plain = in_full(fresh, fresh_view, a_subject(rebuilt, PODS[title])) or {}
            assert found.get(node) == plain.get(node), f"{step}, {gone} gone from {node}"
        plugin.add_pods(state, pod, trial.add(index), trial.nodes)
        actual = statuses_of(plugin.filter_nodes(state, pod, trial.nodes), list(on))
        assert actual == {node: full[node] for node in on if node in full}, step


@dataclass(frozen=True)
class Fitting:
    """The feasible rows."""

    rows: Rows


def scored_in_full(plugin: Any, view: ClusterView, pod: PodInfo, rows: Rows) -> list[int] | None:
    """Return the normalized scores; None if the plugin is skipped."""
    state, nodes = CycleState(), view.nodes_at(rows)
    answer = plugin.pre_score(state, pod, nodes)
    if answer is SKIP:
        return None
    assert answer is None
    raw = plugin.score_nodes(state, pod, nodes)
    found: list[int] = plugin.normalize_scores(state, pod, np.array(raw)).tolist()
    return found


@pytest.mark.parametrize("name", plugins_with("incremental_score"))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("title", PODS)
@pytest.mark.parametrize("same_rows", [True, False])
def test_an_incremental_score_equals_the_score(
    pair: tuple[Built, Built], name: str, size: int, title: str, same_rows: bool
) -> None:
    world, incremental = Growing(size), None
    rows = np.arange(0, size, 1 + (not same_rows), dtype=np.int64)
    fitting = Fitting(rows)
    for step in walk(world):
        plugin, view = over(pair[0], world.cache, name)
        pod = a_subject(world.cache, PODS[title])
        if incremental is None:
            incremental = plugin.incremental_score(pod, view)
        fitting = fitting if same_rows else Fitting(rows.copy())
        fresh, fresh_view = over(pair[1], rebuilt := world.rebuilt(), name)
        plain = scored_in_full(fresh, fresh_view, a_subject(rebuilt, PODS[title]), rows)
        for _ in range(2):
            answer = incremental.refresh(view, fitting)
            assert answer is not None, step
            if isinstance(answer, Status):
                assert plain is None or len(set(plain)) == 1, step
                continue
            column = answer.column().tolist()
            assert column == (plain or [0] * len(rows)), step
            places = np.arange(len(rows))
            assert answer.take(places).tolist() == column


# -- the rules by plain loops ----------------------------------------------------------------------


def key_of(one: dict[str, Any]) -> str:
    key: str = one["topologyKey"]
    return key


def is_spread_out(world: Growing, node: str, constraint: dict[str, Any]) -> bool:
    counts = world.counts(key_of(constraint))
    least = min(counts.values())
    if len(counts) < constraint.get("minDomains", 1):
        least = 0
    skew = counts[world.domain(node, key_of(constraint))] + 1 - least
    return bool(skew <= constraint["maxSkew"])


def is_allowed(world: Growing, node: str, parts: dict[str, Any]) -> bool:
    """Return whether the required terms of a pod that matches itself allow a node."""
    affinity = parts.get("affinity", {})
    for one in affinity.get("podAntiAffinity", {}).get(REQUIRED, ()):
        if world.counts(key_of(one))[world.domain(node, key_of(one))] > 0:
            return False
    terms = affinity.get("podAffinity", {}).get(REQUIRED, ())
    if not world.placed:
        return True
    return all(world.counts(key_of(one))[world.domain(node, key_of(one))] > 0 for one in terms)


@pytest.mark.parametrize("title", PODS)
def test_the_filters_agree_with_plain_counting(pair: tuple[Built, Built], title: str) -> None:
    world, parts = Growing(6), PODS[title]
    constraints = parts.get("topologySpreadConstraints", ())
    hard = [constraint for constraint in constraints if constraint["whenUnsatisfiable"] == HARD]
    for step in walk(world):
        pod = a_subject(world.cache, parts)
        rejected: dict[str, set[str]] = {}
        for name in ("PodTopologySpread", "InterPodAffinity"):
            plugin, view = over(pair[0], world.cache, name)
            rejected[name] = set(in_full(plugin, view, pod) or {})
        names = world.cache.snapshot().whole().names
        crowded = {n for n in names if not all(is_spread_out(world, n, one) for one in hard)}
        forbidden = {n for n in names if not is_allowed(world, n, parts)}
        assert rejected == {"PodTopologySpread": crowded, "InterPodAffinity": forbidden}, step


def preferred_raw(world: Growing, node: str, parts: dict[str, Any]) -> int:
    total = 0
    for side, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for one in parts["affinity"].get(side, {}).get(PREFERRED, ()):
            key = key_of(one["podAffinityTerm"])
            total += sign * one["weight"] * world.counts(key)[world.domain(node, key)]
    return total


def soft_raw(world: Growing, node: str, constraints: Sequence[dict[str, Any]]) -> int:
    total = 0.0
    for constraint in constraints:
        counts = world.counts(key_of(constraint))
        size = world.node_count if key_of(constraint) == HOST else len(counts)
        count = counts[world.domain(node, key_of(constraint))]
        total += count * math.log(size + 2) + constraint["maxSkew"] - 1
    return math.floor(total + 0.5)


@pytest.mark.parametrize("title", PODS)
def test_the_scores_agree_with_plain_counting(pair: tuple[Built, Built], title: str) -> None:
    world, parts = Growing(6), PODS[title]
    soft = [
        constraint
        for constraint in parts.get("topologySpreadConstraints", ())
        if constraint["whenUnsatisfiable"] == SOFT
    ]
    seen: Counter[bool] = Counter()
    for step in walk(world):
        names = world.cache.snapshot().whole().names
        pod = a_subject(world.cache, parts)
        if soft:
            raw = [soft_raw(world, node, soft) for node in names]
            high, low = max(raw), min(raw)
            expected = [100 * (high + low - one) // high if high else 100 for one in raw]
            name = "PodTopologySpread"
        elif any(PREFERRED in side for side in parts.get("affinity", {}).values()):
            raw = [preferred_raw(world, node, parts) for node in names]
            high, low = max(raw), min(raw)
            expected = [100 * (one - low) // (high - low) if high > low else 0 for one in raw]
            name = "InterPodAffinity"
        else:
            return
        plugin, view = over(pair[0], world.cache, name)
        found = scored_in_full(plugin, view, pod, view.whole().rows)
        assert (found or [0] * len(names)) == expected, step
        seen[len(set(expected)) > 1] += 1
    assert seen[True]
