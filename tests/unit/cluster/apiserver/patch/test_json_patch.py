"""JSON patches as evanphx/json-patch v4 applies them in the API server."""

from typing import Any

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.json_patch import apply_json_patch, unknown_fields

DOCUMENT: dict[str, Any] = {"a": {"b": 1, "x/y": "s", "n": None}, "l": [1, 2, 3]}


def _op(op: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **rest}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param(_op("add", "/l/-", value=4), {"l": [1, 2, 3, 4]}, id="append"),
        pytest.param(_op("add", "/l/0", value=0), {"l": [0, 1, 2, 3]}, id="insert"),
        pytest.param(_op("add", "/l/3", value=4), {"l": [1, 2, 3, 4]}, id="insert at the end"),
        pytest.param(_op("add", "/l/-1", value=4), {"l": [1, 2, 3, 4]}, id="negative: from behind"),
        pytest.param(_op("remove", "/l/-1"), {"l": [1, 2]}, id="remove the last"),
        pytest.param(_op("replace", "/l/01", value=9), {"l": [1, 9, 3]}, id="leading zero"),
        pytest.param(
            _op("replace", "/a/new", value=1),
            {"a": {"b": 1, "x/y": "s", "n": None, "new": 1}},
            id="replace adds a missing member",
        ),
        pytest.param(_op("remove", "/a/x~1y"), {"a": {"b": 1, "n": None}}, id="escaped slash"),
        pytest.param(_op("add", "/z"), {"z": None}, id="no value is null"),
        pytest.param(_op("copy", "/z", **{"from": "/l"}), {"z": [1, 2, 3]}, id="copy"),
        pytest.param(_op("copy", "/z", **{"from": "/none"}), {"z": None}, id="copy of nothing"),
        pytest.param(
            _op("move", "/l/0", **{"from": "/a/b"}),
            {"a": {"x/y": "s", "n": None}, "l": [1, 1, 2, 3]},
            id="move",
        ),
        pytest.param(_op("test", "/a/b", value=1), {}, id="test holds"),
        pytest.param(_op("test", "/a/none", value=None), {}, id="absent is null"),
        pytest.param(_op("test", "/a/n"), {}, id="null is nothing"),
    ],
)
def test_operation_gives(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    assert apply_json_patch(DOCUMENT, [operation]) == {**DOCUMENT, **expected}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(_op("add", "/none/x", value=1), id="missing parent"),
        pytest.param(_op("add", "/a/n/x", value=1), id="null parent"),
        pytest.param(_op("add", "/l/4", value=1), id="index beyond the end"),
        pytest.param(_op("add", "/l/x", value=1), id="invalid index"),
        pytest.param(_op("add", "/l/ 1", value=1), id="index with a space"),
        pytest.param(_op("replace", "/l/-", value=1), id="replace of the place after the end"),
        pytest.param(_op("replace", "/l/3", value=1), id="replace beyond the end"),
        pytest.param(_op("remove", "/a/none"), id="remove of nothing"),
        pytest.param(_op("add", "", value={}), id="add of the whole"),
        pytest.param(_op("replace", "", value=1), id="a whole that is neither object nor list"),
        pytest.param(_op("test", "/a/b", value=2), id="test of another value"),
        pytest.param(_op("test", "/a/b", value=1.0), id="test of another spelling of the number"),
        pytest.param(_op("test", "/a/b", value=True), id="test of another type"),
        pytest.param(_op("test", "/a", value={}), id="test of fewer fields"),
        pytest.param(_op("move", "/z", **{"from": "/none"}), id="move of nothing"),
        pytest.param(_op("copy", "/z"), id="copy from nowhere"),
        pytest.param(_op("frob", "/z"), id="unknown operation"),
        pytest.param({"op": "add", "value": 1}, id="no path"),
        pytest.param({"path": "/z"}, id="no operation"),
    ],
)
def test_operation_that_does_not_apply_is_unprocessable(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(DOCUMENT, [operation])

    assert caught.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({}, "object into Go value of type []handlers.jsonPatchOp"),
        ("x", "string into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
    ],
)
def test_patch_of_another_shape_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(DOCUMENT, patch)

    assert caught.value.code == 400
    assert caught.value.message == f"error decoding patch: json: cannot unmarshal {message}"


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(DOCUMENT, [_op("test", "/a/b", value=1)] * 10001)

    assert caught.value.code == 413
    assert caught.value.message == (
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_document_stays_as_it_is() -> None:
    patched = apply_json_patch(DOCUMENT, [_op("add", "/a/c", value=1), _op("remove", "/l/0")])

    assert patched["l"] == [2, 3]
    assert DOCUMENT == {"a": {"b": 1, "x/y": "s", "n": None}, "l": [1, 2, 3]}


def test_unknown_fields_are_named_by_index() -> None:
    patch = [_op("test", "/a/b", value=1), {"op": "remove", "path": "/l", "why": 1}]

    assert unknown_fields(patch) == ['json patch unknown field "[1].why"']
