"""Bodies in protobuf, as kubectl v1.36.4 sent them, compared with its dry runs.

protobuf_bodies.json holds for each command the recorded body and the object that
`--dry-run=client -o json` prints.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.bodies import conform
from kubesched.cluster.apiserver.http.decoding import decode_body
from kubesched.cluster.apiserver.http.protobuf import MEDIA_TYPE, NotProtobufError, decode_protobuf

RECORDED = json.loads(Path(__file__).with_name("protobuf_bodies.json").read_text())


def canonical(document: dict[str, Any]) -> dict[str, Any]:
    group, _, version = document["apiVersion"].rpartition("/")
    schema = schema_for(group, version, document["kind"])
    assert schema is not None
    return conform(schema, document).document


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda case: case["command"])
def test_a_body_is_the_object_that_kubectl_shows(recorded: dict[str, Any]) -> None:
    body = decode_protobuf(base64.b64decode(recorded["body"]))
    # kubectl puts the namespace into the path only.
    recorded["object"]["metadata"].pop("namespace", None)
    body["metadata"].pop("namespace", None)

    assert canonical(body) == canonical(recorded["object"])


def test_every_cut_of_a_body_is_rejected_or_read() -> None:
    whole = base64.b64decode(RECORDED[0]["body"])

    for length in range(len(whole)):
        try:
            decode_protobuf(whole[:length])
        except NotProtobufError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(b"k8s\x00\n\x08\n\x02v1\x12\x02No", id="an unknown kind"),
        pytest.param(b"k8s\x00\x0b", id="an unknown wire type"),
    ],
)
def test_a_non_object_is_rejected_with_a_status_that_names_json(data: bytes) -> None:
    with pytest.raises(ApiError) as rejected:
        decode_body(data, MEDIA_TYPE)

    assert rejected.value.code == 415
    assert "application/json" in rejected.value.message
