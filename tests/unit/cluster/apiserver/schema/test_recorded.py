"""Bodies and documents, with the results of a real kube-apiserver and its types.

The files beside this one are written by conformance/schemas/record.py from v1.36.4.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.schema.conform import WrongTypeError, conform_or_raise, strict_decoding_error
from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.bodies import cannot_be_handled, conform
from kubesched.cluster.apiserver.http.decoding import check_kind, decode_body, strict_problems


def _cases(name: str) -> list[Any]:
    lines = gzip.decompress((Path(__file__).parent / name).read_bytes()).splitlines()
    cases = [json.loads(line) for line in lines]
    return [
        pytest.param(case, id=f"{number}-{case['kind'][2]}") for number, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", _cases("bodies.jsonl.gz"))
def test_a_body_is_rejected_in_the_real_servers_words(case: dict[str, Any]) -> None:
    assert _rejection(case) == case["refusal"]


def _rejection(case: dict[str, Any]) -> str | None:
    """Read a body as a creation with strict field validation does."""
    group, version, kind = case["kind"]
    schema = schema_for(group, version, kind)
    assert schema is not None
    try:
        decoded = decode_body(case["body"].encode(), case["content_type"], kind=kind)
        check_kind(decoded.document, group, version, kind)
        found = conform(schema, decoded.document)
        problems = strict_problems(decoded.duplicates, found.problems)
        if problems:
            raise cannot_be_handled(kind, decoded.document, strict_decoding_error(problems))
    except ApiError as error:
        return error.message
    return None


@pytest.mark.parametrize("case", _cases("documents.jsonl.gz"))
def test_a_document_has_the_form_in_which_go_writes_it(case: dict[str, Any]) -> None:
    schema = schema_for(*case["kind"])
    assert schema is not None
    if "error" in case:
        with pytest.raises(WrongTypeError) as raised:
            conform_or_raise(schema, case["body"])
        assert raised.value.text == case["error"]
        return

    found = conform_or_raise(schema, case["body"])

    # An empty list differs from null: it removes all managers, which storage does not show.
    if (case["body"].get("metadata") or {}).get("managedFields") == []:
        assert found.document["metadata"].pop("managedFields") == []
    assert found.problems == case["problems"]
    assert found.document == _without_empty_lists(case["document"], case["kind"])


def _without_empty_lists(value: Any, kind: list[str]) -> Any:
    """Return a document with null for empty lists, where JSON is stored and keeps the two apart."""
    if kind[0] not in {"apiextensions.k8s.io", "apiregistration.k8s.io"}:
        return value
    if isinstance(value, dict):
        return {key: _without_empty_lists(part, kind) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_empty_lists(part, kind) for part in value] or None
    return value
