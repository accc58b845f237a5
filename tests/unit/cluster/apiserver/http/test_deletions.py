"""Deletion: immediate, with a grace period, with finalizers, of collections."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from tests.unit.cluster.apiserver.http.worlds import NOW, THINGS, World, events_of, types_and_names

RUNS = "/apis/example.com/v1/namespaces/one/runs"


@pytest.fixture
def world() -> World:
    return World()


def run(world: World, **metadata: Any) -> None:
    world("POST", RUNS, {"metadata": {"name": "a", **metadata}})


def rejection(world: World, path: str, options: Any) -> ApiError:
    with pytest.raises(ApiError) as rejected:
        world("DELETE", path, options)
    return rejected.value


def test_immediate_deletion(world: World) -> None:
    made = world.make("a")
    found = world("DELETE", f"{THINGS}/a")
    assert found["status"] == "Success"
    assert found["details"] == {
        "name": "a", "group": "example.com", "kind": "things", "uid": made["metadata"]["uid"],
    }  # fmt: skip
    assert rejection(world, f"{THINGS}/a", None).code == 404


def test_finalizers_delay_deletion(world: World) -> None:
    world.make("a", metadata={"finalizers": ["example.com/x", "example.com/y"]})
    found = world("DELETE", f"{THINGS}/a")["metadata"]
    assert (found["deletionTimestamp"], found["deletionGracePeriodSeconds"]) == (NOW, 0)
    assert found["generation"] == 2
    world.patch(f"{THINGS}/a", {"metadata": {"finalizers": ["example.com/y"]}})
    watcher = world.watch(f"{THINGS}?watch=1&resourceVersion=4")
    assert world.patch(f"{THINGS}/a", {"metadata": {"finalizers": None}})["kind"] == "Thing"
    assert types_and_names(watcher) == [("DELETED", "a")]
    assert rejection(world, f"{THINGS}/a", None).code == 404


def test_no_finalizer_joins_a_deletion(world: World) -> None:
    world.make("a", metadata={"finalizers": ["example.com/x"]})
    world("DELETE", f"{THINGS}/a")
    with pytest.raises(ApiError) as rejected:
        world.patch(f"{THINGS}/a", {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}})
    expected = (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being "
        'deleted, found new finalizers []string{"example.com/y"}'
    )
    assert expected in rejected.value.message


def test_deleting_again_changes_nothing(world: World) -> None:
    world.make("a", metadata={"finalizers": ["example.com/x"]})
    first = world("DELETE", f"{THINGS}/a")["metadata"]["resourceVersion"]
    world.clock.moved_s = 60
    assert world("DELETE", f"{THINGS}/a")["metadata"]["resourceVersion"] == first


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_propagation_policies(world: World, options: dict[str, Any], finalizers: list[str]) -> None:
    world.make("a")
    assert world("DELETE", f"{THINGS}/a", options)["metadata"]["finalizers"] == finalizers


def test_background_deletion_removes_foreground_finalizers(world: World) -> None:
    world.make("a", metadata={"finalizers": ["foregroundDeletion"]})
    assert (
        world("DELETE", f"{THINGS}/a", {"propagationPolicy": "Background"})["status"] == "Success"
    )


def test_the_deprecated_option_is_accepted_and_ignored(world: World) -> None:
    world.make("a", metadata={"finalizers": ["example.com/x"]})
    assert world.answer("DELETE", f"{THINGS}/a", {"orphanDependents": False}).code == 202


def test_the_grace_period(world: World) -> None:
    run(world)
    found = world("DELETE", f"{RUNS}/a")["metadata"]
    assert found["deletionGracePeriodSeconds"] == 30
    assert found["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert found["generation"] == 2
    again = world("DELETE", f"{RUNS}/a", {"gracePeriodSeconds": 60})["metadata"]
    assert again == found
    sooner = world("DELETE", f"{RUNS}/a", {"gracePeriodSeconds": 10})["metadata"]
    assert sooner["deletionTimestamp"] == "2023-11-14T22:13:30Z"
    world.clock.moved_s = 20
    late = world("DELETE", f"{RUNS}/a", {"gracePeriodSeconds": 5})["metadata"]
    assert (late["deletionGracePeriodSeconds"], late["deletionTimestamp"]) == (
        1, "2023-11-14T22:13:40Z",
    )  # fmt: skip
    assert world("DELETE", f"{RUNS}/a", {"gracePeriodSeconds": 0})["kind"] == "Run"
    assert rejection(world, f"{RUNS}/a", None).code == 404


def test_zero_grace_is_visible_before_the_object_is_gone(world: World) -> None:
    run(world)
    watcher = world.watch(f"{RUNS}?watch=1&resourceVersion=2")
    world("DELETE", f"{RUNS}/a?gracePeriodSeconds=0")
    found = events_of(watcher)
    assert [event["type"] for event in found] == ["MODIFIED", "DELETED"]
    assert found[1]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_grace_and_finalizers(world: World) -> None:
    run(world, finalizers=["example.com/x"])
    world("DELETE", f"{RUNS}/a", {"gracePeriodSeconds": 0})
    with pytest.raises(ApiError):
        world("POST", RUNS, {"metadata": {"name": "a"}})
    world.patch(f"{RUNS}/a", {"metadata": {"finalizers": []}})
    assert rejection(world, f"{RUNS}/a", None).code == 404


def test_while_grace_lasts_the_last_finalizer_does_not_end_it(world: World) -> None:
    run(world, finalizers=["example.com/x"])
    world("DELETE", f"{RUNS}/a")
    world.patch(f"{RUNS}/a", {"metadata": {"finalizers": []}})
    assert world("GET", f"{RUNS}/a")["metadata"]["deletionGracePeriodSeconds"] == 30


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"propagationPolicy": "Foo"}, 422, ('DeleteOptions.meta.k8s.io "" is invalid: '
         'propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", '
         '"Background", "Orphan", "nil"')),
        ({"preconditions": {"uid": "x"}}, 409, "the UID in the precondition (x) does not match"),
        ({"preconditions": {"resourceVersion": "9"}}, 409,
         ("the ResourceVersion in the precondition (9) does not match the ResourceVersion in "
          "record (2). The object might have been modified")),
        (b"zz", 400, "couldn't get version/kind; json parse error: invalid character 'z'"),
        ({"kind": "Pod", "apiVersion": "v1"}, 400, 'no kind "Pod" is registered for version "v1"'),
    ],
)  # fmt: skip
def test_options_that_are_rejected(world: World, options: Any, code: int, message: str) -> None:
    world.make("a")
    error = rejection(world, f"{THINGS}/a", options)
    assert error.code == code
    assert message in error.message


def test_deletion_of_a_collection(world: World) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        world.make(name, metadata={"labels": {"l": label}})
    found = world("DELETE", f"{THINGS}?labelSelector=l=x")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "c"]
    left = world("GET", THINGS)["items"]
    assert [item["metadata"]["name"] for item in left] == ["b"]
