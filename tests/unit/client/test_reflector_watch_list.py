"""Everything there is as the beginning of a watch."""

from __future__ import annotations

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.resources import PODS
from tests.unit.client.reflector_world import (
    Answer,
    added,
    bookmark,
    deleted,
    expired,
    listed,
    modified,
    pod,
    refused,
    run,
    watched,
)

RESET = TransportError("EOF", is_reset=True)


def test_initial_events_and_changes_come_in_one_stream() -> None:
    initial = [added("a", 6), added("b", 3), bookmark(9, ends_initial=True)]
    world = run(
        watched(*initial, modified("b", 10)), watched(deleted("a", 11)), use_watch_list=True
    )
    query = world.queries[0]
    assert query.pop("timeoutSeconds")
    assert query == {
        "watch": True,
        "allowWatchBookmarks": True,
        "sendInitialEvents": True,
        "resourceVersionMatch": "NotOlderThan",
    }
    assert world.told.shown == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("MODIFIED", "ns/b"),
        ("DELETED", "ns/a"),
    ]
    assert [one.initial for one in world.told.changes] == [True, True, False, False]
    assert world.synced == [PODS]
    assert world.queries[1]["resourceVersion"] == "10"
    assert "sendInitialEvents" not in world.queries[1]


def test_an_older_server_is_listed() -> None:
    refusal = refused(422, "Invalid", "sendInitialEvents: Forbidden")
    world = run(refusal, listed(5, pod("a", 3)), use_watch_list=True)
    assert world.queries[1] == {"resourceVersion": "0", "limit": 500}
    assert world.told.shown == [("ADDED", "ns/a")]
    assert world.clock.slept == []


@pytest.mark.parametrize("error", [RESET, None], ids=["cut", "ended"])
def test_a_stream_without_its_bookmark_is_not_everything(error: TransportError | None) -> None:
    world = run(
        watched(added("a", 6), added("b", 3), error=error),
        listed(9, pod("b", 3), pod("c", 8)),
        use_watch_list=True,
    )
    assert world.told.shown == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("ADDED", "ns/c"),
        ("DELETED", "ns/a"),
    ]
    # Not older than what was told.
    assert world.queries[1] == {"resourceVersion": "6"}
    assert world.synced == [PODS]


def test_changes_may_come_before_the_bookmark() -> None:
    lines = [added("a", 3), added("b", 4), modified("a", 6), deleted("b", 7, "uid-b")]
    world = run(watched(*lines, bookmark(7, ends_initial=True)), use_watch_list=True)
    assert world.told.replayed() == {"ns/a": ("uid-a", "6")}
    assert len(world.told.changes) == 4


def test_another_bookmark_is_not_the_end() -> None:
    world = run(
        watched(added("a", 3), bookmark(5), added("b", 4), bookmark(6, ends_initial=True)),
        use_watch_list=True,
    )
    assert all(one.initial for one in world.told.changes)
    assert world.queries[1]["resourceVersion"] == "6"


def test_a_relist_is_streamed_and_compared() -> None:
    first = [added("a", 3), added("b", 4), bookmark(5, ends_initial=True)]
    second = [added("a", 3), added("c", 8), bookmark(9, ends_initial=True)]
    world = run(watched(*first), expired(), watched(*second), use_watch_list=True)
    assert world.queries[2]["resourceVersion"] == "5"
    assert world.told.shown == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("ADDED", "ns/c"),
        ("DELETED", "ns/b"),
    ]


def test_a_version_that_is_not_there_any_more_is_left_out() -> None:
    first = [added("a", 3), bookmark(5, ends_initial=True)]
    second = [added("a", 3), bookmark(9, ends_initial=True)]
    world = run(watched(*first), expired(), expired(), watched(*second), use_watch_list=True)
    assert "resourceVersion" not in world.queries[3]
    assert world.queries[3]["sendInitialEvents"] is True
    assert world.told.shown == [("ADDED", "ns/a")]


def test_a_server_that_is_away_is_waited_for() -> None:
    away = Answer(error=TransportError("refused", is_refused=True))
    world = run(away, away, watched(bookmark(5, ends_initial=True)), use_watch_list=True)
    assert all("sendInitialEvents" in query for query in world.queries[:3])
    assert len(world.clock.slept) == 2
    assert world.synced == [PODS]


def test_a_missing_right_to_watch_is_told_by_that_name() -> None:
    verbs: list[str] = []
    world = run(
        refused(403, "Forbidden"),
        watched(bookmark(5, ends_initial=True)),
        use_watch_list=True,
        on_forbidden=lambda _resource, verb, _error: verbs.append(verb),
    )
    assert verbs == ["watch"]
    assert world.reflector.has_synced


def test_a_kind_that_is_not_served_is_not_listed_either() -> None:
    world = run(
        refused(404, "NotFound"), until=lambda world: len(world.synced) == 1, use_watch_list=True
    )
    assert world.reflector.has_synced
