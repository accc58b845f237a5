"""Custom resources: serving, pruning, defaulting, validation, printing and deletion."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.launch.http import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    TABLE,
)
from kubesched.testing import Api
from tests.api.objects import make_things, name_of, version_of

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def thing(namespace: str, name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{namespace}.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_definition_is_established(api: Api, namespace: str) -> None:
    make_things(api, namespace)
    established = api.get(f"{DEFINITIONS}/things.{namespace}.example.com").must(200).json
    states = {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in established["status"]["conditions"]
    }
    assert states["NamesAccepted"] == ("True", "NoConflicts", "no conflicts found")
    assert states["Established"] == (
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    )
    assert established["status"]["acceptedNames"]["listKind"] == "ThingList"
    assert established["status"]["storedVersions"] == ["v1"]


def test_defaults_are_filled_in_and_unknown_fields_pruned(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    created = api.post(path, thing(namespace, unknown=1)).must(201).json
    assert created["spec"] == {"size": 3}
    assert created["metadata"]["generation"] == 1


def test_unknown_fields_cause_warnings_or_errors(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    warned = api.post(path, thing(namespace, unknown=1)).must(201)
    assert warned.warnings == ['unknown field "spec.unknown"']
    query = {"fieldValidation": "Strict"}
    rejected = api.post(path, thing(namespace, "b", unknown=1), query=query).must(400)
    assert rejected.message == (
        'Thing in version "v1" cannot be handled as a Thing: '
        'strict decoding error: unknown field "spec.unknown"'
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"size": 0},
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            id="too small",
        ),
        pytest.param(
            {"size": "big"},
            'spec.size: Invalid value: "string": spec.size in body must be of type integer: '
            '"string"',
            id="a wrong type",
        ),
        pytest.param(
            {"color": "green"},
            'spec.color: Unsupported value: "green": supported values: "red", "blue"',
            id="not one of some",
        ),
        pytest.param(
            {"parts": ["a", 5]},
            'spec.parts[1]: Invalid value: "integer": spec.parts[1] in body must be of type '
            'string: "integer"',
            id="a wrong element",
        ),
    ],
)
def test_values_are_validated(api: Api, namespace: str, spec: dict[str, Any], message: str) -> None:
    path = make_things(api, namespace)
    answer = api.post(path, thing(namespace, **spec)).must(422)
    assert answer.reason == "Invalid"
    kind = f'Thing.{namespace}.example.com "a" is invalid: '
    assert answer.message == kind + message


def test_instances_are_listed_and_watched(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    start = version_of(api.get(path).json)
    api.post(path, thing(namespace)).must(201)
    listed = api.get(path).must(200).json
    assert listed["kind"] == "ThingList"
    assert [name_of(one) for one in listed["items"]] == ["a"]
    assert listed["items"][0]["kind"] == "Thing"
    with api.watch(path, query={"resourceVersion": start}) as watch:
        assert watch.next()["object"]["spec"] == {"size": 3}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE_PATCH, {"spec": {"color": "red"}}),
        (JSON_PATCH, [{"op": "add", "path": "/spec/color", "value": "red"}]),
    ],
)
def test_instances_are_patched(api: Api, namespace: str, kind: str, patch: Any) -> None:
    path = make_things(api, namespace)
    api.post(path, thing(namespace)).must(201)
    patched = api.patch(f"{path}/a", patch, kind).must(200).json
    assert patched["spec"] == {"size": 3, "color": "red"}
    assert patched["metadata"]["generation"] == 2


def test_strategic_patches_are_not_for_instances(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    api.post(path, thing(namespace)).must(201)
    answer = api.patch(f"{path}/a", {}, STRATEGIC_MERGE_PATCH).must(415)
    assert answer.reason == "UnsupportedMediaType"


def test_instances_are_applied(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    created = api.apply(f"{path}/a", thing(namespace, color="red"), manager="m").must(201).json
    owned = created["metadata"]["managedFields"]
    assert [(one["manager"], one["operation"]) for one in owned] == [("m", "Apply")]
    assert owned[0]["fieldsV1"] == {"f:spec": {"f:color": {}}}
    conflict = api.apply(f"{path}/a", thing(namespace, color="blue"), manager="n").must(409)
    assert 'conflict with "m": .spec.color' in conflict.message


def test_an_apply_of_an_unknown_field(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    body = thing(namespace, nothing=1)
    query = {"fieldManager": "m"}
    answer = api.patch(f"{path}/a", body, APPLY_PATCH, query=query)
    assert (answer.code, ".spec.nothing: field not declared in schema" in answer.message) == (
        500,
        True,
    )


def test_without_status_subresource_status_is_like_any_field(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    body = {**thing(namespace), "status": {"ready": True}}
    assert api.post(path, body).must(201).json["status"] == {"ready": True}
    api.get(f"{path}/a/status").must(404)


def test_with_status_subresource_status_is_separate(api: Api, namespace: str) -> None:
    path = make_things(api, namespace, subresources={"status": {}})
    created = api.post(path, {**thing(namespace), "status": {"ready": True}}).must(201).json
    assert "status" not in created
    created["status"] = {"ready": True}
    created["spec"]["size"] = 5
    updated = api.put(f"{path}/a/status", created).must(200).json
    assert (updated["status"], updated["spec"]) == ({"ready": True}, {"size": 3})
    assert updated["metadata"]["generation"] == 1


def test_instances_are_scaled(api: Api, namespace: str) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    path = make_things(api, namespace, subresources={"status": {}, "scale": scale})
    api.post(path, thing(namespace, size=2)).must(201)
    response = api.get(f"{path}/a/scale").must(200).json
    assert (response["kind"], response["spec"], response["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0},
    )
    api.patch(f"{path}/a/scale", {"spec": {"replicas": 7}}, MERGE_PATCH).must(200)
    assert api.get(f"{path}/a").json["spec"]["size"] == 7


def test_additional_printer_columns(api: Api, namespace: str) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    path = make_things(api, namespace, additionalPrinterColumns=columns)
    api.post(path, thing(namespace, size=4, color="red")).must(201)
    table = api.get(path, accept=TABLE).must(200).json
    definitions = [
        (definition["name"], definition["type"], definition["priority"])
        for definition in table["columnDefinitions"]
    ]
    assert definitions == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Color", "string", 1),
        ("Age", "date", 0),
    ]
    assert table["rows"][0]["cells"][:3] == ["a", 4, "red"]


def test_default_printer_columns(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    api.post(path, thing(namespace)).must(201)
    table = api.get(path, accept=TABLE).must(200).json
    assert [definition["name"] for definition in table["columnDefinitions"]] == ["Name", "Age"]


def test_instances_are_discovered(api: Api, namespace: str) -> None:
    make_things(api, namespace)
    group = f"{namespace}.example.com"
    resources = api.get(f"/apis/{group}/v1").must(200).json["resources"]
    description = next(resource for resource in resources if resource["name"] == "things")
    assert description["kind"] == "Thing"
    assert description["shortNames"] == [f"th{namespace}"]
    assert description["singularName"] == "thing"
    assert set(description["verbs"]) == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip
    groups = api.get("/apis").must(200).json["groups"]
    assert group in [group["name"] for group in groups]


def test_a_name_taken_is_not_established(api: Api, namespace: str) -> None:
    make_things(api, namespace)
    group = f"{namespace}.example.com"
    other = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"others.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "others", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    api.post(DEFINITIONS, other).must(201)
    conditions: list[dict[str, Any]] = []
    for _ in range(200):
        document = api.get(f"{DEFINITIONS}/others.{group}").must(200).json
        conditions = document["status"].get("conditions") or []
        if len(conditions) >= 2:
            break
    states = {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in conditions
    }
    assert states["NamesAccepted"] == (
        "False",
        "ListKindConflict",
        '"ThingList" is already in use',
    )
    assert states["Established"][0] == "False"


def test_deleting_a_definition_deletes_its_instances(api: Api, namespace: str) -> None:
    path = make_things(api, namespace)
    api.post(path, thing(namespace)).must(201)
    api.delete(f"{DEFINITIONS}/things.{namespace}.example.com").must(200)
    code = 200
    for _ in range(2000):
        code = api.get(path).code
        if code == 404:
            break
    assert code == 404
    for _ in range(2000):
        code = api.get(f"{DEFINITIONS}/things.{namespace}.example.com").code
        if code == 404:
            break
    assert code == 404


def test_unknown_fields_can_be_kept(api: Api, namespace: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = make_things(api, namespace, schema={"openAPIV3Schema": schema})
    created = api.post(path, thing(namespace, anything={"goes": [1, "two", None]})).must(201).json
    assert created["spec"] == {"anything": {"goes": [1, "two", None]}}
