"""Expressions mean the same for a table and for a row."""

from typing import Any

import numpy as np
import pytest

from kubesched.api.label_selectors import Operator, Requirement
from kubesched.api.node_selectors import FieldRequirement, NodeSelectorTermMatcher
from kubesched.snapshot import expressions as rules
from tests.unit.builders import a_cluster, a_node

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("rule", "arguments", "expected"),
    [
        pytest.param(rules.negate, ([True, False],), [False, True], id="negate"),
        pytest.param(rules.as_int, ([1.9, -1.9],), [1, -1], id="as_int cuts towards zero"),
        pytest.param(rules.square_root, ([2.25, 0.0],), [1.5, 0.0], id="square_root"),
        pytest.param(rules.overflowing, ([5, -5],), [5, -5], id="overflowing, within range"),
    ],
)
def test_a_function_means_the_same_for_a_table_and_a_row(
    rule: Any, arguments: Any, expected: Any
) -> None:
    assert rule(*map(np.array, arguments)).tolist() == expected
    by_row = [rule(*row) for row in zip(*arguments, strict=True)]
    assert by_row == expected
    assert [type(value) for value in by_row] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(INT64_MAX + 1, -INT64_MAX - 1), (-INT64_MAX - 2, INT64_MAX), (2**64, 0)],
)
def test_a_large_integer_overflows_as_in_an_array(number: int, expected: int) -> None:
    assert rules.overflowing(number) == expected


def test_one_value_for_all_nodes_is_a_column_or_a_plain_value() -> None:
    view = a_cluster([a_node("a"), a_node("b")])
    assert rules.full(view.all_nodes(), 7).tolist() == [7, 7]
    assert rules.full(view.all_nodes(), True).dtype == np.bool_
    assert rules.full(view.row(0), 7) == 7


@pytest.mark.parametrize(
    ("mask", "expected"),
    [(np.array([False, True]), True), (np.zeros(2, np.bool_), False), (True, True), (False, False)],
)
def test_is_any_of_a_mask(mask: Any, expected: bool) -> None:
    assert rules.is_any(mask) is expected


def test_an_id_is_looked_up_for_a_table_and_a_row() -> None:
    table = np.array([10, 20, 30])
    assert rules.looked_up(table, np.array([2, 0])).tolist() == [30, 10]
    assert type(rules.looked_up(table, 1)) is int


NODES = [
    a_node("a", labels={"disk": "ssd"}),
    a_node("b", labels={"disk": "hdd"}),
    a_node("c", labels={"disk": "7"}),
    a_node("d"),
]
MANY = tuple(f"value-{number}" for number in range(20))


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        pytest.param(Operator.IN, ("ssd",), "a", id="in one value"),
        pytest.param(Operator.IN, ("ssd", "7", "ssd"), "ac", id="in several values"),
        pytest.param(Operator.IN, (*MANY, "hdd"), "b", id="in many values"),
        pytest.param(Operator.IN, ("tape",), "", id="in a value that no node has"),
        pytest.param(Operator.IN, (), "", id="in no value"),
        pytest.param(Operator.EQUALS, ("hdd",), "b", id="equals"),
        pytest.param(Operator.NOT_EQUALS, ("hdd",), "acd", id="not equals"),
        pytest.param(Operator.NOT_IN, ("ssd", "tape"), "bcd", id="not in"),
        pytest.param(Operator.NOT_IN, (*MANY, "hdd"), "acd", id="not in many values"),
        pytest.param(Operator.EXISTS, (), "abc", id="exists"),
        pytest.param(Operator.DOES_NOT_EXIST, (), "d", id="does not exist"),
        pytest.param(Operator.GREATER_THAN, ("6",), "c", id="greater than"),
        pytest.param(Operator.LESS_THAN, ("6",), "", id="less than"),
    ],
)
def test_a_label_requirement_over_all_nodes(
    operator: Operator, values: tuple[str, ...], expected: str
) -> None:
    nodes = a_cluster(NODES).all_nodes()
    matched = rules.match_requirement(nodes, Requirement("disk", operator, values))
    assert "".join(np.array(nodes.names)[matched].tolist()) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param(FieldRequirement("metadata.name", "b"), "b", id="named"),
        pytest.param(FieldRequirement("metadata.name", "b", negated=True), "acd", id="not named"),
        pytest.param(FieldRequirement("metadata.name", "x"), "", id="an unknown name"),
        pytest.param(
            FieldRequirement("metadata.name", "x", negated=True), "abcd", id="not an unknown name"
        ),
        pytest.param(FieldRequirement("spec.other", "b"), "", id="a field that nodes do not have"),
        pytest.param(
            FieldRequirement("spec.other", "b", negated=True), "abcd", id="not that unknown field"
        ),
    ],
)
def test_a_field_requirement_over_all_nodes(field: FieldRequirement, expected: str) -> None:
    nodes = a_cluster(NODES).all_nodes()
    matched = rules.match_term(nodes, NodeSelectorTermMatcher(fields=(field,)))
    assert "".join(np.array(nodes.names)[matched].tolist()) == expected
    assert expected == "".join(name for name in nodes.names if field.matches(name))
