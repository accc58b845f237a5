import json
from typing import Any

import pytest

from kubesched.cluster.apiserver.crd.custom_kinds import CustomKinds
from kubesched.cluster.apiserver.http.openapi import OpenApi
from tests.unit.cluster.apiserver.crd.server import Server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/ex.io/v1/namespaces/default/things"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def a_definition(**version: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**first, **version}],
        },
    }


def a_thing(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": name}, **more}


@pytest.fixture
def server() -> Server:
    server = Server()
    assert server.request("POST", DEFINITIONS, a_definition())[0] == 201
    return server


def test_discovery_and_openapi_come_and_go_with_the_definition(server: Server) -> None:
    found = server.discovery.document(["apis", "ex.io", "v1"], "")
    assert found is not None
    assert found[0]["resources"][0]["name"] == "things"
    aggregated = server.discovery.document(["apis"], AGGREGATED)
    assert aggregated is not None
    assert "ex.io" in [item["metadata"]["name"] for item in aggregated[0]["items"]]
    document = json.loads(server.openapi.respond("/openapi/v3/apis/ex.io/v1", "").body)
    assert "io.ex.v1.Thing" in document["components"]["schemas"]
    assert "/apis/ex.io/v1/namespaces/{namespace}/things/{name}" in document["paths"]

    server.request("DELETE", f"{DEFINITIONS}/things.ex.io")

    assert server.discovery.document(["apis", "ex.io", "v1"], "") is None
    assert server.openapi.respond("/openapi/v3/apis/ex.io/v1", "").status == 404


def test_instances_end_with_their_definition(server: Server) -> None:
    server.request("POST", THINGS, a_thing())

    code, answer, _ = server.request("DELETE", f"{DEFINITIONS}/things.ex.io")

    assert code == 200
    assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert answer["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
    assert server.request("GET", f"{DEFINITIONS}/things.ex.io")[0] == 404
    assert server.request("GET", f"{THINGS}/a")[0] == 404
    assert server.request("POST", DEFINITIONS, a_definition())[0] == 201
    assert server.request("GET", THINGS)[1]["items"] == []


def test_a_definition_waits_for_instances_with_finalizers(server: Server) -> None:
    thing = a_thing()
    thing["metadata"]["finalizers"] = ["ex.io/hold"]
    server.request("POST", THINGS, thing)
    server.request("DELETE", f"{DEFINITIONS}/things.ex.io")

    code, waiting, _ = server.request("GET", f"{DEFINITIONS}/things.ex.io")
    assert code == 200
    assert waiting["status"]["conditions"][-1]["reason"] == "InstanceDeletionInProgress"
    assert server.request("GET", f"{THINGS}/a")[1]["metadata"]["deletionTimestamp"]

    released = {"metadata": {"finalizers": None}}
    server.request("PATCH", f"{THINGS}/a", released, "application/merge-patch+json")

    assert server.request("GET", f"{DEFINITIONS}/things.ex.io")[0] == 404


def test_a_restarted_server_serves_defined_kinds(server: Server) -> None:
    server.request("POST", THINGS, a_thing())
    server.context.registry.remove("ex.io", "v1", "things")
    assert server.request("GET", f"{THINGS}/a")[0] == 404

    CustomKinds(server.context, OpenApi()).load()

    assert server.request("GET", f"{THINGS}/a")[0] == 200


def test_a_default_shows_in_objects_stored_before_it(server: Server) -> None:
    server.request("POST", THINGS, a_thing(spec={}))
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
        },
    }
    version = a_definition(schema={"openAPIV3Schema": schema})["spec"]["versions"]
    path = f"{DEFINITIONS}/things.ex.io"
    code, _, _ = server.request(
        "PATCH", path, {"spec": {"versions": version}}, "application/merge-patch+json"
    )

    assert code == 200
    assert server.request("GET", f"{THINGS}/a")[1]["spec"] == {"a": "x"}
    assert server.request("GET", THINGS)[1]["items"][0]["spec"] == {"a": "x"}


def test_a_version_that_is_not_served_is_not_found() -> None:
    server = Server()
    assert server.request("POST", DEFINITIONS, a_definition(served=False))[0] == 201

    assert server.request("GET", THINGS)[0] == 404


def test_selectable_fields_select() -> None:
    server = Server()
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
    }
    definition = a_definition(
        schema={"openAPIV3Schema": schema}, selectableFields=[{"jsonPath": ".spec.color"}]
    )
    assert server.request("POST", DEFINITIONS, definition)[0] == 201
    for color in ("red", "blue"):
        server.request("POST", THINGS, a_thing(color, spec={"color": color}))

    _, found, _ = server.request("GET", f"{THINGS}?fieldSelector=spec.color=red")

    assert [item["metadata"]["name"] for item in found["items"]] == ["red"]


def test_a_wrong_value_may_stay_if_it_was_wrong_before(server: Server) -> None:
    loose = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    short = {"type": "string", "maxLength": 1}
    strict = {"type": "object", "properties": {"a": short, "b": {"type": "string"}}}
    path = f"{DEFINITIONS}/things.ex.io"

    def redefine(spec: dict[str, Any]) -> None:
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        versions = a_definition(schema=schema)["spec"]["versions"]
        change = {"spec": {"versions": versions}}
        assert server.request("PATCH", path, change, "application/merge-patch+json")[0] == 200

    redefine(loose)
    assert server.request("POST", THINGS, a_thing(spec={"a": "long"}))[0] == 201
    redefine(strict)
    merge = "application/merge-patch+json"

    assert server.request("PATCH", f"{THINGS}/a", {"spec": {"b": "x"}}, merge)[0] == 200
    assert server.request("PATCH", f"{THINGS}/a", {"spec": {"a": "longer"}}, merge)[0] == 422
