"""Every optional hook agrees with `filter_nodes` and `score_nodes`.

The pairs of plugin and hook come from the list of in-tree plugins: a new plugin with a hook is
covered as soon as it is listed. A pair that no world exercises fails, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.runtime.adapters import ColumnFilter
from kubesched.framework.status import Code
from kubesched.framework.verdicts import Verdicts
from kubesched.plugins.in_tree import IN_TREE
from kubesched.snapshot.node_columns import SupposedRoom
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable
from tests.property.hook_worlds import GPU, PROFILES, built, worlds
from tests.unit.plugins.resource_oracles import (
    as_int64,
    balance,
    insufficient,
    least,
    most,
    quotient,
    ratio,
    weighted,
)

NAME = "default-scheduler"
BALANCED = "NodeResourcesBalancedAllocation"
Verdict = tuple[int, tuple[str, ...]] | None
Seen = Counter[Any]
"""The number of times that a hook gave each result."""


@dataclass
class Case:
    """A plugin, a pod and a cluster."""

    plugin: Any
    view: ClusterView
    pod: PodInfo
    state: CycleState = field(default_factory=CycleState)

    @property
    def title(self) -> str:
        """Return a description of the case."""
        return f"{self.plugin.name}, requests {dict(self.pod.requests)}"

    def is_filtered(self) -> bool:
        """Run PreFilter; return whether the filter would be called."""
        nodes = self.view.all_nodes()
        if not hasattr(self.plugin, "filter_nodes"):
            return False
        if not hasattr(self.plugin, "pre_filter"):
            return True
        answer = self.plugin.pre_filter(self.state, self.pod, nodes)
        return answer is None or isinstance(answer, PreFilterResult)

    def is_scored(self) -> bool:
        """Run PreScore; return whether the score would be called."""
        if not hasattr(self.plugin, "score_nodes"):
            return False
        self.is_filtered()  # Some plugins write there what they score by.
        if not hasattr(self.plugin, "pre_score"):
            return True
        return self.plugin.pre_score(self.state, self.pod, self.view.all_nodes()) is None

    def verdicts(self, nodes: NodeTable) -> list[Verdict]:
        """Return the verdict of `filter_nodes` on each node."""
        found = Verdicts(len(nodes))
        ColumnFilter(self.plugin).judge(self.state, self.pod, nodes, found)
        return [
            None if found[place].is_success else (int(found[place].code), found[place].reasons)
            for place in range(len(nodes))
        ]

    def scores(self, nodes: NodeTable) -> list[int]:
        """Return the score of `score_nodes` for each node."""
        found: list[int] = self.plugin.score_nodes(self.state, self.pod, nodes).tolist()
        return found


def tables(view: ClusterView) -> Iterator[NodeTable]:
    """Yield the same nodes in every form that a plugin can get."""
    rows = view.all_nodes().rows
    yield view.whole()
    yield view.nodes_at(rows[::-1].copy())
    yield view.nodes_at(rows[: len(rows) // 2])
    yield view.all_nodes().take(np.arange(len(rows)) % 2 == 0)


def by_row(nodes: NodeTable, answers: list[Any]) -> dict[int, Any]:
    return dict(zip(nodes.rows.tolist(), answers, strict=True))


# -- the laws --------------------------------------------------------------------------------------


def table_filter_law(case: Case, seen: Seen) -> None:
    """The whole table, some of its rows and any order of them get the same verdicts."""
    if not case.is_filtered():
        return
    plain = by_row(case.view.all_nodes(), case.verdicts(case.view.all_nodes()))
    for nodes in tables(case.view):
        found = by_row(nodes, case.verdicts(nodes))
        assert found == {row: plain[row] for row in found}, case.title
    seen.update(verdict is None for verdict in plain.values())


def table_score_law(case: Case, seen: Seen) -> None:
    if not case.is_scored():
        return
    plain = by_row(case.view.all_nodes(), case.scores(case.view.all_nodes()))
    for nodes in tables(case.view):
        found = by_row(nodes, case.scores(nodes))
        assert found == {row: plain[row] for row in found}, case.title
    seen.update(plain.values())


def takes_rows_law(case: Case, seen: Seen) -> None:
    """One row as plain values gets the verdict that it has in a table."""
    if not case.is_filtered():
        return
    nodes = case.view.all_nodes()
    for row, verdict in by_row(nodes, case.verdicts(nodes)).items():
        status = ColumnFilter(case.plugin).judge_row(case.state, case.pod, case.view.row(row))
        found = None if status is None else (int(status.code), status.reasons)
        assert found == verdict, f"{case.title}, row {row}"
        seen[verdict is None] += 1


def scores_rows_law(case: Case, seen: Seen) -> None:
    """One row as plain values gets the score that it has in a table."""
    if not case.is_scored():
        return
    nodes = case.view.all_nodes()
    for row, score in by_row(nodes, case.scores(nodes)).items():
        found = case.plugin.score_nodes(case.state, case.pod, case.view.row(row))
        assert (type(found), found) == (int, score), f"{case.title}, row {row}"
        seen[score] += 1


def row_filter_law(case: Case, seen: Seen) -> None:
    """The row rule is true exactly for the rows that the filter rejects."""
    rule = case.plugin.row_rejects(case.state, case.pod) if case.is_filtered() else None
    if rule is None:
        return
    nodes = case.view.all_nodes()
    for row, verdict in by_row(nodes, case.verdicts(nodes)).items():
        counters = case.view.node_counters(row)
        if counters is not None:
            assert bool(rule(counters)) is (verdict is not None), f"{case.title}, row {row}"
            seen[verdict is None] += 1


def matrix_filter_law(case: Case, seen: Seen) -> None:
    """The matrix rule is true exactly if the filter rejects some row, of any set of rows."""
    rule = case.plugin.any_row_rejected(case.state, case.pod) if case.is_filtered() else None
    nodes = case.view.all_nodes()
    matrix = case.view.resource_matrix(nodes.rows)
    if rule is None or matrix is None:
        return
    verdicts = by_row(nodes, case.verdicts(nodes))
    is_any = any(verdicts.values())
    assert bool(rule(matrix)) is is_any, case.title
    assert bool(rule(case.view.resource_matrix(None))) is is_any, case.title
    assert bool(rule(SupposedRoom(matrix.left))) is is_any, case.title
    for row, verdict in verdicts.items():
        alone = case.view.resource_matrix(np.array([row]))
        assert bool(rule(alone)) is (verdict is not None), f"{case.title}, row {row}"
        seen[verdict is None] += 1


def row_score_law(case: Case, seen: Seen) -> None:
    """The row rule gives the score of `score_nodes`."""
    rule = case.plugin.row_score(case.state, case.pod) if case.is_scored() else None
    if rule is None:
        return
    nodes = case.view.all_nodes()
    for row, score in by_row(nodes, case.scores(nodes)).items():
        counters = case.view.node_counters(row)
        if counters is not None:
            found = rule(counters)
            assert (type(found), found) == (int, score), f"{case.title}, row {row}"
            seen[score] += 1


def matrix_score_law(case: Case, seen: Seen) -> None:
    """The matrix rule gives the scores of `score_nodes`, for any set of rows."""
    rule = case.plugin.matrix_score(case.state, case.pod) if case.is_scored() else None
    nodes = case.view.all_nodes()
    matrix = case.view.resource_matrix(nodes.rows)
    if rule is None or matrix is None:
        return
    scores = case.scores(nodes)
    assert rule(matrix).tolist() == scores, case.title
    assert rule(case.view.resource_matrix(None))[nodes.rows].tolist() == scores, case.title
    for row, score in by_row(nodes, scores).items():
        assert rule(case.view.resource_matrix(np.array([row]))).tolist() == [score], (
            f"{case.title} {row}"
        )
    seen.update(scores)


def compact_scores_law(case: Case, seen: Seen) -> None:
    """Scores in a narrower type are the same scores."""
    if not case.is_scored():
        return
    for nodes in (case.view.all_nodes(), *tables(case.view)):
        scores = case.scores(nodes)
        compact = case.plugin.compact_scores(case.state, case.pod, nodes)
        assert compact.dtype.kind == "i"
        assert compact.tolist() == scores, case.title
        seen.update(scores)


LAWS: dict[str, Callable[[Case, Seen], None]] = {
    "filter_nodes": table_filter_law,
    "score_nodes": table_score_law,
    "takes_rows": takes_rows_law,
    "row_rejects": row_filter_law,
    "any_row_rejected": matrix_filter_law,
    "row_score": row_score_law,
    "matrix_score": matrix_score_law,
    "compact_scores": compact_scores_law,
}
PLUGINS: list[Any] = [record.plugin for record in IN_TREE.values()]
PAIRS = [
    pytest.param(plugin, hook, id=f"{plugin.name}-{hook}")
    for plugin in PLUGINS
    for hook in LAWS
    if hasattr(plugin, hook)
]
# They have no verdicts on pods without claims and devices; other tests cover them.
NEEDS_OTHER_OBJECTS = {
    "DynamicResources",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "NodeVolumeLimits",
}


def cases_of(plugin: Any) -> Iterator[Case]:
    """Yield the plugin in all worlds, in every configuration."""
    profiles = [name for name, args in PROFILES.items() if plugin.name in args or not args]
    for profile in profiles:
        build = built(profile)
        for world in worlds("resources" if len(profiles) > 1 else "mixed"):
            if plugin.name == BALANCED and world.title == "int64":
                continue  # Go's result for such a deviation depends on the machine.
            build.handles[NAME].view = view = world.view
            for pod in world.pods:
                yield Case(build.profiles[NAME].plugins[plugin.name], view, pod)


@pytest.mark.parametrize(("plugin", "hook"), PAIRS)
def test_a_hook_agrees_with_the_plain_call(plugin: Any, hook: str) -> None:
    seen: Seen = Counter()
    for case in cases_of(plugin):
        LAWS[hook](case, seen)
    if plugin.name not in NEEDS_OTHER_OBJECTS:
        assert len(seen) > 1, f"no world of hook_worlds exercises {hook} of {plugin.name}"


@pytest.mark.parametrize(
    "plugin", [pytest.param(p, id=p.name) for p in PLUGINS if hasattr(p, "score_nodes")]
)
def test_a_plugin_that_reads_usage_has_a_rule_for_single_rows(plugin: Any) -> None:
    seen: Seen = Counter()
    for case in cases_of(plugin):
        reads = case.plugin.reads(case.pod)
        if reads is not None and reads.usage:
            scores_rows_law(case, seen)
    assert not seen or len(seen) > 1


# -- fragments -------------------------------------------------------------------------------------


def alike(plugin: Any, key_of: Callable[[Case], Any]) -> Iterator[tuple[Any, Case, Case]]:
    """Yield the pods of each world that have one key, pair by pair."""
    first: dict[Any, Case] = {}
    for case in cases_of(plugin):
        key = (id(case.plugin), id(case.view), key_of(case))
        if key in first:
            yield key, first[key], case
        first.setdefault(key, case)


def judged(case: Case) -> tuple[Any, Any]:
    """Return the verdicts and the raw scores, None where the plugin is skipped."""
    nodes = case.view.all_nodes()
    verdicts = case.verdicts(nodes) if case.is_filtered() else None
    return verdicts, case.scores(nodes) if case.is_scored() else None


@pytest.mark.parametrize(
    "plugin", [pytest.param(p, id=p.name) for p in PLUGINS if hasattr(p, "fragment")]
)
def test_pods_with_the_same_fragment_get_the_same_verdicts(plugin: Any) -> None:
    pairs = list(alike(plugin, lambda case: case.plugin.fragment(case.pod)))
    assert pairs
    for _, one, other in pairs:
        assert judged(one) == judged(other), f"{one.title}; {other.title}"


# -- upstream's arithmetic, spelled out ------------------------------------------------------------

RESOURCE_RULES = {
    "default": ("LeastAllocated", {"cpu": 1, "memory": 1}),
    "weighted": ("LeastAllocated", {"cpu": 3, "memory": 1}),
    "three resources": ("LeastAllocated", {"cpu": 1, "memory": 2, GPU: 5}),
    "one resource": ("LeastAllocated", {"memory": 1}),
    "most allocated": ("MostAllocated", {"cpu": 1, "memory": 2}),
    "most of three": ("MostAllocated", {"cpu": 1, "ephemeral-storage": 1, "memory": 2}),
    "ratio": ("RequestedToCapacityRatio", {"cpu": 1, "memory": 2}),
}
BALANCED_RESOURCES = {
    "three resources": ("cpu", "memory", GPU),
    "one resource": ("memory",),
}


def resource_cases(profile: str, name: str) -> Iterator[Case]:
    build = built(profile)
    for world in worlds("resources"):
        if name == BALANCED and world.title == "int64":
            continue
        build.handles[NAME].view = view = world.view
        for pod in world.pods:
            yield Case(build.profiles[NAME].plugins[name], view, pod)


def lacking(case: Case, row: int, ignored: bool) -> Verdict:
    """Return the insufficient resources of a node."""
    node = case.view.row(row)
    native = [name for name in ("cpu", "memory", "ephemeral-storage") if name in case.pod.requests]
    others = sorted(set(case.pod.requests) - set(native))
    reasons, is_too_small = insufficient(
        (name, case.pod.requests[name], node.allocatable[name], node.requested[name])
        for name in (*native, *others)
        if not (ignored and "ignored" in name)
    )
    if node.pod_count + 1 > node.allowed_pods:
        reasons.insert(0, "Too many pods")
    if not reasons:
        return None
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if is_too_small else Code.UNSCHEDULABLE
    return (int(code), tuple(reasons))


@pytest.mark.parametrize("profile", ["default", "weighted"])
def test_room_is_what_upstream_computes(profile: str) -> None:
    seen: Counter[Any] = Counter()
    for case in resource_cases(profile, "NodeResourcesFit"):
        assert case.is_filtered()
        nodes = case.view.all_nodes()
        for row, verdict in by_row(nodes, case.verdicts(nodes)).items():
            assert verdict == lacking(case, row, profile == "weighted"), f"{case.title}, row {row}"
            seen[verdict] += 1
    assert len(seen) > 8


def amounts(case: Case, row: int, names: Iterable[str], *, weighs: bool) -> list[tuple[int, int]]:
    """Return the requested amount and the allocatable amount of each resource."""
    node, shape = case.view.row(row), case.pod.shape
    pod = shape.scoring_requests if weighs else shape.usage
    found = []
    for name in names:
        is_nonzero = weighs and name in ("cpu", "memory")
        before = node.nonzero_requested[name] if is_nonzero else node.requested[name]
        found.append((as_int64(before + pod[name]), node.allocatable[name]))
    return found


@pytest.mark.parametrize("profile", RESOURCE_RULES)
def test_strategies_score_as_upstream_computes(profile: str) -> None:
    kind, weights = RESOURCE_RULES[profile]
    seen: Counter[Any] = Counter()
    for case in resource_cases(profile, "NodeResourcesFit"):
        assert case.is_scored()
        scoring = case.pod.shape.scoring_requests
        counted = [n for n in weights if "/" not in n or scoring[n]]
        nodes = case.view.all_nodes()
        for row, score in by_row(nodes, case.scores(nodes)).items():
            requested, capacity = zip(*amounts(case, row, counted, weighs=True), strict=True)
            chosen = [weights[name] for name in counted]
            if kind == "RequestedToCapacityRatio":
                expected = ratio(chosen, requested, capacity)
            else:
                rule = least if kind == "LeastAllocated" else most
                expected = weighted(rule, chosen, requested, capacity)
            assert score == expected, f"{case.title}, row {row}"
            seen[score] += 1
    assert len(seen) > 20


@pytest.mark.parametrize("profile", ["default", "three resources", "one resource"])
def test_balance_is_what_upstream_computes(profile: str) -> None:
    seen: Counter[Any] = Counter()
    names = BALANCED_RESOURCES.get(profile, ("cpu", "memory"))
    for case in resource_cases(profile, BALANCED):
        if not case.is_scored():
            continue
        usage = case.pod.shape.usage
        counted = [n for n in names if "/" not in n or usage[n]]
        nodes = case.view.all_nodes()
        for row, score in by_row(nodes, case.scores(nodes)).items():
            node = case.view.row(row)
            after, capacity = zip(*amounts(case, row, counted, weighs=False), strict=True)
            before = [node.requested[name] for name in counted]
            change = balance(after, capacity) - balance(before, capacity)
            assert score == 50 + quotient(50 + change, 2), f"{case.title}, row {row}"
            seen[score] += 1
    assert len(seen) > (0 if profile == "one resource" else 20)
