"""Selectors as text; the errors are kube-apiserver's own."""

from __future__ import annotations

import re

import pytest

from kubesched.cluster.apiserver.http.selectors import parse_field_selector, parse_label_selector

LABELS = {"a": "1", "tier": "web"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True), ("a", True), ("!a", False), ("b", False), ("!b", True), ("a=1", True),
        ("a==1", True), ("a!=1", False), ("b!=1", True), ("a in (1,2)", True), ("a in (2)", False),
        ("a notin (2)", True), ("b notin (2)", True), ("a>0", True), ("a<1", False), ("b>0", False),
        ("a=1,tier=web", True), ("a=1,tier=db", False), (" a = 1 , tier in ( web ) ", True),
        ("a=", False), ("a in ()", False), ("a in (1,)", True), ("a in (,1)", True),
    ],
)  # fmt: skip
def test_label_selectors_match(text: str, *, expected: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is expected


def test_the_words_of_operators_may_be_keys_and_values() -> None:
    assert parse_label_selector("in in (in,notin)").matches({"in": "notin"})
    assert parse_label_selector("notin").matches({"notin": ""})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a=b,", "found '', expected: identifier after ','"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    ],
)  # fmt: skip
def test_label_selectors_rejected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)) as rejected:
        parse_label_selector(text)
    assert str(rejected.value) == expected


def test_an_invalid_key() -> None:
    with pytest.raises(
        ValueError, match=r"^unable to parse requirement: <nil>: Invalid value: "
    ) as no:
        parse_label_selector("-x=1")
    assert '"-x": name part must consist of' in str(no.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True), ("metadata.name=a", True), ("metadata.name==a", True),
        ("metadata.name!=a", False), ("spec.x=", True), ("metadata.name=a,spec.x!=y", True),
        ("metadata.name=a,", True), (r"metadata.name=a\,b", False),
    ],
)  # fmt: skip
def test_field_selectors_match(text: str, *, expected: bool) -> None:
    assert parse_field_selector(text).matches({"metadata.name": "a"}) is expected


def test_escaped_values() -> None:
    assert parse_field_selector(r"x=a\=b\,c\\d").matches({"x": r"a=b,c\d"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_field_selectors_rejected(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)) as rejected:
        parse_field_selector(text)
    assert str(rejected.value) == expected


def test_a_demanded_field_value() -> None:
    selector = parse_field_selector("metadata.name=a,spec.x!=y").with_name("b")
    assert selector.demanded("metadata.name") == "a"
    assert selector.demanded("spec.x") is None
    assert not selector.matches({"metadata.name": "a"})
