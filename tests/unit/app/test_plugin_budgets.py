"""`--plugin-budget`: what it takes, what it refuses, and how it is shown."""

from __future__ import annotations

import pytest

from kubesched.app.options import parse_options
from kubesched.app.plugin_budgets import PluginBudgetsValue


def test_for_all_plugins_and_for_some() -> None:
    flags = ["--plugin-budget=1s", "--plugin-budget", "Mine=1500ms", "--plugin-budget=my=own=0"]
    budgets = parse_options(flags).plugin_budgets
    assert budgets.default_s == 1.0
    assert budgets.by_plugin == {"Mine": 1.5, "my=own": 0.0}


def test_nothing_said_is_four_tenths_of_a_second() -> None:
    options = parse_options([])
    assert options.plugin_budgets.default_s == 0.4
    assert options.flags["plugin-budget"] == "400ms"


def test_what_was_said_is_shown() -> None:
    flags = ["--plugin-budget=2s", "--plugin-budget=Mine=50ms"]
    assert parse_options(flags).flags["plugin-budget"] == "2s,Mine=50ms"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("soon", 'time: invalid duration "soon"'),
        ("Mine=", 'time: invalid duration ""'),
        ("=1s", "the name of a plugin is missing before ="),
        ("-1s", "a time budget cannot be less than zero"),
        ("Mine=-1ms", "a time budget cannot be less than zero"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PluginBudgetsValue().set(text)
