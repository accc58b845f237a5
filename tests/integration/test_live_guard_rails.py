"""`kubesched run` with a plugin that does not return: its pods fail, others are scheduled.

Runs on the embedded server, or on the real one with `--server real`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.testing import Api, ApiServer
from tests.integration.live_processes import Place, Scheduler, start

PLUGIN = f"{Path(__file__).parent / 'stubborn_plugin.py'}:Stubborn"
HOME = "live-home"
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "Stubborn"}]}}}
INTERRUPTED = (
    'running "Stubborn" filter plugin: filter() did not return within 500ms, ten times its time '
    "budget, and was interrupted"
)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("stubborn") / "key"
    os.environ["STUBBORN_KEY"] = str(path)
    yield path
    del os.environ["STUBBORN_KEY"]


@pytest.fixture(scope="module")
def scheduler(
    api_server: ApiServer, api: Api, key: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    directory = tmp_path_factory.mktemp("live")
    with Place(api, HOME) as home, ProcessGroup(directory) as group:
        home.node("a")
        home.node("b")
        flags = (f"--plugin={PLUGIN}", "--plugin-budget=Stubborn=50ms", "-v=2")
        running = start(api_server, group, *flags, profiles=[PROFILE])
        yield running
        key.touch()
        group.check()


@pytest.fixture
def place(api: Api) -> Iterator[Place]:
    with Place(api, home=HOME) as created:
        yield created


def bound(scheduler: Scheduler, place: Place, name: str) -> None:
    scheduler.until(lambda: bool(place.node_of(name)), f"{name} is bound")


def failed(scheduler: Scheduler, place: Place, name: str) -> list[str]:
    """Wait for the event and the condition of a failed pod; return the message."""
    scheduler.until(lambda: bool(place.notes(name, "FailedScheduling")), f"{name} has failed")
    scheduler.until(lambda: place.rejected(name), f"the status of {name} says so")
    return place.notes(name, "FailedScheduling")


@pytest.mark.parametrize("does", ["loop", "block", "swallow"])
def test_a_hanging_plugin_is_interrupted_and_other_pods_are_scheduled(
    scheduler: Scheduler, place: Place, does: str
) -> None:
    bound(scheduler, place, place.pod("before"))
    before = faults(scheduler, "interrupted")
    stuck = place.pod("stuck", annotations={"does": does})
    notes = failed(scheduler, place, stuck)
    bound(scheduler, place, place.pod("after"))
    assert set(notes) == {INTERRUPTED}
    assert place.condition(stuck)["reason"] == "SchedulerError"
    assert place.condition(stuck)["message"] == INTERRUPTED
    assert place.node_of(stuck) == ""
    assert faults(scheduler, "interrupted") > before
    place.delete(stuck)
    scheduler.until(lambda: scheduler.page("/livez") == (200, "ok"), "it is alive")


def faults(scheduler: Scheduler, fault: str) -> float:
    return scheduler.metric("kubesched_plugin_faults_total", plugin="Stubborn", fault=fault)


def test_a_plugin_over_its_budget_fails_the_pod(scheduler: Scheduler, place: Place) -> None:
    name = place.pod("slow", annotations={"does": "slow"})
    text = failed(scheduler, place, name)[0]
    assert text.startswith('running "Stubborn" filter plugin: filter() took ')
    assert text.endswith(", its time budget is 50ms")
    assert place.condition(name)["reason"] == "SchedulerError"
    assert faults(scheduler, "over_budget") >= 1


def test_a_nan_score_fails_the_pod(scheduler: Scheduler, place: Place) -> None:
    name = place.pod("nan", annotations={"does": "nan"})
    (text,) = set(failed(scheduler, place, name))
    assert text == (
        'running Score plugins: plugin "Stubborn" failed with: '
        "returned scores of type float64, expected integers"
    )
    assert faults(scheduler, "invalid_result") >= 1


def test_livez_fails_while_a_plugin_cannot_be_interrupted(
    scheduler: Scheduler, place: Place, key: Path
) -> None:
    bound(scheduler, place, place.pod("before"))
    assert scheduler.page("/livez") == (200, "ok")
    name = place.pod("locked", annotations={"does": "lock"})
    scheduler.until_logged("A plugin does not return and cannot be interrupted")
    red = (500, "[-]ping failed: reason withheld\nlivez check failed\n")
    assert scheduler.page("/livez") == red
    assert scheduler.page("/livez?verbose") == red
    assert scheduler.page("/healthz")[0] == 500
    assert scheduler.page("/metrics") == (503, "the event loop of the scheduler is blocked\n")
    (line,) = scheduler.lines("A plugin does not return and cannot be interrupted")
    assert 'err="plugin \\"Stubborn\\": filter() does not return"' in line
    assert "stubborn_plugin.py" in scheduler.log
    key.touch()
    scheduler.until(lambda: scheduler.page("/livez") == (200, "ok"), "it is alive again")
    assert failed(scheduler, place, name)[0] == INTERRUPTED
    bound(scheduler, place, name)
    bound(scheduler, place, place.pod("after"))
