"""The report of the race of two extenders."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.extender import differences, mistakes, report, round_ratios, slower
from benchmarks.extender_course import GO, NONE, OURS, Calls, ExtenderRace
from benchmarks.race import Race


def a_race(
    racer: str, seconds: float, *, number: int = 0, setting: str = "names", **changed: int
) -> ExtenderRace:
    race = Race(
        racer="kube-scheduler",
        pods=101,
        bound=changed.get("bound", 101),
        start_s=1.0,
        drain_s=seconds,
        events=101,
        events_s=seconds,
        cpu_s=3.0,
        start_cpu_s=1.0,
        server_cpu_s=2.0,
        peak_mb=100.0,
    )
    return ExtenderRace(
        racer=racer,
        setting=setting,
        round=number,
        race=race,
        cpu_s=1.01,
        peak_mb=50.0,
        avoided=changed.get("avoided", 0),
    )


def three_rounds(ours: list[float], theirs: list[float], setting: str) -> list[ExtenderRace]:
    return [
        a_race(racer, seconds, number=number, setting=setting)
        for racer, times in ((OURS, ours), (GO, theirs), (NONE, [1.0, 1.0, 1.0]))
        for number, seconds in enumerate(times)
    ]


def calls(racer: str, setting: str, answers: tuple[Any, Any]) -> Calls:
    return Calls(racer=racer, setting=setting, filter_ms=1.0, prioritize_ms=2.0, answers=answers)


def test_each_round_has_a_ratio() -> None:
    races = three_rounds([2.0, 4.0, 5.0], [4.0, 2.0, 10.0], "names")
    assert round_ratios(races) == pytest.approx([2.0, 0.5, 2.0])
    assert slower(races) == []


def test_the_slower_extender_is_named_with_the_form_of_the_request() -> None:
    races = three_rounds([4.0, 4.0, 4.0], [2.0, 2.0, 9.0], "nodes")
    assert slower(races) == ["nodes: 0.50 times the Go extender's rate, wanted 1"]
    head, _, row, *_ = report(races, [])
    assert head.startswith("| kube-scheduler sends |")
    assert "**0.50**" in row
    assert "0.50, 0.50, 2.25" in row


def test_a_round_without_both_has_no_ratio() -> None:
    assert round_ratios([a_race(OURS, 1.0), a_race(NONE, 1.0), a_race(GO, 1.0, number=1)]) == []


def test_extenders_have_to_give_equal_answers() -> None:
    answers = ({"names": ["a"]}, {"a": 3})
    assert differences([calls(GO, "names", answers), calls(OURS, "names", answers)]) == []
    other = ({"names": ["a"]}, {"a": 4})
    assert differences([calls(GO, "names", answers), calls(OURS, "names", other)]) == [
        "names: the extenders do not answer the same to prioritize"
    ]


def test_unbound_and_misplaced_pods_are_errors() -> None:
    races = [
        a_race(OURS, 1.0, bound=100),
        a_race(GO, 1.0, avoided=2, number=1),
        a_race(NONE, 1.0, avoided=9),
    ]
    assert mistakes(races) == [
        f"names 1, {OURS}: 100 of 101 pods bound",
        f"names 2, {GO}: 2 pods are where the extender refused them",
    ]
