"""Expressions over node columns: node selectors, node affinity and taints, shared by plugins.

The arithmetic functions work on a table (arrays) and on a row (plain numbers), so that a rule is
written once for both. A label requirement is evaluated once per distinct value, then looked up per
node. No function changes its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.affinity import Toleration
from kubesched.api.label_selectors import Operator, Requirement, Selector, selector_from_set
from kubesched.api.node_selectors import (
    NodeSelector,
    NodeSelectorTermMatcher,
    compile_node_selector,
)
from kubesched.api.tolerations import untolerated
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

DO_NOT_SCHEDULE_EFFECTS = ("NoSchedule", "NoExecute")

_NAME_FIELD = "metadata.name"
_EQUAL_OPERATORS = (Operator.EQUALS, Operator.IN)
_COMPARED_VALUES_MAX = 8
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

Values: TypeAlias = Any
"""One value per node: an array over a table, a plain number or bool over a row."""


def negate(mask: Values) -> Values:
    """Return the opposite, node by node."""
    return ~mask if isinstance(mask, np.ndarray) else not mask


def looked_up(table: NDArray[Any], ids: Values) -> Values:
    """Return the entry of a look-up table for each node's id."""
    return table[ids] if isinstance(ids, np.ndarray) else table.item(ids)


def full(nodes: NodeTable | NodeRow, value: float) -> Values:
    """Return the same value for every node."""
    return value if isinstance(nodes, NodeRow) else np.full(len(nodes), value)


def as_int(values: Values) -> Values:
    """Return integers, truncated towards zero."""
    return values.astype(np.int64) if isinstance(values, np.ndarray) else int(values)


def overflowing(values: Values) -> Values:
    """Return integers wrapped to int64; arrays already are."""
    if isinstance(values, np.ndarray) or _INT64_MIN <= values <= _INT64_MAX:
        return values
    return (values - _INT64_MIN) % 2**64 + _INT64_MIN


def square_root(values: Values) -> Values:
    """Return the correctly rounded square roots."""
    return np.sqrt(values) if isinstance(values, np.ndarray) else math.sqrt(values)


def is_any(mask: Values) -> bool:
    """Return whether any node is marked."""
    # Counting is twice as fast as `any`.
    return bool(np.count_nonzero(mask)) if isinstance(mask, np.ndarray) else bool(mask)


def match_requirement(nodes: NodeTable, requirement: Requirement) -> BoolColumn:
    """Return which nodes match one label requirement."""
    key, operator = requirement.key, requirement.operator
    ids, values = nodes.label(key), nodes.label_values(key)
    if operator in _EQUAL_OPERATORS and len(requirement.values) <= _COMPARED_VALUES_MAX:
        # Ids are compared: a key like the host name has as many values as there are nodes.
        matched = np.zeros(len(nodes), dtype=np.bool_)
        for value in requirement.values:
            value_id = values.id_of(value)
            if value_id >= 0:
                matched |= ids == value_id
        return matched
    by_value = values.lut(requirement, lambda value: requirement.matches({key: value}))
    # A node without the key has id -1, which reads the last entry.
    by_id: BoolColumn = np.append(by_value, requirement.matches({}))
    return by_id[ids]


def match_selector(nodes: NodeTable | NodeRow, selector: Selector) -> Values:
    """Return which nodes match a label selector."""
    if isinstance(nodes, NodeRow):
        return selector.matches(nodes.info.labels)
    matched = np.full(len(nodes), selector.selectable, dtype=np.bool_)
    if selector.selectable:
        for requirement in selector.requirements:
            matched &= match_requirement(nodes, requirement)
    return matched


def match_term(nodes: NodeTable, term: NodeSelectorTermMatcher) -> BoolColumn:
    """Return which nodes match one term; an invalid term matches none."""
    matched = np.full(len(nodes), not term.errors, dtype=np.bool_)
    if term.errors:
        return matched
    if term.labels is not None:
        matched &= match_selector(nodes, term.labels)
    for field in term.fields:
        if field.field == _NAME_FIELD:
            matched &= nodes.is_named(field.value) != field.negated
        else:
            matched &= field.matches("")
    return matched


def match_node_selector(nodes: NodeTable | NodeRow, selector: NodeSelector) -> Values:
    """Return which nodes match a node selector: any of its terms."""
    if isinstance(nodes, NodeRow):
        return selector.matches(nodes.info.labels, nodes.info.name)
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        matched |= match_term(nodes, term)
    return matched


def is_allowed(nodes: NodeTable | NodeRow, pod: PodInfo) -> Values:
    """Return which nodes the pod's node selector and required node affinity allow."""
    # Parity: component-helpers nodeaffinity.go RequiredNodeAffinity.Match, v1.36.
    shape, matched = pod.shape, full(nodes, True)
    if shape.node_selector is not None:
        matched &= match_selector(nodes, selector_from_set(shape.node_selector))
    if shape.named_node:
        matched &= nodes.is_named(shape.named_node)
    elif shape.required_node_affinity is not None:
        matched &= match_node_selector(nodes, compile_node_selector(shape.required_node_affinity))
    return matched


def is_tolerated(
    nodes: NodeTable | NodeRow, tolerations: Sequence[Toleration], effects: Sequence[str]
) -> Values:
    """Return which nodes have no untolerated taint with one of the effects."""
    if isinstance(nodes, NodeRow):
        return not untolerated(nodes.info.taints, tolerations, effects)
    tolerated = np.array(
        [not untolerated(taints, tolerations, effects) for taints in nodes.taint_sets],
        dtype=np.bool_,
    )
    return tolerated[nodes.taint_set]
