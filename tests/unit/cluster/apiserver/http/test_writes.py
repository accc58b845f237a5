"""Creating and changing: metadata, versions, generations, dry runs."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.apiserver.errors import MODIFIED, ApiError
from tests.unit.cluster.apiserver.http.worlds import NOW, THINGS, World

LEAVES = "/apis/example.com/v1/leaves"
RUNS = "/apis/example.com/v1/namespaces/one/runs"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def world() -> World:
    return World()


def rejection(world: World, *request: Any, **headers: str) -> ApiError:
    with pytest.raises(ApiError) as rejected:
        world(*request, **headers)
    return rejected.value


def test_fields_of_a_new_object(world: World) -> None:
    made = world.make("a", status={"x": 1}, spec={"y": 1})
    metadata = made["metadata"]
    assert (made["kind"], made["apiVersion"]) == ("Thing", "example.com/v1")
    assert (metadata["namespace"], metadata["creationTimestamp"]) == ("one", NOW)
    assert (metadata["generation"], metadata["resourceVersion"]) == (1, "2")
    assert len(metadata["uid"]) == 36
    assert metadata["uid"][14] == "4"
    assert "status" not in made
    assert world("GET", f"{THINGS}/a") == made


def test_generated_names_differ(world: World) -> None:
    made = [world("POST", THINGS, {"metadata": {"generateName": "a-"}}) for _ in range(20)]
    names = {obj["metadata"]["name"] for obj in made}
    assert len(names) == 20
    assert all(len(name) == 7 and name.startswith("a-") for name in names)


def test_long_generated_names_are_cut(world: World) -> None:
    made = world("POST", THINGS, {"metadata": {"generateName": "x" * 80}})
    assert len(made["metadata"]["name"]) == 63


def test_a_taken_name(world: World) -> None:
    world.make("a")
    error = rejection(world, "POST", THINGS, {"metadata": {"name": "a"}})
    assert (error.code, error.message) == (409, 'things.example.com "a" already exists')


def test_creating_while_the_old_object_is_being_deleted(world: World) -> None:
    world.make("a", metadata={"finalizers": ["example.com/x"]})
    world("DELETE", f"{THINGS}/a")
    error = rejection(world, "POST", THINGS, {"metadata": {"name": "a"}})
    assert error.message == 'object is being deleted: things.example.com "a" already exists'


def test_a_version_on_a_new_object(world: World) -> None:
    error = rejection(world, "POST", THINGS, {"metadata": {"name": "a", "resourceVersion": "5"}})
    assert error.status["message"] == "resourceVersion should not be set on objects to be created"
    assert error.code == 500
    assert "reason" not in error.status


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must '),
        ({"name": "a", "labels": {"a b": "c"}}, 'metadata.labels: Invalid value: "a b": name part'),
        ({"name": "a", "labels": {"a": "c d"}}, 'metadata.labels: Invalid value: "c d": a valid'),
        ({"name": "a", "annotations": {"/": ""}}, 'metadata.annotations: Invalid value: "/": '),
        ({"name": "a", "finalizers": ["x y"]}, 'metadata.finalizers: Invalid value: "x y": '),
        ({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n"}]},
         'metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
        ({"name": "a", "annotations": {"a": "x" * 262144}},
         "metadata.annotations: Too long: may not be more than 262144 bytes"),
    ],
)  # fmt: skip
def test_metadata_that_is_rejected(world: World, metadata: dict[str, Any], message: str) -> None:
    error = rejection(world, "POST", THINGS, {"metadata": metadata})
    assert error.code == 422
    assert message in error.message


def test_another_namespace_in_the_body(world: World) -> None:
    error = rejection(world, "POST", THINGS, {"metadata": {"name": "a", "namespace": "two"}})
    assert (error.code, error.reason) == (400, "BadRequest")


def test_a_namespace_on_a_cluster_scoped_object_is_dropped(world: World) -> None:
    made = world("POST", LEAVES, {"metadata": {"name": "a", "namespace": "two"}})
    assert "namespace" not in made["metadata"]


def test_owner_references_that_occur_twice(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
    body = {"metadata": {"name": "a", "ownerReferences": [owner, dict(owner)]}}
    resource_request = world.request("POST", THINGS, body)
    from kubesched.cluster.apiserver.http.dispatch import run  # noqa: PLC0415

    run(world.context, resource_request)
    assert len(resource_request.warnings) == 1
    assert resource_request.warnings[0].endswith("duplicate UID(s) observed: u")
    assert world("GET", f"{THINGS}/a")["metadata"]["ownerReferences"] == [owner]


def test_the_generation_changes_with_the_spec(world: World) -> None:
    world.make("a", spec={"x": 1})
    path = f"{THINGS}/a"
    assert world.patch(path, {"spec": {"x": 2}})["metadata"]["generation"] == 2
    assert world.patch(path, {"metadata": {"labels": {"l": "v"}}})["metadata"]["generation"] == 2
    assert world.patch(f"{path}/status", {"status": {"s": 1}})["metadata"]["generation"] == 2
    assert world.patch(path, {"metadata": {"generation": 9}})["metadata"]["generation"] == 2


def test_status_and_spec_are_written_separately(world: World) -> None:
    world.make("a", spec={"x": 1})
    path = f"{THINGS}/a"
    assert "status" not in world.patch(path, {"status": {"s": 1}})
    found = world.patch(f"{path}/status", {"status": {"s": 1}, "spec": {"x": 2}})
    assert (found["status"], found["spec"]) == ({"s": 1}, {"x": 1})
    assert world.patch(path, {"spec": {"x": 3}})["status"] == {"s": 1}


def test_versions_must_match(world: World) -> None:
    made = world.make("a")
    path = f"{THINGS}/a"
    world("PUT", path, {**made, "spec": {"x": 1}})
    error = rejection(world, "PUT", path, {**made, "spec": {"x": 2}})
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message.endswith(MODIFIED)


def test_a_version_may_be_omitted_unless_the_kind_requires_it(world: World) -> None:
    world.make("a")
    found = world("PUT", f"{THINGS}/a", {"metadata": {"name": "a"}, "spec": {"x": 2}})
    assert found["spec"] == {"x": 2}
    world("POST", LEAVES, {"metadata": {"name": "a"}})
    error = rejection(world, "PUT", f"{LEAVES}/a", {"metadata": {"name": "a"}, "x": 1})
    expected = (
        'leaves.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )
    assert (error.code, error.message) == (422, expected)


def test_another_uid(world: World) -> None:
    made = world.make("a")
    body = {**made, "metadata": {**made["metadata"], "uid": "other"}}
    error = rejection(world, "PUT", f"{THINGS}/a", body)
    assert error.code == 409
    assert "Precondition failed: UID in precondition: other, UID in object meta:" in error.message


def test_a_write_without_a_change_keeps_the_version(world: World) -> None:
    made = world.make("a", spec={"x": 1, "y": 2})
    reordered = {"spec": {"y": 2, "x": 1}, **made}
    assert world("PUT", f"{THINGS}/a", reordered)["metadata"]["resourceVersion"] == "2"
    assert world.context.store.version == 2


def test_true_is_not_equal_to_one(world: World) -> None:
    world.make("a", spec={"x": 1})
    found = world.patch(f"{THINGS}/a", {"spec": {"x": True}})
    assert found["metadata"]["resourceVersion"] == "3"


@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "deletionTimestamp"])
def test_fields_that_a_patch_cannot_change(world: World, field: str) -> None:
    made = world.make("a")
    body = {"metadata": {field: "2020-01-01T00:00:00Z"}}
    if field == "creationTimestamp":
        assert world.patch(f"{THINGS}/a", body)["metadata"] == made["metadata"]
        return
    with pytest.raises(ApiError) as rejected:
        world.patch(f"{THINGS}/a", body)
    assert rejected.value.code == 422
    assert f"metadata.{field}: Invalid value" in rejected.value.message


def test_an_absent_object(world: World) -> None:
    assert rejection(world, "GET", f"{THINGS}/x").code == 404
    assert rejection(world, "PUT", f"{THINGS}/x", {"metadata": {"name": "x"}}).code == 404
    with pytest.raises(ApiError) as rejected:
        world.patch(f"{THINGS}/x", {})
    assert rejected.value.message == 'things.example.com "x" not found'


def test_an_update_creates_where_the_kind_allows(world: World) -> None:
    answer = world.answer("PUT", f"{RUNS}/x", {"metadata": {"name": "x"}})
    assert answer.code == 201
    assert world("GET", f"{RUNS}/x")["metadata"]["generation"] == 1


def test_applying_creates_and_changes(world: World) -> None:
    body = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"x": 1},
    }
    url = f"{THINGS}/a?fieldManager=me"
    assert world.answer("PATCH", url, body, Content_Type=APPLY).code == 201
    found = world("PATCH", url, {**body, "spec": {"y": 1}}, Content_Type=APPLY)
    assert found["spec"] == {"y": 1}
    owner = found["metadata"]["managedFields"][0]
    assert (owner["manager"], owner["operation"]) == ("me", "Apply")
    assert rejection(world, "PATCH", f"{THINGS}/a", body, Content_Type=APPLY).code == 422


def test_dry_runs_store_nothing(world: World) -> None:
    assert (
        "resourceVersion"
        not in world("POST", f"{THINGS}?dryRun=All", {"metadata": {"name": "a"}})["metadata"]
    )
    assert rejection(world, "GET", f"{THINGS}/a").code == 404
    world.make("a")
    assert world.patch(f"{THINGS}/a?dryRun=All", {"spec": {"x": 1}})["spec"] == {"x": 1}
    world("DELETE", f"{THINGS}/a?dryRun=All")
    assert "spec" not in world("GET", f"{THINGS}/a")
    assert world.context.store.version == 2
    error = rejection(world, "POST", f"{THINGS}?dryRun=x", {"metadata": {"name": "b"}})
    assert 'dryRun: Unsupported value: ["x"]: supported values: "All"' in error.message


def test_the_scale_of_an_object(world: World) -> None:
    world.make("a", spec={"replicas": 2, "selector": {"matchLabels": {"b": "c"}}})
    path = f"{THINGS}/a/scale"
    shown = world("GET", path)
    assert (shown["kind"], shown["spec"], shown["status"]) == (
        "Scale", {"replicas": 2}, {"replicas": 0, "selector": "b=c"},
    )  # fmt: skip
    assert world.patch(path, {"spec": {"replicas": 5}})["spec"] == {"replicas": 5}
    assert world("GET", f"{THINGS}/a")["spec"]["replicas"] == 5
    stale = {**shown, "spec": {"replicas": 1}}
    assert rejection(world, "PUT", path, stale).code == 409


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", f"{THINGS}/a"), ("PUT", THINGS), ("PATCH", THINGS), ("DELETE", f"{THINGS}/a/status"),
     ("POST", "/apis/example.com/v1/things")],
)  # fmt: skip
def test_methods_that_paths_do_not_have(world: World, method: str, path: str) -> None:
    error = rejection(world, method, path, {"metadata": {"name": "a"}})
    assert (error.code, error.status["details"]) == (405, {})


def test_a_patch_of_no_known_type(world: World) -> None:
    world.make("a")
    error = rejection(world, "PATCH", f"{THINGS}/a", {}, Content_Type="application/json")
    assert (error.code, error.message) == (415, "415: Unsupported Media Type")
