"""Matching of label selectors, and errors of malformed ones."""

import re

import pytest

from kubesched.api.label_selectors import (
    MATCH_EVERYTHING,
    MATCH_NOTHING,
    Operator,
    Requirement,
    Selector,
    label_selector,
    parse_int64,
    selector_from_set,
)
from kubesched.api.meta import LabelSelector, LabelSelectorRequirement


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)
    return LabelSelector(match_expressions=(requirement,))


@pytest.mark.parametrize(
    ("selector", "matching", "missing"),
    [
        pytest.param(
            LabelSelector(match_labels={"app": "web"}),
            [{"app": "web"}, {"app": "web", "x": "y"}],
            [{}, {"app": "db"}],
            id="equal labels",
        ),
        pytest.param(
            expression("app", "In", "web", "db"), [{"app": "db"}], [{}, {"app": ""}], id="in"
        ),
        pytest.param(
            expression("app", "NotIn", "web"), [{}, {"app": "db"}], [{"app": "web"}], id="none of"
        ),
        pytest.param(expression("app", "Exists"), [{"app": ""}], [{}, {"a": "pp"}], id="exists"),
        pytest.param(expression("app", "DoesNotExist"), [{}], [{"app": ""}], id="does not exist"),
        pytest.param(
            LabelSelector(
                match_labels={"a": "1"},
                match_expressions=(LabelSelectorRequirement(key="b", operator="Exists"),),
            ),
            [{"a": "1", "b": ""}],
            [{"a": "1"}, {"b": ""}],
            id="labels and expressions must both hold",
        ),
        pytest.param(expression("a", "In", ""), [{"a": ""}], [{}], id="an empty value is a value"),
    ],
)
def test_selector_matches(
    selector: LabelSelector, matching: list[dict[str, str]], missing: list[dict[str, str]]
) -> None:
    compiled = label_selector(selector)
    assert [compiled.matches(labels) for labels in matching] == [True] * len(matching)
    assert [compiled.matches(labels) for labels in missing] == [False] * len(missing)


def test_none_matches_nothing_and_an_empty_selector_everything() -> None:
    assert label_selector(None) == MATCH_NOTHING
    assert not MATCH_NOTHING.matches({})
    assert not MATCH_NOTHING.is_empty
    assert label_selector(LabelSelector()) == MATCH_EVERYTHING
    assert MATCH_EVERYTHING.matches({"a": "b"})
    assert MATCH_EVERYTHING.is_empty
    assert selector_from_set({}) == MATCH_EVERYTHING


@pytest.mark.parametrize(
    ("requirement", "labels", "expected"),
    [
        pytest.param(Requirement("n", Operator.GREATER_THAN, ("5",)), {"n": "6"}, True, id="more"),
        pytest.param(Requirement("n", Operator.GREATER_THAN, ("5",)), {"n": "5"}, False, id="same"),
        pytest.param(Requirement("n", Operator.LESS_THAN, ("5",)), {"n": "-1"}, True, id="less"),
        pytest.param(Requirement("n", Operator.LESS_THAN, ("5",)), {"n": "x"}, False, id="a word"),
        pytest.param(Requirement("n", Operator.LESS_THAN, ("5",)), {}, False, id="absent"),
        pytest.param(
            Requirement("n", Operator.LESS_THAN, ("5", "6")), {"n": "1"}, False, id="two bounds"
        ),
        pytest.param(
            Requirement("n", Operator.NOT_EQUALS, ("a",)), {}, True, id="absent is not equal"
        ),
    ],
)
def test_requirement_matches(
    requirement: Requirement, labels: dict[str, str], *, expected: bool
) -> None:
    assert requirement.matches(labels) is expected


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (selector_from_set({"b": "2", "a": "1"}), "a=1,b=2"),
        (label_selector(expression("k", "In", "z", "a")), "k in (a,z)"),
        (label_selector(expression("k", "NotIn", "a")), "k notin (a)"),
        (label_selector(expression("k", "Exists")), "k"),
        (label_selector(expression("k", "DoesNotExist")), "!k"),
        (Selector((Requirement("k", Operator.GREATER_THAN, ("1",)),)), "k>1"),
        (Selector((Requirement("k", Operator.LESS_THAN, ("1",)),)), "k<1"),
        (Selector((Requirement("k", Operator.NOT_EQUALS, ("1",)),)), "k!=1"),
        (MATCH_NOTHING, ""),
        (MATCH_EVERYTHING, ""),
    ],
    ids=str,
)
def test_selector_text(selector: Selector, text: str) -> None:
    assert str(selector) == text


def test_equal_selectors_hash_alike() -> None:
    first = label_selector(LabelSelector(match_labels={"a": "1", "b": "2"}))
    second = selector_from_set({"b": "2", "a": "1"})
    assert first == second
    assert len({first, second}) == 1


def test_requirements_can_be_added() -> None:
    more = selector_from_set({"b": "2"}).with_requirements(Requirement("a", Operator.EXISTS))
    assert str(more) == "a,b=2"
    assert MATCH_NOTHING.with_requirements(Requirement("a", Operator.EXISTS)) == MATCH_NOTHING


NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        pytest.param(
            expression("a", "Gt", "1"),
            '"Gt" is not a valid label selector operator',
            id="an operator of node selectors",
        ),
        pytest.param(
            expression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="In without values",
        ),
        pytest.param(
            expression("a", "Exists", "x"),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
            id="Exists with values",
        ),
        pytest.param(
            LabelSelector(match_labels={"-a": "x"}),
            f'key: Invalid value: "-a": name part {NAME_RULE}',
            id="a malformed key",
        ),
        pytest.param(
            LabelSelector(match_labels={"Ex/a": "x"}),
            f'key: Invalid value: "Ex/a": prefix part {PREFIX_RULE}',
            id="a malformed prefix",
        ),
        pytest.param(
            LabelSelector(match_labels={"/a": "x"}),
            'key: Invalid value: "/a": prefix part must be non-empty',
            id="an empty prefix",
        ),
        pytest.param(
            LabelSelector(match_labels={"a/b/c": "x"}),
            f'key: Invalid value: "a/b/c": a valid label key {NAME_RULE} with an optional DNS '
            "subdomain prefix and '/' (e.g. 'example.com/MyName')",
            id="two slashes",
        ),
        pytest.param(
            LabelSelector(match_labels={"": "x"}),
            f'key: Invalid value: "": name part must be non-empty; name part {NAME_RULE}',
            id="no key",
        ),
        pytest.param(
            LabelSelector(match_labels={"a": "é" * 32}),
            f'values[0][a]: Invalid value: "{"é" * 32}": must be no more than 63 bytes; '
            f"{VALUE_RULE}",
            id="a value too long in bytes",
        ),
        pytest.param(
            LabelSelector(match_labels={"-a": "b c"}),
            f'[key: Invalid value: "-a": name part {NAME_RULE}, '
            f'values[0][-a]: Invalid value: "b c": {VALUE_RULE}]',
            id="key and value",
        ),
    ],
)
def test_a_malformed_selector_is_rejected(selector: LabelSelector, problem: str) -> None:
    with pytest.raises(ValueError, match=exactly(problem)):
        label_selector(selector)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("-12", -12),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None), ("-9223372036854775809", None), ("9" * 5000, None),
        ("0" * 5000 + "1", 1), ("", None), ("-", None), ("1.0", None), (" 1", None), ("1_0", None),
        ("٣", None),
    ],
    ids=lambda value: str(value)[:25],
)  # fmt: skip
def test_integers_are_parsed_as_go_parses_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number
