import json

import pytest

from kubesched.cluster.apiserver.http.openapi import PROTO_V2, OpenApi


def test_the_index_leads_to_every_document() -> None:
    openapi = OpenApi()
    index = json.loads(openapi.respond("/openapi/v3", "").body)["paths"]

    assert {"api/v1", "apis/apps/v1", "version"} <= set(index)
    for entry in index.values():
        path, _, query = entry["serverRelativeURL"].partition("?hash=")
        answer = openapi.respond(path, "application/json", query)
        assert answer.status == 200
        assert answer.headers["Cache-Control"] == "public, immutable"
        assert json.loads(answer.body)["openapi"] == "3.0.0"


def test_an_old_hash_is_sent_on_to_the_new_one() -> None:
    answer = OpenApi().respond("/openapi/v3/apis/apps/v1", "", "OLD")

    assert answer.status == 301
    assert answer.headers["Location"].startswith("/openapi/v3/apis/apps/v1?hash=")


@pytest.mark.parametrize(
    ("accept", "status", "content_type"),
    [
        ("", 200, "application/json"),
        ("application/json, */*", 200, "application/json"),
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, PROTO_V2),
        ("application/yaml", 406, ""),
    ],
)
def test_version_2_comes_in_two_forms(accept: str, status: int, content_type: str) -> None:
    answer = OpenApi().respond("/openapi/v2", accept)

    assert (answer.status, answer.content_type) == (status, content_type)
    assert bool(answer.body) == (status == 200)


def test_only_responses_have_descriptions() -> None:
    document = json.loads(OpenApi().respond("/openapi/v2", "").body)
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]

    assert "description" not in pod
    assert "description" not in pod["properties"]["spec"]


def test_a_missing_path_is_not_found() -> None:
    assert OpenApi().respond("/openapi/v3/apis/nope/v1", "").status == 404
    assert OpenApi().respond("/openapi/v1", "").status == 404
