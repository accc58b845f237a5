"""JSON, parsed and written as in Go; errors are those of Go 1.26's encoding/json."""

from datetime import timedelta

import msgspec
import pytest

from kubesched.golang.json import (
    JsonSyntaxError,
    Number,
    Object,
    from_builtins,
    go_json,
    parse_json,
    to_builtins,
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a":01}', "invalid character '1' after object key:value pair"),
        ('{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"a\tb"', "invalid character '\\t' in string literal"),
        ('{"a":1} x', "invalid character 'x' after top-level value"),
        ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ('{"a":', "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
    ],
)
def test_syntax_errors_have_gos_text(text: str, message: str) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_json(text.encode())
    assert str(caught.value) == message


def test_order_repetition_and_literals_are_kept() -> None:
    tree = parse_json(b'{"b": 1.50, "a": [true, null], "b": 2}')
    assert isinstance(tree, Object)
    assert [key for key, _ in tree.items] == ["b", "a", "b"]
    assert tree.items[0][1] == Number("1.50")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\u00e9\n\"\/"', 'é\n"/'),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83dx"', "\ufffdx"),
        (r'"\udc00"', "\ufffd"),
    ],
)
def test_escapes_are_decoded(text: str, value: str) -> None:
    assert parse_json(text.encode()) == value


def test_invalid_utf8_is_replaced() -> None:
    assert parse_json(b'"a\xffb"') == "a\ufffdb"


def test_deep_nesting_is_rejected() -> None:
    with pytest.raises(JsonSyntaxError, match="exceeded max depth"):
        parse_json(b"[" * 100_000)


def test_plain_values_round_trip() -> None:
    value = {"a": [1, 2.5, "x", None, True], "b": {"c": {}}}
    assert to_builtins(from_builtins(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_values_that_json_lacks_are_rejected(value: object) -> None:
    with pytest.raises(JsonSyntaxError, match="unsupported"):
        from_builtins({"a": value})


class Point(msgspec.Struct):
    y: int
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}', id="a map in order"),
        pytest.param(Point(2, 1), '{"y":2,"x":1}', id="a struct as it is declared"),
        pytest.param("<a&b>", '"\\u003ca\\u0026b\\u003e"', id="nothing that HTML would read"),
        pytest.param(timedelta(seconds=1), "1000000000", id="a duration in nanoseconds"),
        pytest.param(ValueError("no"), '"no"', id="an error by its text"),
        pytest.param(object, "\"<class 'object'>\"".replace("<", "\\u003c").replace(">", "\\u003e"),
                     id="other values by their text"),
    ],
)  # fmt: skip
def test_json(value: object, text: str) -> None:
    assert go_json(value) == text


def test_json_without_html_escapes() -> None:
    assert go_json(["<a>"], escape_html=False) == '["<a>"]'


def test_json_escapes_html_characters() -> None:
    assert go_json({"a": ["<b>", None, True, 1.5]}) == '{"a":["\\u003cb\\u003e",null,true,1.5]}'
