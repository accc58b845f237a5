"""Entries of managedFields through creations and updates."""

import copy
from typing import Any

import pytest

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.patch.managed_fields import (
    Manager,
    keep_times,
    track_create,
    track_update,
)
from kubesched.cluster.apiserver.patch.reset_fields import reset_fields
from tests.unit.cluster.apiserver.patch.keyed import KEYED

POD = schema_for("", "v1", "Pod")
MAP = schema_for("", "v1", "ConfigMap")


def _at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def _by(name: str, second: int = 0, **rest: Any) -> Manager:
    return Manager(name, "Update", "v1", _at(second), **rest)


def _map(**data: str) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _created(**data: str) -> dict[str, Any]:
    document = _map(**data)
    track_create(MAP, document, _by("a"))
    return document


def _owners(document: dict[str, Any]) -> dict[str, Any]:
    return {field["manager"]: field["fieldsV1"] for field in document["metadata"]["managedFields"]}


def test_a_creation_owns_all_but_names() -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "resources": {}, "ports": [{"containerPort": 80}]}
            ],
            "tolerations": [{"key": "k"}],
            "securityContext": {},
        },
        "status": {"phase": "Pending"},
    }

    track_create(POD, pod, _by("a", reset_fields=reset_fields("", "pods")))

    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    container: dict[str, Any] = {
        ".": {},
        "f:name": {},
        "f:image": {},
        "f:resources": {},
        "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}},
    }
    assert pod["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _at(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:labels": {".": {}, "f:a": {}},
                    "f:finalizers": {".": {}, 'v:"x/y"': {}},
                },
                "f:spec": {
                    # No `.` here: a pod always has containers, if only null.
                    "f:containers": {'k:{"name":"c"}': container},
                    "f:tolerations": {},
                    "f:securityContext": {},
                },
            },
        }
    ]


def test_an_update_owns_the_fields_it_changes() -> None:
    old = _created(x="1", y="1")
    new = copy.deepcopy(old)
    new["data"] = {"x": "2", "z": "1"}

    track_update(MAP, old, new, _by("b", 1))

    assert _owners(new) == {
        "a": {"f:data": {".": {}}} | {"f:data": {}},
        "b": {"f:data": {"f:x": {}, "f:z": {}}},
    }


def test_an_update_without_change_leaves_entries_alone() -> None:
    old = _created(x="1")
    new = copy.deepcopy(old)

    track_update(MAP, old, new, _by("b", 1))

    assert new == old


def test_a_second_update_of_a_manager_joins_its_first_and_moves_its_time() -> None:
    old = _created(x="1")
    new = copy.deepcopy(old)
    new["data"]["y"] = "1"

    track_update(MAP, old, new, _by("a", 5))

    (entry,) = new["metadata"]["managedFields"]
    assert entry["time"] == _at(5)
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:x": {}, "f:y": {}}}


def test_entries_differ_by_subresource_and_are_ordered_by_time() -> None:
    old = _created(x="1")
    new = copy.deepcopy(old)
    new["data"]["y"] = "1"

    track_update(MAP, old, new, _by("a", 0, subresource="status"))

    assert [field.get("subresource") for field in new["metadata"]["managedFields"]] == [
        None,
        "status",
    ]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_an_empty_list_removes_all_entries(sent: list[Any]) -> None:
    old = _created(x="1")
    new = _map(x="1", y="2")
    new["metadata"]["managedFields"] = sent

    track_update(MAP, old, new, _by("b", 1))

    assert "managedFields" not in new["metadata"]


def test_invalid_or_missing_entries_are_taken_from_the_live_object() -> None:
    old = _created(x="1")
    for sent in (None, [{"manager": "b", "operation": "Frob"}]):
        new = _map(x="1")
        if sent is not None:
            new["metadata"]["managedFields"] = sent

        track_update(MAP, old, new, _by("b", 1))

        assert new["metadata"]["managedFields"] == old["metadata"]["managedFields"]


def test_an_object_without_entries_stays_without_them() -> None:
    old, new = _map(x="1"), _map(x="2")

    track_update(MAP, old, new, _by("b", 1))

    assert "managedFields" not in new["metadata"]


def test_the_eleventh_updater_merges_the_two_oldest() -> None:
    document = _created(k0="0")
    for second in range(1, 11):
        old = document
        document = copy.deepcopy(old)
        document["data"][f"k{second}"] = "0"
        track_update(MAP, old, document, _by(f"m{second:02}", second))

    owners = _owners(document)
    assert len(owners) == 10
    assert owners["ancient-changes"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}}}
    (ancient,) = [
        field
        for field in document["metadata"]["managedFields"]
        if field["manager"] == "ancient-changes"
    ]
    assert ancient["time"] == _at(1)


def test_reset_fields_have_no_manager() -> None:
    old = {**_map(), "kind": "Pod", "status": {"phase": "Pending"}, "spec": {"hostname": "a"}}
    track_create(POD, old, _by("a"))
    new = copy.deepcopy(old)
    new["status"]["phase"] = "Running"
    new["spec"]["hostname"] = "b"

    track_update(POD, old, new, _by("b", 1, reset_fields=reset_fields("", "pods")))

    assert _owners(new)["b"] == {"f:spec": {"f:hostname": {}}}
    assert _owners(new)["a"]["f:status"] == {"f:phase": {}}


def test_lists_with_duplicate_keys_end_the_tracking() -> None:
    old = {**_map(), "kind": "Pod", "spec": {"containers": [{"name": "a"}]}}
    track_create(KEYED, old, _by("a"))
    new = copy.deepcopy(old)
    new["spec"]["containers"] = [{}]

    track_update(KEYED, old, new, _by("b", 1))

    assert "managedFields" not in new["metadata"]


def test_times_move_only_with_something_else() -> None:
    old = _created(x="1")
    new = copy.deepcopy(old)
    new["metadata"]["managedFields"][0]["time"] = _at(9)
    changed = copy.deepcopy(new)
    changed["data"]["x"] = "2"

    keep_times(old, new)
    keep_times(old, changed)

    assert new == old
    assert changed["metadata"]["managedFields"][0]["time"] == _at(9)


def test_kinds_without_a_schema_are_tracked_by_their_content() -> None:
    document: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"a": {"b": [1]}, "e": {}}}

    track_create(None, document, _by("a"))

    assert _owners(document)["a"] == {"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:e": {}}}
