"""Watches: their events, start versions and ends."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH, PARTIAL, TABLE, Query
from kubesched.testing import Api, ApiServer
from tests.api.objects import config_map, config_maps, name_of, pod, pods, version_of


def kinds_and_names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["type"], name_of(event["object"])) for event in events]


def test_changes_after_a_version_come_in_order(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    api.post(path, config_map("a")).must(201)
    api.patch(f"{path}/a", {"data": {"k": "w"}}, MERGE_PATCH).must(200)
    api.delete(f"{path}/a").must(200)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        events = watch.take(3)
    assert kinds_and_names(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [int(version_of(event["object"])) for event in events]
    assert versions == sorted(set(versions))


def test_changes_arrive_as_they_happen(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        for name in "abc":
            api.post(path, config_map(name)).must(201)
            assert kinds_and_names([watch.next()]) == [("ADDED", name)]


@pytest.mark.parametrize("version", [None, "0"], ids=["without version", "from version 0"])
def test_existing_objects_come_first(api: Api, namespace: str, version: str | None) -> None:
    path = config_maps(namespace)
    for name in "ba":
        api.post(path, config_map(name)).must(201)
    # From version 0 a server may start with its cache: read once to fill it.
    api.get(path).must(200)
    query = {} if version is None else {"resourceVersion": version}
    with api.watch(path, query=query) as watch:
        assert kinds_and_names(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        api.post(path, config_map("c")).must(201)
        assert kinds_and_names([watch.next()]) == [("ADDED", "c")]


def test_initial_events_end_with_a_bookmark(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    for name in "ba":
        api.post(path, config_map(name)).must(201)
    query: Query = {
        "sendInitialEvents": True,
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": True,
    }
    with api.watch(path, query=query) as watch:
        *added, bookmark = watch.take(3)
        assert kinds_and_names(added) == [("ADDED", "a"), ("ADDED", "b")]
        assert bookmark["type"] == "BOOKMARK"
        document = bookmark["object"]
        assert document["kind"] == "ConfigMap"
        assert document["apiVersion"] == "v1"
        assert document["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(version_of(document)) >= max(int(version_of(one["object"])) for one in added)
        api.post(path, config_map("c")).must(201)
        assert kinds_and_names([watch.next()]) == [("ADDED", "c")]


def test_initial_events_of_nothing_are_a_bookmark(api: Api, namespace: str) -> None:
    query: Query = {
        "sendInitialEvents": True,
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": True,
    }
    with api.watch(config_maps(namespace), query=query) as watch:
        assert watch.next()["type"] == "BOOKMARK"


def test_a_watch_ends_with_its_timeout_and_a_bookmark(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    query: Query = {
        "resourceVersion": start,
        "timeoutSeconds": 3,
        "allowWatchBookmarks": True,
    }
    with api.watch(path, query=query) as watch:
        events = list(watch)
    assert {event["type"] for event in events} <= {"BOOKMARK"}


def test_a_watch_without_bookmarks_has_none(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    with api.watch(path, query={"resourceVersion": start, "timeoutSeconds": 2}) as watch:
        assert list(watch) == []


def test_a_watch_can_be_resumed(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    for name in "abc":
        api.post(path, config_map(name)).must(201)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        first = watch.next()
    query = {"resourceVersion": version_of(first["object"])}
    with api.watch(path, query=query) as watch:
        assert kinds_and_names(watch.take(2)) == [("ADDED", "b"), ("ADDED", "c")]


def test_a_label_selector_turns_changes_into_additions_and_deletions(
    api: Api, namespace: str
) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    query = {"resourceVersion": start, "labelSelector": "show=yes"}
    with api.watch(path, query=query) as watch:
        api.post(path, config_map("a")).must(201)
        api.post(path, config_map("b", labels={"show": "yes"})).must(201)
        api.patch(f"{path}/a", {"metadata": {"labels": {"show": "yes"}}}, MERGE_PATCH).must(200)
        hidden = api.patch(f"{path}/b", {"metadata": {"labels": {"show": "no"}}}, MERGE_PATCH)
        events = watch.take(3)
    assert kinds_and_names(events) == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "b")]
    gone = events[2]["object"]
    # The object is as it last matched, with the version of the change that ended the match.
    assert gone["metadata"]["labels"] == {"show": "yes"}
    assert version_of(gone) == version_of(hidden.must(200).json)


def test_a_field_selector_turns_changes_into_additions_and_deletions(
    api: Api, namespace: str
) -> None:
    path = pods(namespace)
    start = version_of(api.get(path).json)
    query = {"resourceVersion": start, "fieldSelector": "spec.nodeName="}
    with api.watch(path, query=query) as watch:
        api.post(path, pod("a")).must(201)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a"},
            "target": {"kind": "Node", "name": "n"},
        }
        api.post(f"{path}/a/binding", binding).must(201)
        assert kinds_and_names(watch.take(2)) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_of_one_object_by_field(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    query = {"resourceVersion": start, "fieldSelector": "metadata.name=b"}
    with api.watch(path, query=query) as watch:
        for name in "ab":
            api.post(path, config_map(name)).must(201)
        assert kinds_and_names([watch.next()]) == [("ADDED", "b")]


def test_the_old_watch_paths(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    for name in "ab":
        api.post(path, config_map(name)).must(201)
    old = f"/api/v1/watch/namespaces/{namespace}/configmaps"
    with api.watch(old, query={"resourceVersion": start}) as watch:
        assert kinds_and_names(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
    with api.watch(f"{old}/b", query={"resourceVersion": start}) as watch:
        assert kinds_and_names([watch.next()]) == [("ADDED", "b")]


def test_a_watch_over_all_namespaces(api: Api, namespace: str) -> None:
    start = version_of(api.get("/api/v1/configmaps").json)
    api.post(config_maps(namespace), config_map("a")).must(201)
    with api.watch("/api/v1/configmaps", query={"resourceVersion": start}) as watch:
        event = watch.next()
    assert event["object"]["metadata"]["namespace"] == namespace


def test_a_graceful_deletion_is_reported_step_by_step(api: Api, namespace: str) -> None:
    path = pods(namespace)
    api.post(path, pod("a", node="n")).must(201)
    start = version_of(api.get(path).json)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        api.delete(f"{path}/a").must(200)
        api.delete(f"{path}/a", query={"gracePeriodSeconds": 0}).must(200)
        events = watch.take(3)
    grace = [event["object"]["metadata"]["deletionGracePeriodSeconds"] for event in events]
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert grace == [30, 0, 0]


def test_deleting_a_collection_reports_each_object(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    for name in "abc":
        api.post(path, config_map(name)).must(201)
    start = version_of(api.get(path).json)
    api.delete(path).must(200)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        events = watch.take(3)
    assert {event["type"] for event in events} == {"DELETED"}
    assert sorted(name_of(event["object"]) for event in events) == ["a", "b", "c"]
    assert len({version_of(event["object"]) for event in events}) == 3


def test_a_watch_as_a_table(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(path, config_map("a")).must(201)
    api.get(path).must(200)
    with api.watch(path, accept=TABLE) as watch:
        first = watch.next()
        api.post(path, config_map("b")).must(201)
        second = watch.next()
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == [
        "Name",
        "Data",
        "Age",
    ]
    assert first["object"]["rows"][0]["cells"][:2] == ["a", 1]
    assert first["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    # Columns are sent once.
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:2] == ["b", 1]


def test_a_watch_of_metadata_only(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    api.post(path, config_map("a")).must(201)
    api.get(path).must(200)
    with api.watch(path, accept=PARTIAL) as watch:
        document = watch.next()["object"]
    assert (document["kind"], document["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "data" not in document


def test_dry_runs_are_not_reported(api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    api.post(path, config_map("a"), query={"dryRun": "All"}).must(201)
    api.post(path, config_map("b")).must(201)
    with api.watch(path, query={"resourceVersion": start}) as watch:
        assert kinds_and_names([watch.next()]) == [("ADDED", "b")]


def test_both_groups_of_events_are_reported(api: Api, namespace: str) -> None:
    old = f"/api/v1/namespaces/{namespace}/events"
    new = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    start = version_of(api.get(new).json)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    }
    with api.watch(new, query={"resourceVersion": start}) as watch:
        api.post(old, event).must(201)
        new_event = watch.next()["object"]
    assert new_event["apiVersion"] == "events.k8s.io/v1"
    assert new_event["note"] == "it was"
    assert new_event["regarding"] == {"kind": "Pod", "name": "p", "namespace": namespace}


def test_many_watchers_see_the_same(api_server: ApiServer, api: Api, namespace: str) -> None:
    path = config_maps(namespace)
    start = version_of(api.get(path).json)
    watches = [api.watch(path, query={"resourceVersion": start}) for _ in range(5)]
    try:
        for number in range(20):
            api.post(path, config_map(f"c{number:02}")).must(201)
        events = [kinds_and_names(watch.take(20)) for watch in watches]
    finally:
        for watch in watches:
            watch.close()
    assert events == [[("ADDED", f"c{number:02}") for number in range(20)]] * 5


def test_a_watch_of_an_unknown_kind(api: Api, namespace: str) -> None:
    with api.watch(f"/api/v1/namespaces/{namespace}/whatevers") as watch:
        assert watch.response().must(404).reason == "NotFound"


def test_the_type_of_a_watch_is_json(api: Api, namespace: str) -> None:
    with api.watch(config_maps(namespace), query={"timeoutSeconds": 1}) as watch:
        assert watch.headers["Content-Type"] == "application/json"
        assert watch.headers["Transfer-Encoding"] == "chunked"
