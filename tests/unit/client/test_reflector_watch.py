"""The watch of a reflector: each change is reported once."""

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
    rejected,
    run,
    status,
    watched,
)

REJECTED = TransportError("dial tcp: connection refused", is_refused=True)
RESET = TransportError("read: connection reset by peer", is_reset=True, was_sent=True)


def versions(queries: list[dict[str, str | int | bool]]) -> list[object]:
    return [query.get("resourceVersion") for query in queries]


def test_changes_are_reported_in_order() -> None:
    world = run(
        listed(5, pod("a", 3)), watched(added("b", 6), modified("a", 7), deleted("b", 8, "uid-b"))
    )
    assert world.sink.summary == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("MODIFIED", "ns/a"),
        ("DELETED", "ns/b"),
    ]
    assert [change.initial for change in world.sink.changes] == [True, False, False, False]
    assert world.sink.changes[3].object.metadata.name == "b"


def test_a_watch_resumes_from_the_last_event() -> None:
    world = run(listed(5), watched(added("a", 6), added("b", 8)), watched(modified("a", 9)))
    assert versions(world.queries) == ["0", "5", "8", "9"]
    assert world.clock.slept == []


def test_bookmarks_advance_the_version_and_report_nothing() -> None:
    world = run(listed(5), watched(added("a", 6), bookmark(77)), watched(bookmark(99)))
    assert versions(world.queries) == ["0", "5", "77", "99"]
    assert world.sink.summary == [("ADDED", "ns/a")]


def test_a_stream_cut_at_any_byte_loses_and_repeats_nothing() -> None:
    lines = [added("a", 6), modified("a", 7), added("b", 8), deleted("a", 9), bookmark(10)]
    data = b"".join(lines)
    ends = [len(b"".join(lines[: count + 1])) for count in range(len(lines))]
    for place in range(1, len(data) + 1):
        complete = sum(end <= place for end in ends)
        rest = watched(*lines[complete:]) if complete < len(lines) else watched(bookmark(11))
        world = run(listed(5), Answer([data[:place]], RESET), rest)
        assert world.queries[2]["resourceVersion"] == str(5 + complete)
        assert world.sink.summary == [
            ("ADDED", "ns/a"),
            ("MODIFIED", "ns/a"),
            ("ADDED", "ns/b"),
            ("DELETED", "ns/a"),
        ]


@pytest.mark.parametrize("size", [1, 3, 100, 0])
def test_changes_do_not_depend_on_the_chunks(size: int) -> None:
    data = b"".join([added("a", 6), modified("a", 7), bookmark(8), deleted("a", 9)])
    world = run(listed(5), Answer(cut(data, size)))
    assert world.sink.summary == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("DELETED", "ns/a")]
    assert world.queries[-1]["resourceVersion"] == "9"


def test_a_very_large_object_in_many_chunks() -> None:
    large = pod("a", 6)
    large["metadata"]["annotations"] = {"large": "x" * 3_000_000}
    world = run(listed(5), Answer(cut(event("ADDED", large) + added("b", 7), 1000)), keep_raw=True)
    assert world.sink.summary == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert json.loads(world.sink.changes[0].raw) == large


def test_repeated_events_are_reported_once() -> None:
    world = run(
        listed(5, pod("a", 3)),
        watched(added("a", 3), modified("a", 6), modified("a", 6), deleted("a", 7)),
        watched(deleted("a", 7)),
    )
    assert world.sink.summary == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("DELETED", "ns/a")]


def test_an_older_version_is_not_reported() -> None:
    history = [added("a", 2), modified("a", 6), modified("a", 7), modified("a", 9)]
    world = run(listed(8, pod("a", 7)), watched(*history))
    assert world.sink.replayed() == {"ns/a": ("uid-a", "9")}
    assert world.sink.summary == [("ADDED", "ns/a"), ("MODIFIED", "ns/a")]


def test_a_replaced_object_is_reported_as_deleted_and_added() -> None:
    world = run(listed(5, pod("a", 3)), watched(added("a", 9, "other"), deleted("a", 8, "uid-a")))
    assert world.sink.summary == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/a")]
    old, new = world.sink.changes[1:]
    assert (old.uid, old.object) == ("uid-a", None)
    assert new.uid == "other"


@pytest.mark.parametrize(
    "expiry",
    [
        pytest.param(expired(), id="at the request"),
        pytest.param(watched(event("ERROR", status(410, *EXPIRED))), id="in the stream"),
    ],
)
def test_a_version_too_old_to_watch_causes_a_list(expiry: Answer) -> None:
    before = [pod("same", 1), pod("changed", 2), pod("gone", 3), pod("replaced", 4)]
    after = [pod("same", 1), pod("changed", 12), pod("replaced", 13, "other"), pod("new", 14)]
    world = run(listed(5, *before), watched(bookmark(9)), expiry, listed(20, *after))
    assert world.sink.summary[4:] == [
        ("MODIFIED", "ns/changed"),
        ("DELETED", "ns/replaced"),
        ("ADDED", "ns/replaced"),
        ("ADDED", "ns/new"),
        ("DELETED", "ns/gone"),
    ]
    deletion = world.sink.changes[-1]
    assert (deletion.object, deletion.uid) == (None, "uid-gone")
    assert not any(change.initial for change in world.sink.changes[4:])
    # At least as new as the last event, and without pages, so that a cache can respond.
    assert world.queries[3] == {"resourceVersion": "9"}
    assert world.queries[4]["resourceVersion"] == "20"
    assert len(world.synced) == 1
    assert len(world.clock.slept) == 1


def test_the_backoff_grows_while_the_server_is_away() -> None:
    world = run(listed(5), *[Answer(error=REJECTED)] * 7, watched(added("a", 6)))
    bases = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    assert len(world.clock.slept) == 7
    for slept, base in zip(world.clock.slept, bases, strict=True):
        assert base <= slept < 2 * base
    assert len(set(world.clock.slept)) == 7
    # The watch resumes without a list.
    assert versions(world.queries) == ["0", *["5"] * 8, "6"]
    assert world.sink.summary == [("ADDED", "ns/a")]


def test_the_backoff_resets_after_two_minutes() -> None:
    answers = [Answer(error=REJECTED)] * 4
    world = run(listed(5), *answers, watched(bookmark(6), lasts_s=121), *answers)
    bases = [0.8, 1.6, 3.2, 6.4] * 2
    for slept, base in zip(world.clock.slept, bases, strict=True):
        assert base <= slept < 2 * base


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(rejected(429, "TooManyRequests"), id="too many requests"),
        pytest.param(
            watched(event("ERROR", status(429, "TooManyRequests"))),
            id="too many requests, in the stream",
        ),
        pytest.param(rejected(500, "InternalError"), id="internal error"),
        pytest.param(
            watched(event("ERROR", status(500, "InternalError"))),
            id="internal error, in the stream",
        ),
        pytest.param(rejected(503, "ServiceUnavailable"), id="unavailable"),
        pytest.param(rejected(401, "Unauthorized"), id="unauthorized"),
        pytest.param(Answer(error=RESET), id="reset before the response"),
    ],
)
def test_transient_failures_are_retried(answer: Answer) -> None:
    world = run(listed(5), watched(bookmark(6)), answer, watched(added("a", 7)))
    assert versions(world.queries) == ["0", "5", "6", "6", "7"]
    assert len(world.clock.slept) == 1
    assert 0.8 <= world.clock.slept[0] < 1.6


def test_retry_after_is_respected() -> None:
    answer = rejected(429, "TooManyRequests", retryAfterSeconds=17)
    world = run(listed(5), answer, watched(bookmark(6)))
    assert world.clock.slept == [17.0]


def test_repeated_watch_failures_cause_a_list() -> None:
    world = run(
        listed(5, pod("a", 3)), *[rejected(500, "InternalError")] * 4, listed(9, pod("a", 8))
    )
    assert versions(world.queries) == ["0", *["5"] * 4, "5", "9"]
    assert "watch" not in world.queries[5]
    assert world.sink.summary == [("ADDED", "ns/a"), ("MODIFIED", "ns/a")]


def test_very_short_watches_back_off() -> None:
    short = Answer([b""], lasts_s=0.1)
    world = run(listed(5), short, short, short, watched(bookmark(6)))
    assert len(world.clock.slept) == 3
    assert versions(world.queries) == ["0", "5", "5", "5", "5", "6"]


def test_malformed_events_are_retried_and_then_cause_a_list() -> None:
    garbage = Answer([b'{"type":"ADDED","object":{{{\n'], lasts_s=0.1)
    world = run(listed(5), garbage, watched(added("a", 6)), *[garbage] * 4, listed(9))
    assert world.sink.summary == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert "unable to decode watch event" in world.log.getvalue()


def test_an_unknown_event_type_is_logged() -> None:
    world = run(listed(5), watched(event("EXPLODED", pod("a", 6)), added("b", 7)))
    assert world.sink.summary == [("ADDED", "ns/b")]
    assert '"Unknown watch event"' in world.log.getvalue()


def test_an_undecodable_change_is_logged_and_its_deletion_reported() -> None:
    broken = pod("a", 6, containers="what")
    world = run(
        listed(5, pod("a", 3)), watched(event("MODIFIED", broken), event("DELETED", broken))
    )
    assert world.sink.summary == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert world.sink.changes[1].object is None
    assert 'name="a"' in world.log.getvalue()


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_json_is_kept_for_every_form_of_an_event(type_: str) -> None:
    document = pod("a", 6, nodeName="n")
    plain = {"type": type_, "object": document}
    turned = {"object": document, "type": type_}
    for line in (json.dumps(plain, separators=(",", ":")), json.dumps(plain), json.dumps(turned)):
        world = run(listed(5, pod("a", 3)), watched(line.encode() + b"\n"), keep_raw=True)
        assert json.loads(world.sink.changes[1].raw) == document


def test_log_lines() -> None:
    world = run(listed(5), watched(bookmark(6)), expired(), listed(7), verbosity=4)
    lines = [line.partition("] ")[2] for line in world.log.getvalue().splitlines()]
    names = 'reflector="pods" type="*v1.Pod"'
    assert lines[0] == f'"Starting reflector" {names} resyncPeriod="0s"'
    assert lines[1] == f'"Listing and watching" {names}'
    assert lines[2] == f'"Caches populated" {names}'
    assert lines[3] == f'"Watch close" {names} totalItems=1'
    assert lines[4] == f'"Watch closed" {names} err="too old resource version"'
