"""Quoting and joining of error texts as in Go."""

import pytest

from kubesched.api.field_errors import aggregate_text
from kubesched.golang.json import go_json
from kubesched.golang.strconv import go_quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("a\nb\tc\x00\x7f", r'"a\nb\tc\x00\x7f"'),
        ("é 😀", '"é 😀"'),
        ("\u200b\u00a0", r'"\u200b\u00a0"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
    ids=ascii,
)
def test_quoted_as_percent_q(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_json_escapes_html_characters() -> None:
    assert go_json("<a>&\u2028") == r'"\u003ca\u003e\u0026\u2028"'
    assert go_json(["a", "é"]) == '["a","é"]'
    assert go_json([]) == "[]"
    assert go_json(None) == "null"


def test_several_errors_are_bracketed_without_repetitions() -> None:
    assert aggregate_text(["a"]) == "a"
    assert aggregate_text(["a", "a"]) == "a"
    assert aggregate_text(["a", "b", "a"]) == "[a, b]"
