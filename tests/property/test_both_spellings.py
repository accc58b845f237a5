"""A plugin for one node and the same plugin over columns give the same decisions."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings

from kubesched.profile.build import Built
from tests.property.random_cases import case_of, load, numbers_of
from tests.property.spellings import PAIRS
from tests.unit.builders import built_with


@cache
def built(plugin: type, first: bool) -> Built:
    return built_with(plugin, first=first)


def decision(number: int, plugin: type, *, first: bool) -> Any:
    case = case_of(number)
    case["pod"]["spec"]["schedulerName"] = "default-scheduler"
    decided = load(case, built=built(plugin, first)).decide()
    return decided.suggested_host, decided.as_json()


@pytest.mark.parametrize("first", [True, False], ids=["before the others", "after the others"])
@pytest.mark.parametrize("pair", PAIRS)
@settings(max_examples=40)
@given(number=numbers_of("preemption", "mixed", "messages", "resources", "interpodaffinity"))
def test_decisions_are_equal(pair: str, first: bool, number: int) -> None:
    one_node, column = PAIRS[pair]
    expected = decision(number, one_node, first=first)
    assert decision(number, column, first=first) == expected


def seen(plugin: type, count: int) -> tuple[int, int]:
    """Return the numbers of decisions in which the plugin rejected a node, and with victims."""
    rejected = preempted = 0
    for number in range(count):
        case = case_of(number)
        case["pod"]["spec"]["schedulerName"] = "default-scheduler"
        decided = load(case, built=built(plugin, False)).decide()
        rejected += any(status.plugin == plugin.name for status in decided.rejected.values())  # type: ignore[attr-defined]  # a plugin has a name
        preempted += decided.preemption is not None
    return rejected, preempted


@pytest.mark.parametrize("pair", ["a filter", "a filter that keeps count"])
def test_the_filters_reject_nodes_in_some_cases(pair: str) -> None:
    rejected, preempted = seen(PAIRS[pair][1], 60)
    assert rejected > 10
    assert preempted > 2
