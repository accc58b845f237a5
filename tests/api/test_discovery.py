"""Discovery in both forms, OpenAPI, version and health."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kubesched.testing import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
# Proxied to a kubelet or a service, which the embedded server does not have.
PASSED_ON = ("attach", "exec", "log", "portforward", "proxy")
DATA = Path(__file__).parent / "answers" / "resources.json"


def test_the_version(api: Api) -> None:
    version = api.get("/version").must(200).json
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.4")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/ping"])
def test_health(api: Api, path: str) -> None:
    assert api.get(path).must(200).text == "ok"


def test_health_in_detail(api: Api) -> None:
    text = api.get("/readyz", query={"verbose": True}).must(200).text
    assert "[+]ping ok" in text
    assert text.endswith("readyz check passed\n")


def test_metrics(api: Api) -> None:
    assert "# TYPE apiserver_request_total counter" in api.get("/metrics").must(200).text


def test_the_core_group(api: Api) -> None:
    document = api.get("/api").must(200).json
    assert document["kind"] == "APIVersions"
    assert document["versions"] == ["v1"]


def test_the_groups(api: Api) -> None:
    document = api.get("/apis").must(200).json
    assert document["kind"] == "APIGroupList"
    names = [group["name"] for group in document["groups"]]
    assert {"apps", "batch", "policy", "storage.k8s.io", "apiextensions.k8s.io"} <= set(names)
    apps = next(group for group in document["groups"] if group["name"] == "apps")
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


def test_one_group(api: Api) -> None:
    group = api.get("/apis/autoscaling").must(200).json
    assert group["kind"] == "APIGroup"
    assert [version["version"] for version in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_the_resources_of_the_core_group(api: Api) -> None:
    document = api.get("/api/v1").must(200).json
    assert (document["kind"], document["groupVersion"]) == ("APIResourceList", "v1")
    by_name = {resource["name"]: resource for resource in document["resources"]}
    pods = by_name["pods"]
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert pods["singularName"] == "pod"
    assert pods["namespaced"] is True
    assert pods["verbs"] == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert by_name["pods/binding"]["verbs"] == ["create"]
    assert by_name["pods/eviction"]["group"] == "policy"
    assert by_name["replicationcontrollers/scale"]["kind"] == "Scale"
    assert by_name["nodes"]["namespaced"] is False


def served(api: Api) -> dict[str, list[str]]:
    """Return verbs by group, version and resource, from the aggregated document."""
    verbs = {}
    for root in ("/api", "/apis"):
        document = api.get(root, accept=AGGREGATED).must(200).json
        assert document["kind"] == "APIGroupDiscoveryList"
        for group in document["items"]:
            name = group["metadata"].get("name", "")
            if name.endswith(".example.com"):  # defined by another test
                continue
            for version in group["versions"]:
                for resource in version.get("resources", []):
                    key = f"{name}/{version['version']}/{resource['resource']}"
                    verbs[key] = resource["verbs"]
                    for below in resource.get("subresources", []):
                        if below["subresource"] not in PASSED_ON:
                            verbs[f"{key}/{below['subresource']}"] = below["verbs"]
    return verbs


def test_everything_the_real_one_serves_is_served(api: Api, record: bool) -> None:
    verbs = served(api)
    if record:
        DATA.write_text(json.dumps(verbs, indent=0, sort_keys=True) + "\n")
    assert verbs == json.loads(DATA.read_text())


def test_the_aggregated_document_names_its_type(api: Api) -> None:
    answer = api.get("/apis", accept=AGGREGATED).must(200)
    expected = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert answer.headers["Content-Type"] == expected
    assert answer.headers["ETag"]


def test_the_aggregated_document_is_not_sent_twice(api: Api) -> None:
    tag = api.get("/apis", accept=AGGREGATED).headers["ETag"]
    repeated = api.get("/apis", accept=AGGREGATED, headers={"If-None-Match": tag})
    assert (repeated.code, repeated.body) == (304, b"")


def test_both_forms_of_discovery_agree(api: Api) -> None:
    verbs = served(api)
    plain = api.get("/apis/apps/v1").must(200).json
    for resource in plain["resources"]:
        assert verbs[f"apps/v1/{resource['name']}"] == resource["verbs"]


def test_an_unknown_group(api: Api) -> None:
    assert api.get("/apis/none.example.com").code == 404
    assert api.get("/apis/none.example.com/v1").code == 404


def test_open_api_v3_has_a_document_per_group(api: Api) -> None:
    index = api.get("/openapi/v3").must(200).json
    assert {"api/v1", "apis/apps/v1", "version"} <= index["paths"].keys()
    url = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/apis/apps/v1?hash=")
    document = api.get(url).must(200).json
    assert document["openapi"] == "3.0.0"
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "kind": "Deployment", "version": "v1"}
    ]
    assert "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" in document["paths"]


def test_open_api_v2_knows_merge_keys(api: Api) -> None:
    document = api.get("/openapi/v2").must(200).json
    assert document["swagger"] == "2.0"
    containers = document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"


def test_large_responses_are_compressed_if_accepted(api: Api) -> None:
    answer = api.get("/openapi/v2", headers={"Accept-Encoding": "gzip"}).must(200)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body))["swagger"] == "2.0"


@pytest.mark.parametrize("path", ["/api", "/apis/apps/v1", "/version"])
def test_discovery_can_only_be_read(api: Api, path: str) -> None:
    assert api.post(path, {}).code == 405


def test_the_paths(api: Api) -> None:
    paths = api.get("/").must(200).json["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz", "/version"} <= set(paths)
