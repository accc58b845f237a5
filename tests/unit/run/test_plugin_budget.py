"""`--plugin-budget`: accepted and rejected values, and the value as text."""

from __future__ import annotations

import pytest

from kubesched.run.options.flag_types import PLUGIN_BUDGETS
from kubesched.run.options.parse import parse_options


def test_budgets_for_all_and_for_single_plugins() -> None:
    flags = ["--plugin-budget=1s", "--plugin-budget", "Mine=1500ms", "--plugin-budget=my=own=0"]
    budgets = parse_options(flags).plugin_budgets
    assert budgets.default_s == 1.0
    assert budgets.by_plugin == {"Mine": 1.5, "my=own": 0.0}


def test_the_default_is_four_tenths_of_a_second() -> None:
    options = parse_options([])
    assert options.plugin_budgets.default_s == 0.4
    assert options.flags["plugin-budget"] == "400ms"


def test_the_text_of_budgets() -> None:
    flags = ["--plugin-budget=2s", "--plugin-budget=Mine=50ms"]
    assert parse_options(flags).flags["plugin-budget"] == "2s,Mine=50ms"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("soon", 'time: invalid duration "soon"'),
        ("Mine=", 'time: invalid duration ""'),
        ("=1s", "the name of a plugin is missing before ="),
        ("-1s", "a time budget cannot be negative"),
        ("Mine=-1ms", "a time budget cannot be negative"),
    ],
)
def test_invalid_budgets_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PLUGIN_BUDGETS.parse(text, PLUGIN_BUDGETS.default)
