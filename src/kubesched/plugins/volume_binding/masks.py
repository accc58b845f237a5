"""Which nodes a volume, a class or a capacity can be used from, as columns.

Upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go CheckNodeAffinity,
pkg/apis/core/v1/helper/helpers.go MatchTopologySelectorTerms
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from kubesched.api.affinity import NodeSelector, TopologySelectorTerm
from kubesched.api.label_selectors import (
    MATCH_NOTHING,
    Operator,
    Requirement,
    Selector,
    label_selector,
    new_requirement,
    sorted_selector,
)
from kubesched.api.meta import LabelSelector
from kubesched.api.node_selectors import compile_node_selector
from kubesched.plugins.volume_binding.volume_index import VolumeIndex
from kubesched.snapshot.expressions import match_requirement
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.view import ClusterView, NodeTable

_SELECTOR_COUNT_MAX = 16384


class AffinityRows:
    """The rows that volumes with a node affinity can be used from, by the affinity's number."""

    def __init__(self, index: VolumeIndex) -> None:
        self._index = index
        self._of: tuple[object, ...] = ()
        self._rows: dict[int, list[int]] = {}
        self._by_value: dict[str, list[list[int]]] = {}

    def rows(self, view: ClusterView, affinity: int) -> list[int]:
        """Return the rows of one node affinity that is not `ANYWHERE`."""
        of = (view.identity, view.node_epoch, self._index.generation)
        if of != self._of or not view.counters.keeps:
            self._of, self._rows, self._by_value = of, {}, {}
        rows = self._rows.get(affinity)
        if rows is None:
            rows = self._rows[affinity] = self._find(view, affinity)
        return rows

    def _find(self, view: ClusterView, affinity: int) -> list[int]:
        required = self._index.affinities[affinity]
        assert required is not None, "ANYWHERE is not looked up"
        single = _single_label(required)
        if single is not None:
            # Each local volume names another host, which is looked up instead of compared with
            # every host.
            key, values = single
            by_value, ids = self._rows_by_value(view, key), view.label_values(key)
            places = dict.fromkeys(place for v in values if (place := ids.id_of(v)) >= 0)
            return [row for place in places for row in by_value[place]]
        nodes = view.whole()
        rows: list[int] = nodes.rows[node_affinity_mask(nodes, required)].tolist()
        return rows

    def _rows_by_value(self, view: ClusterView, key: str) -> list[list[int]]:
        by_value = self._by_value.get(key)
        if by_value is None:
            ids = view.label_ids(key)
            order = np.argsort(ids, kind="stable")
            starts = np.searchsorted(ids[order], np.arange(len(view.label_values(key)) + 1))
            rows, bounds = order.tolist(), starts.tolist()
            by_value = [rows[a:b] for a, b in pairwise(bounds)]
            self._by_value[key] = by_value
        return by_value


@lru_cache(maxsize=_SELECTOR_COUNT_MAX)
def _single_label(required: NodeSelector) -> tuple[str, tuple[str, ...]] | None:
    """Return key and values if the only requirement is one label with one of some values."""
    selectors = _label_selectors(required)
    if len(selectors) != 1 or not selectors[0].selectable or len(selectors[0].requirements) != 1:
        return None
    requirement = selectors[0].requirements[0]
    if requirement.operator not in (Operator.IN, Operator.EQUALS):
        return None
    return requirement.key, tuple(requirement.values)


def node_affinity_mask(nodes: NodeTable, required: NodeSelector) -> BoolColumn:
    """Return which nodes can use a volume with that node affinity."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for selector in _label_selectors(required):
        mask |= labels_mask(nodes, selector)
    return mask


@lru_cache(maxsize=_SELECTOR_COUNT_MAX)
def _label_selectors(required: NodeSelector) -> tuple[Selector, ...]:
    # Parity: storage/volume/helpers.go CheckNodeAffinity, v1.36: upstream passes no node name,
    # so fields are never matched; a term that does not parse never matches.
    return tuple(
        Selector() if term.labels is None else term.labels
        for term in compile_node_selector(required).terms
        if not term.errors
    )


def allowed_topologies_mask(
    nodes: NodeTable, terms: tuple[TopologySelectorTerm, ...]
) -> BoolColumn:
    """Return which nodes a class with those allowed topologies can provision for."""
    mask = np.full(len(nodes), not terms, dtype=np.bool_)
    for term in terms:
        selector = _topology_selector(term)
        if selector is not None:
            mask |= labels_mask(nodes, selector)
    return mask


@lru_cache(maxsize=_SELECTOR_COUNT_MAX)
def _topology_selector(term: TopologySelectorTerm) -> Selector | None:
    # Parity: core/v1/helper/helpers.go MatchTopologySelectorTerms, v1.36: a term that is empty, or
    # has a value no label can have, selects nothing.
    if not term.match_label_expressions:
        return None
    try:
        return sorted_selector(
            [new_requirement(e.key, Operator.IN, e.values) for e in term.match_label_expressions]
        )
    except ValueError:
        return None


def node_topology_mask(nodes: NodeTable, topology: LabelSelector | None) -> BoolColumn:
    """Return which nodes have access to a storage capacity of that topology."""
    if topology is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    try:
        selector = label_selector(topology)
    except ValueError:
        # Parity: volumebinding/binder.go nodeHasAccess, v1.36: logged there, and no access.
        selector = MATCH_NOTHING
    return labels_mask(nodes, selector)


def labels_mask(nodes: NodeTable, selector: Selector) -> BoolColumn:
    """Return which nodes have labels that a selector matches."""
    mask = np.full(len(nodes), selector.selectable, dtype=np.bool_)
    for requirement in selector.requirements:
        if requirement.operator in (Operator.IN, Operator.EQUALS):
            mask &= _one_of_mask(nodes, requirement)
        else:
            mask &= match_requirement(nodes, requirement)
    return mask


def _one_of_mask(nodes: NodeTable, requirement: Requirement) -> BoolColumn:
    # No look-up table: each local volume names another host, so that a table would compare all host
    # names for each volume.
    ids, label_values = nodes.label(requirement.key), nodes.label_values(requirement.key)
    places = [place for place in map(label_values.id_of, requirement.values) if place >= 0]
    return ids == places[0] if len(places) == 1 else np.isin(ids, places)
