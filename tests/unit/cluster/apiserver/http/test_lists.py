"""Lists: pages, versions and continue tokens."""

from __future__ import annotations

import base64

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.verbs.list_options import decode_token, encode_token
from tests.unit.cluster.apiserver.http.worlds import THINGS, World


@pytest.fixture
def world() -> World:
    world = World()
    for index, name in enumerate("abcde"):
        world.make(name, metadata={"labels": {"odd": str(index % 2)}})
    return world


def names(document: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"]]


def test_a_whole_list(world: World) -> None:
    found = world("GET", THINGS)
    assert names(found) == list("abcde")
    assert (found["kind"], found["apiVersion"]) == ("ThingList", "example.com/v1")
    # Lists of custom kinds show that they do not continue.
    assert found["metadata"] == {"continue": "", "resourceVersion": "6"}


def test_pages_show_one_moment(world: World) -> None:
    first = world("GET", f"{THINGS}?limit=2")
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    world("DELETE", f"{THINGS}/c")
    world.make("bb")
    world.patch(f"{THINGS}/d", {"metadata": {"labels": {"new": "x"}}})
    second = world("GET", f"{THINGS}?limit=2&continue={first['metadata']['continue']}")
    assert names(second) == ["c", "d"]
    assert "new" not in second["items"][1]["metadata"]["labels"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = world("GET", f"{THINGS}?limit=2&continue={second['metadata']['continue']}")
    assert names(third) == ["e"]
    assert third["metadata"] == {"continue": "", "resourceVersion": "6"}


def test_pages_of_selected_objects_do_not_count_the_rest(world: World) -> None:
    first = world("GET", f"{THINGS}?limit=1&labelSelector=odd%3D1".replace("%3D", "="))
    assert names(first) == ["b"]
    assert "remainingItemCount" not in first["metadata"]


def test_a_list_can_continue_after_an_expired_page(world: World) -> None:
    token = world("GET", f"{THINGS}?limit=2")["metadata"]["continue"]
    world.make("bb")
    world.context.store.buckets["example.com/things"].history.compact(7)
    with pytest.raises(ApiError) as rejected:
        world("GET", f"{THINGS}?limit=2&continue={token}")
    assert (rejected.value.code, rejected.value.reason) == (410, "Expired")
    again = rejected.value.status["metadata"]["continue"]
    assert names(world("GET", f"{THINGS}?limit=2&continue={again}")) == ["bb", "c"]


def test_an_exact_version(world: World) -> None:
    world("DELETE", f"{THINGS}/a")
    found = world("GET", f"{THINGS}?resourceVersion=4&resourceVersionMatch=Exact")
    assert names(found) == ["a", "b", "c"]
    assert found["metadata"]["resourceVersion"] == "4"


def test_a_list_from_the_cache_has_no_pages(world: World) -> None:
    assert names(world("GET", f"{THINGS}?resourceVersion=0&limit=2")) == list("abcde")


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("resourceVersion=99", 504, "Timeout: Too large resource version: 99, current: 6"),
        ("resourceVersion=x", 400, ("invalid resource version: resourceVersion: Invalid value: "
         '"x": strconv.ParseUint: parsing "x": invalid syntax')),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersionMatch=Exact", 422, ('ListOptions.meta.k8s.io "" is invalid: '
         "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
         "resourceVersion is provided")),
        ("continue=eyJ2IjoieCJ9", 400, ("invalid continue token: continue key is not valid: "
         "server does not recognize this encoded version x")),
        ("fieldSelector=spec.x=1", 400, "field label not supported: spec.x"),
    ],
)  # fmt: skip
def test_rejections(world: World, query: str, code: int, message: str) -> None:
    with pytest.raises(ApiError) as rejected:
        world("GET", f"{THINGS}?{query}")
    assert (rejected.value.code, rejected.value.message) == (code, message)


def test_tokens_are_upstreams() -> None:
    token = encode_token(541, "kube-node-lease\0")
    # As kube-apiserver v1.36.4 wrote it.
    expected = (
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NTQxLCJzdGFydCI6Ii9rdWJlLW5vZGUtbGVhc2VcdTAwMDAifQ"
    )
    assert token == expected
    assert decode_token(token) == (541, "kube-node-lease\0")


@pytest.mark.parametrize("text", ["zzz", "!", "é", "W10", ""])
def test_foreign_continue_tokens_are_rejected(text: str) -> None:
    with pytest.raises(ApiError) as rejected:
        decode_token(text or base64.urlsafe_b64encode(b"5").decode())
    assert rejected.value.code == 400
