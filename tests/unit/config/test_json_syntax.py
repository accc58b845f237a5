"""JSON text read as Go reads it; the messages are those of Go 1.26's encoding/json."""

import pytest

from kubesched.config.gojson import (
    JsonSyntaxError,
    Number,
    Object,
    from_builtins,
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
def test_syntax_errors_are_worded_as_go_words_them(text: str, message: str) -> None:
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


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert parse_json(b'"a\xffb"') == "a\ufffdb"


def test_deep_nesting_ends_in_a_message() -> None:
    with pytest.raises(JsonSyntaxError, match="exceeded max depth"):
        parse_json(b"[" * 100_000)


def test_plain_values_go_there_and_back() -> None:
    value = {"a": [1, 2.5, "x", None, True], "b": {"c": {}}}
    assert to_builtins(from_builtins(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"])
def test_values_that_json_lacks_are_refused(value: object) -> None:
    with pytest.raises(JsonSyntaxError, match="unsupported"):
        from_builtins({"a": value})
