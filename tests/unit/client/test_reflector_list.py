"""The list of a reflector."""

from __future__ import annotations

import json

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.resources import PODS, Resource
from tests.unit.client.reflector_world import (
    Answer,
    cut,
    expired,
    list_body,
    listed,
    pod,
    rejected,
    run,
)

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")


def test_the_first_list_allows_a_cache_and_pages() -> None:
    world = run(listed(7, pod("a", 3), pod("b", 5)))
    assert world.queries[0] == {"resourceVersion": "0", "limit": 500}
    assert world.sink.summary == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert all(change.initial for change in world.sink.changes)
    assert world.synced == [PODS]
    assert world.reflector.has_synced
    assert world.queries[-1]["resourceVersion"] == "7"


def test_the_watch_starts_at_the_version_of_the_list() -> None:
    world = run(listed(7, pod("a", 3)), field_selector="status.phase!=Failed")
    query = world.queries[1]
    assert 300 <= int(query.pop("timeoutSeconds")) <= 600
    assert query == {
        "watch": True,
        "allowWatchBookmarks": True,
        "fieldSelector": "status.phase!=Failed",
        "resourceVersion": "7",
    }
    assert world.queries[0]["fieldSelector"] == "status.phase!=Failed"


def test_pages_are_followed() -> None:
    world = run(
        listed(7, pod("a", 3), more="t1"), listed(7, pod("b", 4), more="t2"), listed(7, pod("c", 5))
    )
    assert world.queries[1] == {"limit": 500, "continue": "t1"}
    assert world.queries[2] == {"limit": 500, "continue": "t2"}
    assert sorted(world.sink.replayed()) == ["ns/a", "ns/b", "ns/c"]
    assert world.queries[3]["resourceVersion"] == "7"
    assert world.synced == [PODS]


def test_after_an_expired_page_all_items_are_listed_at_once() -> None:
    world = run(
        listed(7, pod("a", 3), pod("b", 4), more="t1"),
        expired(),
        listed(9, pod("a", 3), pod("c", 8)),
    )
    assert world.queries[2] == {"resourceVersion": "0"}
    # Objects of the first page are not repeated; deleted ones are reported.
    assert world.sink.summary == [
        ("ADDED", "ns/a"),
        ("ADDED", "ns/b"),
        ("ADDED", "ns/c"),
        ("DELETED", "ns/b"),
    ]
    assert world.queries[3]["resourceVersion"] == "9"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(expired(), id="a version that is too old"),
        pytest.param(
            rejected(
                504,
                "Timeout",
                causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large"}],
            ),
            id="a version that is too new",
        ),
    ],
)
def test_an_unavailable_version_is_omitted(answer: Answer) -> None:
    world = run(
        listed(7, pod("a", 3)), expired(), answer, listed(4, pod("a", 2, "other")), verbosity=4
    )
    relist, again, watch = world.queries[2:]
    assert relist == {"resourceVersion": "7"}
    assert again == {}
    assert watch["resourceVersion"] == "4"
    assert world.sink.summary == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/a")]


def test_a_server_that_paginates_version_0_gets_page_requests_later() -> None:
    world = run(
        listed(7, pod("a", 3), more="t"), listed(7, pod("b", 3)), expired(), listed(9, pod("a", 3))
    )
    assert world.queries[3] == {"resourceVersion": "7", "limit": 500}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 0])
def test_changes_do_not_depend_on_the_chunks(size: int) -> None:
    pods = [
        pod(
            f"p{number}",
            number + 1,
            volumes=[{"name": '},{"metadata":{'}, {"name": "]}"}],
            containers=[{"name": "c", "image": "é" * 20}, {"name": "d"}],
        )
        for number in range(20)
    ]
    world = run(listed(30, *pods, size=size))
    assert [change.key for change in world.sink.changes] == [
        f"ns/p{number}" for number in range(20)
    ]
    volumes = world.sink.changes[3].object.spec.volumes
    assert [volume.name for volume in volumes] == ['},{"metadata":{', "]}"]


@pytest.mark.parametrize("size", [1, 50, 0])
def test_metadata_after_the_items(size: int) -> None:
    document = {
        "apiVersion": "v1",
        "items": [pod("a", 1), pod("b", 2)],
        "kind": "PodList",
        "metadata": {"resourceVersion": "5"},
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    world = run(Answer(cut(data, size)))
    assert sorted(world.sink.replayed()) == ["ns/a", "ns/b"]
    assert world.queries[1]["resourceVersion"] == "5"


@pytest.mark.parametrize("items", ["[]", "null", "[ ]"])
def test_an_empty_list(items: str) -> None:
    body = f'{{"kind":"PodList","metadata":{{"resourceVersion":"5"}},"items":{items}}}'
    world = run(Answer([body.encode()]))
    assert world.sink.changes == []
    assert world.synced == [PODS]


def test_a_list_cut_anywhere_is_repeated_without_duplicates() -> None:
    pods = [pod(f"p{number}", number + 1) for number in range(6)]
    body = list_body(30, *pods)
    for place in range(1, len(body) - 1, 5):
        broken = Answer([body[:place]], TransportError("EOF", is_reset=True))
        world = run(broken, listed(31, *pods[1:]))
        assert sorted(world.sink.replayed()) == [f"ns/p{number}" for number in range(1, 6)]
        assert world.synced == [PODS]
        # The next list may not be older than the reported objects.
        count = world.server.reported_before[1]
        assert world.queries[1]["resourceVersion"] == str(count)


def test_a_truncated_list_is_an_error() -> None:
    body = list_body(30, pod("a", 1), pod("b", 2))
    world = run(Answer([body[:-8]]), listed(31, pod("a", 1), pod("b", 2)))
    assert len(world.queries) == 3
    assert len(world.sink.replayed()) == 2
    assert "unable to understand list result" in world.log.getvalue()


def test_nulls_are_accepted() -> None:
    document = pod("a", 1, containers=None, nodeName=None)
    world = run(listed(3, document))
    assert world.sink.changes[0].object.spec.containers == ()


def test_an_undecodable_object_is_logged_and_skipped() -> None:
    world = run(listed(3, pod("a", 1, containers="what"), pod("b", 2)))
    assert world.sink.summary == [("ADDED", "ns/b")]
    assert "Unable to understand watch event" in world.log.getvalue()
    assert 'name="a"' in world.log.getvalue()


def test_a_kind_without_a_struct_is_decoded_into_a_dict() -> None:
    body = list_body(3, {"apiVersion": "example.com/v1", "kind": "Widget", **pod("a", 1, size=3)})
    world = run(Answer([body]), decode=dict, resource=WIDGETS)
    (change,) = world.sink.changes
    assert change.object["spec"] == {"size": 3}
    assert (change.key, change.uid) == ("ns/a", "uid-a")


def test_json_is_kept_for_selected_objects() -> None:
    bound, waiting = pod("a", 1, nodeName="n"), pod("b", 2)
    world = run(listed(3, bound, waiting, size=40), keep_raw=lambda obj: not obj.spec.node_name)
    kept = {change.key: change.raw for change in world.sink.changes}
    assert kept["ns/a"] == b""
    assert json.loads(kept["ns/b"]) == waiting
    assert type(kept["ns/b"]) is bytes
