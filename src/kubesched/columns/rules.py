"""Rules several plugins share, as expressions over columns.

Owns node selectors and taints over a table of nodes, and the words in which a rule is written once
for a table (arrays) and for a row (plain numbers). A requirement is asked once per distinct value,
then gathered. Never changes an array it is given, unless it says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.model.pod_info import PodInfo
from kubesched.model.tolerations import untolerated
from kubesched.objects.affinity import Toleration
from kubesched.objects.node_selectors import (
    FieldRequirement,
    NodeSelector,
    NodeSelectorTermMatcher,
    compile_node_selector,
)
from kubesched.objects.selectors import Operator, Requirement, Selector, selector_from_set

DO_NOT_SCHEDULE_EFFECTS = ("NoSchedule", "NoExecute")

_NAME_FIELD = "metadata.name"
_EQUAL_OPERATORS = (Operator.EQUALS, Operator.IN)
_COMPARED_VALUES_MAX = 8
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

Values: TypeAlias = Any
"""One value per node: an array over a table, a plain number or bool over a row."""


def where(condition: Values, then: Values, otherwise: Values) -> Values:
    """Return one or the other, node by node."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


def negate(mask: Values) -> Values:
    """Return the opposite, node by node."""
    return ~mask if isinstance(mask, np.ndarray) else not mask


def minimum(one: Values, other: Values) -> Values:
    """Return the lesser, node by node; the first argument tells whether of a table or a row."""
    return np.minimum(one, other) if isinstance(one, np.ndarray) else min(one, other)


def maximum(one: Values, other: Values) -> Values:
    """Return the greater, node by node; the first argument tells whether of a table or a row."""
    return np.maximum(one, other) if isinstance(one, np.ndarray) else max(one, other)


def difference(one: Values, other: Values) -> Values:
    """Return one less the other, node by node; the other's array is used up."""
    return np.subtract(one, other, out=other) if isinstance(other, np.ndarray) else one - other


def looked_up(table: NDArray[Any], ids: Values) -> Values:
    """Return what a table has at each node's id."""
    return table[ids] if isinstance(ids, np.ndarray) else table.item(ids)


def full(nodes: NodeTable | NodeRow, value: float) -> Values:
    """Return the same value for every node."""
    return value if isinstance(nodes, NodeRow) else np.full(len(nodes), value)


def as_int(values: Values) -> Values:
    """Return whole numbers, cut off towards zero."""
    return values.astype(np.int64) if isinstance(values, np.ndarray) else int(values)


def overflowing(values: Values) -> Values:
    """Return integers as int64 holds them; arrays are that already."""
    if isinstance(values, np.ndarray) or _INT64_MIN <= values <= _INT64_MAX:
        return values
    return (values - _INT64_MIN) % 2**64 + _INT64_MIN


def square_root(values: Values) -> Values:
    """Return the correctly rounded square roots."""
    return np.sqrt(values) if isinstance(values, np.ndarray) else math.sqrt(values)


def is_any(mask: Values) -> bool:
    """Return whether it holds for any node."""
    # Counting is twice as fast as `any`.
    return bool(np.count_nonzero(mask)) if isinstance(mask, np.ndarray) else bool(mask)


def match_requirement(nodes: NodeTable, requirement: Requirement) -> BoolColumn:
    """Return which nodes meet one condition on one label."""
    key, operator = requirement.key, requirement.operator
    if operator in _EQUAL_OPERATORS and len(requirement.values) <= _COMPARED_VALUES_MAX:
        return _label_is_one_of(nodes, key, requirement.values)
    by_value = nodes.label_values(key).lut(
        requirement, lambda value: requirement.matches({key: value})
    )
    # A node without the key has id -1, which reads the last place.
    answers = np.append(by_value, requirement.matches({}))
    matched: BoolColumn = answers[nodes.label(key)]
    return matched


def _label_is_one_of(nodes: NodeTable, key: str, wanted: Sequence[str]) -> BoolColumn:
    # Ids are compared: a key like the host name has as many values as there are nodes.
    ids, values = nodes.label(key), nodes.label_values(key)
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for value in wanted:
        found = values.id_of(value)
        if found >= 0:
            matched |= ids == found
    return matched


def match_selector(nodes: NodeTable, selector: Selector) -> BoolColumn:
    """Return which nodes' labels are selected."""
    matched = np.full(len(nodes), selector.selectable, dtype=np.bool_)
    if selector.selectable:
        for requirement in selector.requirements:
            matched &= match_requirement(nodes, requirement)
    return matched


def match_term(nodes: NodeTable, term: NodeSelectorTermMatcher) -> BoolColumn:
    """Return which nodes meet one term; a term in error no node meets."""
    matched = np.full(len(nodes), not term.errors, dtype=np.bool_)
    if term.errors:
        return matched
    if term.labels is not None:
        matched &= match_selector(nodes, term.labels)
    for field in term.fields:
        matched &= _match_field(nodes, field)
    return matched


def _match_field(nodes: NodeTable, field: FieldRequirement) -> BoolColumn:
    if field.field != _NAME_FIELD:
        return np.full(len(nodes), field.matches(""))
    named = nodes.is_named(field.value)
    return ~named if field.negated else named


def match_node_selector(nodes: NodeTable, selector: NodeSelector) -> BoolColumn:
    """Return which nodes meet one of the terms."""
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        matched |= match_term(nodes, term)
    return matched


def matches_node_selector(nodes: NodeTable | NodeRow, selector: NodeSelector) -> Values:
    """Return which nodes meet one of the terms; of a row, whether it does."""
    if isinstance(nodes, NodeRow):
        return selector.matches(nodes.info.labels, nodes.info.name)
    return match_node_selector(nodes, selector)


def is_allowed(nodes: NodeTable | NodeRow, pod: PodInfo) -> Values:
    """Return which nodes the pod's node selector and required node affinity allow."""
    if not isinstance(nodes, NodeRow):
        return required_node_affinity_mask(nodes, pod)
    # Parity: component-helpers nodeaffinity.go RequiredNodeAffinity.Match, v1.36.
    wanted, required = pod.shape.node_selector, pod.shape.required_node_affinity
    if wanted is not None and not selector_from_set(wanted).matches(nodes.info.labels):
        return False
    if pod.shape.named_node:
        return nodes.info.name == pod.shape.named_node
    return required is None or matches_node_selector(nodes, compile_node_selector(required))


def required_node_affinity_mask(nodes: NodeTable, pod: PodInfo) -> BoolColumn:
    """Return which nodes the pod's node selector and required node affinity allow."""
    # Parity: component-helpers nodeaffinity.go RequiredNodeAffinity.Match, v1.36.
    matched = np.ones(len(nodes), dtype=np.bool_)
    if pod.shape.node_selector is not None:
        matched &= match_selector(nodes, selector_from_set(pod.shape.node_selector))
    if pod.shape.required_node_affinity is not None:
        matched &= match_node_selector(
            nodes, compile_node_selector(pod.shape.required_node_affinity)
        )
    return matched


def is_tolerated(
    nodes: NodeTable | NodeRow, tolerations: Sequence[Toleration], effects: Sequence[str]
) -> Values:
    """Return which nodes have no taint of those effects that the tolerations leave uncovered."""
    if isinstance(nodes, NodeRow):
        return not untolerated(nodes.info.taints, tolerations, effects)
    return taints_tolerated_mask(nodes, tolerations, effects)


def taints_tolerated_mask(
    nodes: NodeTable, tolerations: Sequence[Toleration], effects: Sequence[str]
) -> BoolColumn:
    """Return which nodes have no taint of those effects that the tolerations leave uncovered."""
    tolerated = np.array(
        [not untolerated(taints, tolerations, effects) for taints in nodes.taint_sets],
        dtype=np.bool_,
    )
    mask: BoolColumn = tolerated[nodes.taint_set]
    return mask
