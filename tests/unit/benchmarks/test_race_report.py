"""The report of a race: rates, ratios, and missed targets."""

from __future__ import annotations

import pytest

from benchmarks.race import Race
from benchmarks.race_report import baseline_table, missed, racers_table, ratio_table, ratios


def a_race(racer: str, seconds: float, **changed: float) -> Race:
    figures = {"cpu_s": 3.0, "peak_mb": 100.0, "events_s": seconds, "bound": 1001, **changed}
    return Race(
        racer=racer,
        pods=1001,
        bound=int(figures["bound"]),
        start_s=1.0,
        drain_s=seconds,
        events=0 if racer == "limit" else 1001,
        events_s=figures["events_s"],
        cpu_s=figures["cpu_s"],
        start_cpu_s=1.0,
        server_cpu_s=2.0,
        peak_mb=figures["peak_mb"],
    )


def test_the_rate_is_measured_from_first_to_last_binding() -> None:
    assert a_race("kubesched", 10.0).rate == 100.0


def test_ratios_compare_medians() -> None:
    ours = [a_race("kubesched", seconds, cpu_s=0.5) for seconds in (2.0, 4.0, 50.0)]
    theirs = [a_race("kube-scheduler", seconds) for seconds in (1.0, 20.0, 30.0)]
    found = ratios([*ours, *theirs, a_race("limit", 2.0)])
    assert found is not None
    assert found.rate == pytest.approx(5.0)
    assert found.cpu == pytest.approx(1 / 6)
    assert found.limit == pytest.approx(0.5)


def test_there_is_no_ratio_without_both_schedulers() -> None:
    assert ratios([a_race("kubesched", 1.0), a_race("limit", 1.0)]) is None


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        pytest.param({"cpu_s": 0.5}, "", id="all targets are met"),
        pytest.param({"cpu_s": 0.7}, "0.23 of the CPU", id="more than a sixth of the CPU"),
        pytest.param({"cpu_s": 0.5, "peak_mb": 101.0}, "peak memory", id="more memory"),
        pytest.param({"cpu_s": 0.5, "events_s": 21.0}, "last event", id="later events"),
        pytest.param({"cpu_s": 0.4, "bound": 1000}, "1000 of 1001 pods", id="a pod not bound"),
    ],
)
def test_missed_targets_are_named(ours: dict[str, float], message: str) -> None:
    races = [a_race("kubesched", 3.9, **ours), a_race("kube-scheduler", 20.0)]
    found = missed({"hard-spread-zone": races})
    assert all(message in line for line in found)
    assert bool(found) is bool(message)


def test_tables_have_a_row_a_racer_and_a_row_a_workload() -> None:
    races = [a_race("kubesched", 4.0), a_race("kube-scheduler", 10.0), a_race("limit", 2.0)]
    assert len(racers_table("title", races)) == 4 + 3
    rows = ratio_table({"one-template": races}, {"one-template": "title"})
    assert "| title | 2.5 |" in rows[2]
    assert "**1.00**" in rows[2], "the CPU is as much as kube-scheduler's"


def test_another_version_of_kubesched_is_compared() -> None:
    before = [a_race("baseline", seconds, cpu_s=2.0, peak_mb=50.0) for seconds in (4.0, 5.0, 9.0)]
    now = [a_race("kubesched", seconds, cpu_s=1.0) for seconds in (3.0, 4.0, 8.0)]
    table = baseline_table(
        {"one-template": [*before, *now], "soft-spread": now}, {"one-template": "t"}
    )
    assert table[2:] == ["| t | 200 | 250 | 1.25 | 0.50 | 2.00 | 0.80 |"]
