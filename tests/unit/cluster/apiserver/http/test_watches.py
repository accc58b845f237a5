"""Events of watches."""

from __future__ import annotations

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.verbs import watching
from kubesched.cluster.apiserver.verbs.watching import WatchExpiredError
from tests.unit.cluster.apiserver.http.worlds import THINGS, World, events_of, types_and_names


def test_a_watch_without_a_version_begins_with_existing_objects() -> None:
    world = World()
    world.make("a")
    watcher = world.watch(f"{THINGS}?watch=1")
    world.make("b")
    world.patch(f"{THINGS}/a", {"spec": {"x": 1}})
    world("DELETE", f"{THINGS}/b")
    assert types_and_names(watcher) == [
        ("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"),
    ]  # fmt: skip


def test_a_watch_resumes_after_a_version() -> None:
    world = World()
    world.make("a")
    since = world.make("b")["metadata"]["resourceVersion"]
    world.make("c")
    world("DELETE", f"{THINGS}/a")
    watcher = world.watch(f"{THINGS}?watch=1&resourceVersion={since}")
    assert types_and_names(watcher) == [("ADDED", "c"), ("DELETED", "a")]


def test_a_deletion_has_its_own_version() -> None:
    world = World()
    world.make("a")
    watcher = world.watch(f"{THINGS}?watch=1&resourceVersion=2")
    world("DELETE", f"{THINGS}/a")
    assert events_of(watcher)[0]["object"]["metadata"]["resourceVersion"] == "3"


def test_objects_enter_and_leave_a_selection() -> None:
    world = World()
    world.make("a", metadata={"labels": {"on": "no"}})
    watcher = world.watch(f"{THINGS}?watch=1&labelSelector=on=yes")
    for value in ("yes", "yes ".strip(), "no", "no"):
        world.patch(f"{THINGS}/a", {"metadata": {"labels": {"on": value}}, "spec": {"v": value}})
    world.patch(f"{THINGS}/a", {"metadata": {"labels": {"on": "yes"}}})
    world.patch(f"{THINGS}/a", {"spec": {"v": "last"}})
    world("DELETE", f"{THINGS}/a")
    found = events_of(watcher)
    assert [event["type"] for event in found] == [
        "ADDED",
        "DELETED",
        "ADDED",
        "MODIFIED",
        "DELETED",
    ]
    left = found[1]["object"]
    # It has its last selected state, with the version that ended the selection.
    assert left["metadata"]["labels"] == {"on": "yes"}
    assert left["metadata"]["resourceVersion"] == "4"


def test_a_watch_of_one_namespace_and_of_one_name() -> None:
    world = World()
    other = THINGS.replace("one", "two")
    here = world.watch(f"{THINGS}?watch=1")
    single = world.watch(f"{THINGS}?watch=1&fieldSelector=metadata.name=b")
    everywhere = world.watch("/apis/example.com/v1/things?watch=1")
    world.make("a")
    world("POST", other, {"metadata": {"name": "a"}})
    world.make("b")
    assert types_and_names(here) == [("ADDED", "a"), ("ADDED", "b")]
    assert types_and_names(single) == [("ADDED", "b")]
    assert types_and_names(everywhere) == [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]


def test_initial_events_end_with_a_bookmark() -> None:
    world = World()
    world.make("a")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    found = events_of(world.watch(f"{THINGS}?{query}&allowWatchBookmarks=true"))
    assert [event["type"] for event in found] == ["ADDED", "BOOKMARK"]
    assert found[1]["object"]["metadata"] == {
        "resourceVersion": "2", "annotations": {"k8s.io/initial-events-end": "true"},
    }  # fmt: skip
    assert [event["type"] for event in events_of(world.watch(f"{THINGS}?{query}"))] == ["ADDED"]


def test_no_initial_events_unless_requested() -> None:
    world = World()
    world.make("a")
    query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    assert events_of(world.watch(f"{THINGS}?{query}")) == []


def test_a_version_that_is_forgotten() -> None:
    world = World()
    world.make("a")
    world.make("b")
    world.context.store.buckets["example.com/things"].history.compact(3)
    with pytest.raises(WatchExpiredError) as rejected:
        world.watch(f"{THINGS}?watch=1&resourceVersion=2")
    status = rejected.value.rejection.status
    assert status["message"] == "too old resource version: 2 (3)"
    assert (status["code"], status["reason"]) == (410, "Expired")


def test_a_version_that_is_still_to_come() -> None:
    world = World()
    watcher = world.watch(f"{THINGS}?watch=1&resourceVersion=3")
    world.make("a")
    world.make("b")
    world.make("c")
    assert types_and_names(watcher) == [("ADDED", "c")]


def test_a_change_is_encoded_once_for_all() -> None:
    world = World()
    watchers = [world.watch(f"{THINGS}?watch=1") for _ in range(3)]
    world.make("a")
    frames = [watcher._queue[0] for watcher in watchers]
    assert frames[0] is frames[1] is frames[2]


def test_a_watcher_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BACKLOG_BYTES_MAX", 2000)
    world = World()
    slow, quick = world.watch(f"{THINGS}?watch=1"), world.watch(f"{THINGS}?watch=1")
    for index in range(20):
        world.make(f"a{index}")
        quick.take()
    assert (slow.is_closed, slow.has_overflowed) == (True, True)
    assert not quick.is_closed
    assert slow not in world.context.store.buckets["example.com/things"].history.subscribers


def test_a_closed_watch_gets_no_events() -> None:
    world = World()
    watcher = world.watch(f"{THINGS}?watch=1")
    watcher.close()
    world.make("a")
    assert watcher.take() == b""


def test_options_that_contradict_each_other() -> None:
    world = World()
    with pytest.raises(ApiError) as rejected:
        world.watch(f"{THINGS}?watch=1&sendInitialEvents=true&resourceVersion=5")
    assert rejected.value.code == 422
    assert "sendInitialEvents requires setting resourceVersionMatch" in rejected.value.message


def test_a_watch_as_metadata_only() -> None:
    world = World()
    world.make("a", spec={"x": 1})
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    from kubesched.cluster.apiserver.http.dispatch import run  # noqa: PLC0415

    watcher = run(world.context, world.request("GET", f"{THINGS}?watch=1", Accept=accept))
    assert isinstance(watcher, watching.Watcher)
    shown = events_of(watcher)[0]["object"]
    assert shown["kind"] == "PartialObjectMetadata"
    assert "spec" not in shown
