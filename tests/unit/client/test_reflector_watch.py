"""A reflector's watch: each change once, whatever becomes of the stream."""

from __future__ import annotations

import json

import pytest

from kubesched.client.errors import TransportError
from tests.unit.client.reflector_world import (
    EXPIRED,
    Answer,
    added,
    bookmark,
    cut,
    deleted,
    event,
    expired,
    listed,
    modified,
    pod,
    refused,
    run,
    status,
    watched,
)

REFUSED = TransportError("dial tcp: connection refused", is_refused=True)
RESET = TransportError("read: connection reset by peer", is_reset=True, was_sent=True)


def versions(queries: list[dict[str, str | int | bool]]) -> list[object]:
    return [query.get("resourceVersion") for query in queries]


def test_changes_are_told_in_order() -> None:
    world = run(
        listed(5, pod("a", 3)), watched(added("b", 6), modified("a", 7), deleted("b", 8, "uid-b"))
    )
    assert world.told.shown == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("MODIFIED", "ns/a"),
        ("DELETED", "ns/b"),
    ]
    assert [one.initial for one in world.told.changes] == [True, False, False, False]
    assert world.told.changes[3].object.metadata.name == "b"


def test_a_stream_that_ends_is_opened_again_from_the_last_event() -> None:
    world = run(listed(5), watched(added("a", 6), added("b", 8)), watched(modified("a", 9)))
    assert versions(world.queries) == ["0", "5", "8", "9"]
    assert world.clock.slept == []


def test_bookmarks_move_the_place_and_tell_nothing() -> None:
    world = run(listed(5), watched(added("a", 6), bookmark(77)), watched(bookmark(99)))
    assert versions(world.queries) == ["0", "5", "77", "99"]
    assert world.told.shown == [("ADDED", "ns/a")]


def test_a_stream_cut_at_any_byte_loses_and_doubles_nothing() -> None:
    lines = [added("a", 6), modified("a", 7), added("b", 8), deleted("a", 9), bookmark(10)]
    data = b"".join(lines)
    ends = [len(b"".join(lines[: count + 1])) for count in range(len(lines))]
    for place in range(1, len(data) + 1):
        complete = sum(end <= place for end in ends)
        rest = watched(*lines[complete:]) if complete < len(lines) else watched(bookmark(11))
        world = run(listed(5), Answer([data[:place]], RESET), rest)
        assert world.queries[2]["resourceVersion"] == str(5 + complete)
        assert world.told.shown == [
            ("ADDED", "ns/a"),
            ("MODIFIED", "ns/a"),
            ("ADDED", "ns/b"),
            ("DELETED", "ns/a"),
        ]


@pytest.mark.parametrize("size", [1, 3, 100, 0])
def test_however_the_bytes_come(size: int) -> None:
    data = b"".join([added("a", 6), modified("a", 7), bookmark(8), deleted("a", 9)])
    world = run(listed(5), Answer(cut(data, size)))
    assert world.told.shown == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("DELETED", "ns/a")]
    assert world.reflector.last_sync_resource_version == "9"


def test_a_very_large_object_comes_in_many_pieces() -> None:
    large = pod("a", 6)
    large["metadata"]["annotations"] = {"large": "x" * 3_000_000}
    world = run(listed(5), Answer(cut(event("ADDED", large) + added("b", 7), 1000)), keep_raw=True)
    assert world.told.shown == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert json.loads(world.told.changes[0].raw) == large


def test_what_is_sent_again_is_not_told_again() -> None:
    world = run(
        listed(5, pod("a", 3)),
        watched(added("a", 3), modified("a", 6), modified("a", 6), deleted("a", 7)),
        watched(deleted("a", 7)),
    )
    assert world.told.shown == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("DELETED", "ns/a")]


def test_what_was_before_is_not_told_after() -> None:
    history = [added("a", 2), modified("a", 6), modified("a", 7), modified("a", 9)]
    world = run(listed(8, pod("a", 7)), watched(*history))
    assert world.told.replayed() == {"ns/a": ("uid-a", "9")}
    assert world.told.shown == [("ADDED", "ns/a"), ("MODIFIED", "ns/a")]


def test_a_name_that_somebody_else_has_now() -> None:
    world = run(listed(5, pod("a", 3)), watched(added("a", 9, "other"), deleted("a", 8, "uid-a")))
    assert world.told.shown == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/a")]
    gone, come = world.told.changes[1:]
    assert (gone.uid, gone.object) == ("uid-a", None)
    assert come.uid == "other"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(expired(), id="when it is asked for"),
        pytest.param(watched(event("ERROR", status(410, *EXPIRED))), id="while it is open"),
    ],
)
def test_a_version_too_old_to_watch_is_listed_and_compared(how: Answer) -> None:
    before = [pod("same", 1), pod("changed", 2), pod("gone", 3), pod("replaced", 4)]
    after = [pod("same", 1), pod("changed", 12), pod("replaced", 13, "other"), pod("new", 14)]
    world = run(listed(5, *before), watched(bookmark(9)), how, listed(20, *after))
    assert world.told.shown[4:] == [
        ("MODIFIED", "ns/changed"),
        ("DELETED", "ns/replaced"),
        ("ADDED", "ns/replaced"),
        ("ADDED", "ns/new"),
        ("DELETED", "ns/gone"),
    ]
    gone = world.told.changes[-1]
    assert (gone.object, gone.uid) == (None, "uid-gone")
    assert not any(one.initial for one in world.told.changes[4:])
    # At least as new as what was heard last, and not in pages, so that a cache can answer.
    assert world.queries[3] == {"resourceVersion": "9"}
    assert world.queries[4]["resourceVersion"] == "20"
    assert len(world.synced) == 1
    assert len(world.clock.slept) == 1


def test_a_server_that_is_away_is_asked_more_and_more_seldom() -> None:
    world = run(listed(5), *[Answer(error=REFUSED)] * 7, watched(added("a", 6)))
    bases = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    assert len(world.clock.slept) == 7
    for slept, base in zip(world.clock.slept, bases, strict=True):
        assert base <= slept < 2 * base
    assert len(set(world.clock.slept)) == 7
    # It is watched, not listed, from where it was.
    assert versions(world.queries) == ["0", *["5"] * 8, "6"]
    assert world.told.shown == [("ADDED", "ns/a")]


def test_waits_are_short_again_after_two_minutes() -> None:
    answers = [Answer(error=REFUSED)] * 4
    world = run(listed(5), *answers, watched(bookmark(6), lasts_s=121), *answers)
    bases = [0.8, 1.6, 3.2, 6.4] * 2
    for slept, base in zip(world.clock.slept, bases, strict=True):
        assert base <= slept < 2 * base


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refused(429, "TooManyRequests"), id="too many requests"),
        pytest.param(
            watched(event("ERROR", status(429, "TooManyRequests"))), id="too many, in the stream"
        ),
        pytest.param(refused(500, "InternalError"), id="an internal error"),
        pytest.param(
            watched(event("ERROR", status(500, "InternalError"))), id="internal, in the stream"
        ),
        pytest.param(refused(503, "ServiceUnavailable"), id="not available"),
        pytest.param(refused(401, "Unauthorized"), id="not known, as a token may be renewed"),
        pytest.param(Answer(error=RESET), id="a connection cut before the answer"),
    ],
)
def test_failures_that_pass_are_waited_out(answer: Answer) -> None:
    world = run(listed(5), watched(bookmark(6)), answer, watched(added("a", 7)))
    assert versions(world.queries) == ["0", "5", "6", "6", "7"]
    assert len(world.clock.slept) == 1
    assert 0.8 <= world.clock.slept[0] < 1.6


def test_a_server_that_says_when_is_asked_then() -> None:
    answer = refused(429, "TooManyRequests", retryAfterSeconds=17)
    world = run(listed(5), answer, watched(bookmark(6)))
    assert world.clock.slept == [17.0]


def test_a_watch_that_fails_again_and_again_is_listed() -> None:
    world = run(
        listed(5, pod("a", 3)), *[refused(500, "InternalError")] * 4, listed(9, pod("a", 8))
    )
    assert versions(world.queries) == ["0", *["5"] * 4, "5", "9"]
    assert "watch" not in world.queries[5]
    assert world.told.shown == [("ADDED", "ns/a"), ("MODIFIED", "ns/a")]


def test_streams_that_end_at_once_are_not_opened_in_a_frenzy() -> None:
    short = Answer([b""], lasts_s=0.1)
    world = run(listed(5), short, short, short, watched(bookmark(6)))
    assert len(world.clock.slept) == 3
    assert versions(world.queries) == ["0", "5", "5", "5", "5", "6"]


def test_garbage_is_heard_again_and_then_listed() -> None:
    garbage = Answer([b'{"type":"ADDED","object":{{{\n'], lasts_s=0.1)
    world = run(listed(5), garbage, watched(added("a", 6)), *[garbage] * 4, listed(9))
    assert world.told.shown == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert "unable to decode watch event" in world.log.getvalue()


def test_a_kind_of_event_nobody_knows_is_named() -> None:
    world = run(listed(5), watched(event("EXPLODED", pod("a", 6)), added("b", 7)))
    assert world.told.shown == [("ADDED", "ns/b")]
    assert '"Unknown watch event"' in world.log.getvalue()


def test_a_change_that_cannot_be_read_is_named_and_its_end_is_told() -> None:
    broken = pod("a", 6, containers="what")
    world = run(
        listed(5, pod("a", 3)), watched(event("MODIFIED", broken), event("DELETED", broken))
    )
    assert world.told.shown == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert world.told.changes[1].object is None
    assert 'name="a"' in world.log.getvalue()


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_json_is_kept_whatever_the_form_of_the_event(type_: str) -> None:
    shown = pod("a", 6, nodeName="n")
    plain = {"type": type_, "object": shown}
    turned = {"object": shown, "type": type_}
    for line in (json.dumps(plain, separators=(",", ":")), json.dumps(plain), json.dumps(turned)):
        world = run(listed(5, pod("a", 3)), watched(line.encode() + b"\n"), keep_raw=True)
        assert json.loads(world.told.changes[1].raw) == shown


def test_lines_of_a_reflector() -> None:
    world = run(listed(5), watched(bookmark(6)), expired(), listed(7), verbosity=4)
    lines = [line.partition("] ")[2] for line in world.log.getvalue().splitlines()]
    names = 'reflector="pods" type="*v1.Pod"'
    assert lines[0] == f'"Starting reflector" {names} resyncPeriod="0s"'
    assert lines[1] == f'"Listing and watching" {names}'
    assert lines[2] == f'"Caches populated" {names}'
    assert lines[3] == f'"Watch close" {names} totalItems=1'
    assert lines[4] == f'"Watch closed" {names} err="too old resource version"'
