"""Random writes to a real kube-apiserver, repeated with our functions.

recorded.jsonl.gz is written by conformance/fuzz_patches.py --record from a v1.36.4 server.
"""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.apply import apply
from kubesched.cluster.apiserver.patch.json_patch import apply_json_patch, apply_merge_patch
from kubesched.cluster.apiserver.patch.managed_fields import (
    Manager,
    keep_times,
    track_create,
    track_update,
)
from kubesched.cluster.apiserver.patch.reset_fields import reset_fields
from kubesched.cluster.apiserver.patch.strategic_merge import apply_strategic_merge

Case = dict[str, Any]


def _cases() -> list[Any]:
    lines = gzip.decompress((Path(__file__).parent / "recorded.jsonl.gz").read_bytes())
    cases = [json.loads(line) for line in lines.splitlines()]
    return [
        pytest.param(case, id=f"{index}-{case['kind']}-{case['method']}-{case['code']}")
        for index, case in enumerate(cases)
    ]


def _by(case: Case) -> Manager:
    entries = case["answer"].get("metadata", {}).get("managedFields") or []
    return Manager(
        case["manager"],
        "Apply" if "apply" in case["content_type"] else "Update",
        f"{case['group']}/{case['version']}" if case["group"] else case["version"],
        max((entry.get("time", "") for entry in entries), default=""),
        case["subresource"],
        reset_fields(case["group"], case["resource"], case["subresource"]),
    )


def _change(case: Case) -> Any:
    schema = schema_for(case["group"], case["version"], case["kind"])
    live, body = case["live"], case["body"]
    if "json-patch" in case["content_type"]:
        return apply_json_patch(live, body)
    if "strategic" in case["content_type"]:
        return apply_strategic_merge(schema, live, body)
    if "merge" in case["content_type"]:
        return apply_merge_patch(live, body)
    if "apply" in case["content_type"]:
        return apply(schema, live or None, body, _by(case), force=case["force"])
    return body


@pytest.mark.parametrize("case", _cases())
def test_managed_fields_and_rejections_are_the_real_servers(case: Case) -> None:
    before = copy.deepcopy((case["live"], case["body"]))
    changed, rejection = _outcome(case)
    assert (case["live"], case["body"]) == before
    if rejection is not None:
        assert _sorted(rejection) == _sorted(case["answer"])
        return
    if case["code"] >= 400:
        # Rejected later, by the verbs: names, versions, validation.
        assert case["code"] in {400, 404, 409, 422}
        return
    assert _managed(case, changed) == (case["answer"]["metadata"].get("managedFields") or [])


def _outcome(case: Case) -> tuple[Any, dict[str, Any] | None]:
    try:
        return _change(case), None
    except ApiError as error:
        return None, error.status


def _sorted(status: dict[str, Any]) -> dict[str, Any]:
    causes = status.get("details", {}).get("causes", [])
    return {**status, "details": {"causes": sorted(causes, key=json.dumps)}}


def _managed(case: Case, changed: dict[str, Any]) -> list[Any]:
    """Return the managedFields of our functions for the real server's document."""
    schema, live = schema_for(case["group"], case["version"], case["kind"]), case["live"]
    new = copy.deepcopy(case["answer"])
    sent = (changed.get("metadata") or {}).get("managedFields")
    new["metadata"].pop("managedFields", None)
    if sent is not None:
        new["metadata"]["managedFields"] = copy.deepcopy(sent)
    if "apply" not in case["content_type"]:
        if live:
            track_update(schema, live, new, _by(case))
        else:
            track_create(schema, new, _by(case))
    keep_times(live, new)
    return new["metadata"].get("managedFields") or []
