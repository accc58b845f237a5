"""PodDisruptionBudgets in preemption: which evictions would violate one.

Judges the potential victims of many nodes at once, each node by itself.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
filterPodsWithPDBViolation
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.label_selectors import Selector, label_selector
from kubesched.api.policy import PodDisruptionBudget
from kubesched.snapshot.interning import Interner, grown
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.snapshot.object_store import ObjectStore
from kubesched.snapshot.pod_columns import BoundPod, LabelClass
from kubesched.snapshot.view import ClusterView

_SHORT_MAX = 1 << 16
_UNKNOWN = -1
Rule = tuple[str, Selector]
"""Namespace and selector of a budget."""


class Coverage:
    """The budgets that select each label class, computed at the first use of a class."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_namespace: dict[str, list[tuple[int, Selector]]] = {}
        for number, (namespace, selector) in enumerate(self.rules):
            self._by_namespace.setdefault(namespace, []).append((number, selector))
        self._classes: Interner[LabelClass] | None = None
        self._groups: Interner[tuple[int, ...]] = Interner()
        self._group_of: IdColumn = np.zeros(0, dtype=np.int32)

    def groups(self, classes: Interner[LabelClass], ids: IdColumn) -> IdColumn:
        """Return the group of budgets of each label class; group 0 has no budget."""
        if classes is not self._classes:
            self._classes, self._groups = classes, Interner()
            self._groups.intern(())
            self._group_of = np.full(16, _UNKNOWN, dtype=np.int32)
        self._group_of = grown(self._group_of, len(classes), _UNKNOWN)
        groups = self._group_of[ids]
        unknown = groups == _UNKNOWN
        if unknown.any():
            for class_id in np.unique(ids[unknown]).tolist():
                covering = self._covering(classes.values[class_id])
                self._group_of[class_id] = self._groups.intern(covering)
            groups = self._group_of[ids]
        return groups

    def _covering(self, label_class: LabelClass) -> tuple[int, ...]:
        labels = label_class.labels
        if not labels:  # A pod without labels matches no budget.
            return ()
        candidates = self._by_namespace.get(label_class.namespace, ())
        return tuple(number for number, selector in candidates if selector.matches(labels))

    def members(self, groups: IdColumn) -> tuple[NDArray[np.intp], IntColumn]:
        """Return every pair of an entry of `groups` and a budget of its group."""
        sizes = np.array([len(group) for group in self._groups], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        flat = np.array([n for group in self._groups for n in group], dtype=np.int64)
        counts = sizes[groups]
        entries = np.repeat(np.arange(len(groups)), counts)
        within = np.arange(len(entries)) - np.repeat(np.cumsum(counts) - counts, counts)
        return entries, flat[starts[groups[entries]] + within]


class DisruptionBudgets(NamedTuple):
    """All budgets whose selector can match a pod."""

    coverage: Coverage
    allowed: IntColumn
    """The disruptions that each budget allows."""
    disrupted: dict[int, frozenset[str]]
    """By budget: the names in status.disruptedPods, if any."""

    def violating(self, view: ClusterView, pods: IdColumn) -> BoolColumn:
        """Return whether evicting all pods up to this one violates one of its budgets.

        Args:
            view: The cluster.
            pods: Pod indexes, one line per node, the most important first, -1 for none.
        """
        violating = np.zeros(pods.shape, dtype=np.bool_)
        if not len(self.allowed) or not pods.size:
            return violating
        groups = self.coverage.groups(view.label_classes, view.pods.label_class[pods])
        flat = np.flatnonzero((groups > 0) & (pods >= 0))
        entries, budgets = self.coverage.members(groups.ravel()[flat])
        places = flat[entries]
        if self.disrupted:
            counts = self._counting(view, pods.ravel()[places], budgets)
            places, budgets = places[counts], budgets[counts]
        # Each node is counted by itself: the pods of a budget are numbered along its line.
        lines = places // pods.shape[1] * len(self.allowed) + budgets
        if len(pods) * len(self.allowed) <= _SHORT_MAX:
            lines = lines.astype(np.uint16)  # Short integers sort several times as fast.
        order = np.argsort(lines, kind="stable")
        nth = _nth_of_equals(lines[order])
        too_many = nth >= self.allowed[budgets[order]]
        violating.ravel()[places[order[too_many]]] = True
        return violating

    def _counting(self, view: ClusterView, pods: IdColumn, budgets: IntColumn) -> BoolColumn:
        counts = np.ones(len(pods), dtype=np.bool_)
        with_disrupted = np.isin(budgets, list(self.disrupted))
        for place in np.flatnonzero(with_disrupted).tolist():
            name = view.bound_pod(pods.item(place)).name
            counts[place] = name not in self.disrupted[budgets.item(place)]
        return counts


def budgets_of(
    store: ObjectStore[PodDisruptionBudget], previous: Coverage | None = None
) -> DisruptionBudgets:
    """Return the budgets of a store; reuse the previous coverage if the selectors are the same."""
    rules: list[Rule] = []
    allowed: list[int] = []
    disrupted: dict[int, frozenset[str]] = {}
    for pdb in store:
        try:
            selector = label_selector(pdb.spec.selector)
        except ValueError:
            continue  # Parity: a budget with an invalid selector matches nothing.
        if selector.is_empty or not selector.selectable:
            continue
        if pdb.status.disrupted_pods:
            disrupted[len(rules)] = frozenset(pdb.status.disrupted_pods)
        rules.append((pdb.metadata.namespace or "", selector))
        allowed.append(pdb.status.disruptions_allowed)
    if previous is None or previous.rules != tuple(rules):
        previous = Coverage(rules)
    return DisruptionBudgets(previous, np.array(allowed, dtype=np.int64), disrupted)


def _nth_of_equals(ordered: IntColumn) -> IntColumn:
    """Return, for each value of a sorted column, the number of equal values before it."""
    positions = np.arange(len(ordered))
    starts = np.ones(len(ordered), dtype=np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    return positions - np.maximum.accumulate(np.where(starts, positions, 0))


def covered_pods(budget: PodDisruptionBudget, pods: Iterable[BoundPod]) -> list[BoundPod]:
    """Return the pods whose eviction counts against a budget."""
    try:
        selector = label_selector(budget.spec.selector)
    except ValueError:
        return []  # Parity: a budget with an invalid selector matches nothing.
    if selector.is_empty:
        return []
    namespace, disrupted = budget.metadata.namespace or "", budget.status.disrupted_pods or ()
    return [
        pod
        for pod in pods
        if pod.namespace == namespace
        and pod.labels
        and pod.name not in disrupted
        and selector.matches(pod.labels)
    ]
