"""Server-side apply: merging, ownership, conflicts."""

import copy
import json
from typing import Any

import pytest

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.apply import LAST_APPLIED, apply
from kubesched.cluster.apiserver.patch.managed_fields import Manager, track_create, track_update
from tests.unit.cluster.apiserver.patch.keyed import KEYED

MAP = schema_for("", "v1", "ConfigMap")
POD = schema_for("", "v1", "Pod")
SERVICE = schema_for("", "v1", "Service")


def _by(name: str, second: int = 0) -> Manager:
    return Manager(name, "Apply", "v1", f"2026-01-01T00:00:{second:02}Z")


def _map(kind: str = "ConfigMap", **rest: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "default"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


def _owners(document: dict[str, Any]) -> dict[str, Any]:
    return {field["manager"]: field["fieldsV1"] for field in document["metadata"]["managedFields"]}


def _applied(*steps: tuple[str, dict[str, Any]], force: bool = False) -> dict[str, Any]:
    document: dict[str, Any] | None = None
    for second, (manager, data) in enumerate(steps):
        document = apply(MAP, document, _map(data=data), _by(manager, second), force=force)
    assert document is not None
    return document


def _status(error: ApiError) -> tuple[int, str]:
    return error.code, error.message


def test_fields_that_are_no_longer_applied_are_removed() -> None:
    document = _applied(("a", {"x": "1", "y": "1"}), ("a", {"x": "2"}))

    assert document["data"] == {"x": "2"}
    assert _owners(document) == {"a": {"f:data": {"f:x": {}}}}


def test_fields_that_another_manager_applies_stay() -> None:
    document = _applied(("a", {"x": "1", "y": "1"}), ("b", {"y": "1"}), ("a", {"x": "1"}))

    assert document["data"] == {"x": "1", "y": "1"}
    assert _owners(document) == {"a": {"f:data": {"f:x": {}}}, "b": {"f:data": {"f:y": {}}}}


def test_the_last_of_a_map_leaves_null() -> None:
    # Conforming the result removes it; until then it equals upstream's.
    assert _applied(("a", {"x": "1"}), ("a", {}))["data"] is None


def test_applying_the_same_changes_no_time() -> None:
    document = _applied(("a", {"x": "1"}), ("a", {"x": "1"}))

    assert document["metadata"]["managedFields"][0]["time"] == "2026-01-01T00:00:00Z"


def test_a_new_owner_of_unchanged_fields_has_no_time() -> None:
    document = _applied(("a", {"x": "1"}), ("b", {"x": "1"}))

    times = {field["manager"]: field.get("time") for field in document["metadata"]["managedFields"]}
    assert times == {"a": "2026-01-01T00:00:00Z", "b": None}


def test_another_value_of_anothers_field_is_a_conflict() -> None:
    with pytest.raises(ApiError) as caught:
        _applied(("a", {"x": "1"}), ("b", {"x": "2"}))

    assert caught.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "a": .data.x',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "a"',
                    "field": ".data.x",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = _map(data={"x": "1", "y": "1", "z": "1"})
    track_create(MAP, live, Manager("u", "Update", "v1", ""))
    new = copy.deepcopy(live)
    new["data"]["z"] = "2"
    track_update(MAP, live, new, Manager("s", "Update", "v1", "", "status"))

    with pytest.raises(ApiError) as caught:
        apply(MAP, new, _map(data={"x": "2", "y": "2", "z": "3"}), _by("a"), force=False)

    assert caught.value.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "s" with subresource "status" using v1:\n- .data.z\n'
        'conflicts with "u" using v1:\n- .data.x\n- .data.y'
    )


def test_force_takes_over() -> None:
    document = _applied(("a", {"x": "1"}), ("b", {"x": "2"}), force=True)

    assert document["data"] == {"x": "2"}
    assert _owners(document) == {"b": {"f:data": {"f:x": {}}}}


def test_untracked_fields_belong_to_before_first_apply() -> None:
    with pytest.raises(ApiError) as caught:
        apply(MAP, _map(data={"x": "1"}), _map(data={"x": "2"}), _by("a"), force=False)

    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.x'
    )


def test_elements_merge_by_all_keys_and_their_defaults() -> None:
    live = _map("Service", spec={"ports": [{"port": 80, "protocol": "TCP", "name": "a"}]})
    track_create(SERVICE, live, Manager("u", "Update", "v1", ""))
    ports = [{"port": 80, "protocol": "UDP", "name": "b"}, {"port": 80, "targetPort": 1}]

    document = apply(SERVICE, live, _map("Service", spec={"ports": ports}), _by("a"), force=False)

    assert document["spec"]["ports"] == [
        {"port": 80, "protocol": "UDP", "name": "b"},
        {"port": 80, "protocol": "TCP", "name": "a", "targetPort": 1},
    ]
    assert _owners(document)["a"] == {
        "f:spec": {
            "f:ports": {
                'k:{"port":80,"protocol":"UDP"}': {
                    ".": {},
                    "f:port": {},
                    "f:protocol": {},
                    "f:name": {},
                },
                'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:targetPort": {}},
            }
        }
    }


def test_sets_are_shared_element_by_element() -> None:
    first = _map()
    first["metadata"]["finalizers"] = ["x/a", "x/b"]
    second = _map()
    second["metadata"]["finalizers"] = ["x/c"]
    live = apply(MAP, None, first, _by("a"), force=False)
    live = apply(MAP, live, second, _by("b"), force=False)
    first["metadata"]["finalizers"] = ["x/b"]

    document = apply(MAP, live, first, _by("a"), force=False)

    assert document["metadata"]["finalizers"] == ["x/b", "x/c"]


def _bad(**rest: Any) -> dict[str, Any]:
    return _map("Pod", **rest)


@pytest.mark.parametrize(
    ("applied", "code", "message"),
    [
        pytest.param(
            {**_map(), "apiVersion": "v2"},
            400,
            "invalid object type: /v2, Kind=ConfigMap",
            id="another version",
        ),
        pytest.param(
            {**_bad(), "metadata": {"name": "x", "managedFields": []}},
            400,
            "metadata.managedFields must be nil",
            id="managedFields",
        ),
        pytest.param(
            _bad(spec={"bogus": 1}),
            500,
            "failed to create typed patch object (default/x; /v1, Kind=Pod): "
            ".spec.bogus: field not declared in schema",
            id="unknown field",
        ),
        pytest.param(
            _bad(spec={"hostname": 5}),
            500,
            "failed to create typed patch object (default/x; /v1, Kind=Pod): "
            ".spec.hostname: expected string, got &value.valueUnstructured{Value:5}",
            id="wrong type",
        ),
        pytest.param(
            _bad(spec={"containers": [{"name": "a"}, {"name": "a"}]}),
            500,
            "failed to create typed patch object (default/x; /v1, Kind=Pod): "
            '.spec.containers: duplicate entries for key [name="a"]',
            id="duplicate key",
        ),
    ],
)
def test_configuration_is_rejected(applied: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply(POD, None, applied, _by("a"), force=True)

    assert _status(caught.value) == (code, message)


def test_an_element_without_its_key_is_rejected() -> None:
    applied = _bad(spec={"containers": [{"image": "a"}]})

    with pytest.raises(ApiError) as caught:
        apply(KEYED, None, applied, _by("a"), force=True)

    code, message = _status(caught.value)
    assert code == 500
    assert message.endswith(
        ".spec.containers: element 0: associative list with keys has an element that omits all "
        'key fields ["name"] (and doesn\'t have default values for any key fields)'
    )


def _client_side(data: dict[str, str]) -> dict[str, Any]:
    """Return an object as `kubectl apply` on the client's side leaves it."""
    live = _map(data=data)
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(_map(data=data)) + "\n"}
    track_create(MAP, live, Manager("kubectl-client-side-apply", "Update", "v1", ""))
    return live


def test_kubectl_migrates_from_client_side_apply_without_conflict() -> None:
    applied = _map(data={"x": "2"})

    document = apply(MAP, _client_side({"x": "1"}), applied, _by("kubectl"), force=False)

    assert document["data"] == {"x": "2"}
    assert _owners(document)["kubectl"] == {"f:data": {"f:x": {}}}
    kept = document["metadata"]["annotations"][LAST_APPLIED]
    assert kept == (
        '{"apiVersion":"v1","data":{"x":"2"},"kind":"ConfigMap",'
        '"metadata":{"name":"x","namespace":"default"}}\n'
    )


def test_other_managers_and_later_changes_still_conflict() -> None:
    live = _client_side({"x": "1"})
    changed = copy.deepcopy(live)
    changed["data"]["x"] = "9"
    track_update(MAP, live, changed, Manager("u", "Update", "v1", ""))

    for start, manager in ((live, "helm"), (changed, "kubectl")):
        with pytest.raises(ApiError, match="1 conflict"):
            apply(MAP, start, _map(data={"x": "2"}), _by(manager), force=False)


def test_arguments_are_not_modified() -> None:
    live = _client_side({"x": "1"})
    applied = _map(data={"x": "2"}, immutable=None)
    before = copy.deepcopy((live, applied))

    apply(MAP, live, applied, _by("kubectl"), force=True)

    assert (live, applied) == before
