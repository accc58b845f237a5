"""JSON merge patches as evanphx/json-patch v4 applies them in the API server."""

from typing import Any

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.json_patch import apply_merge_patch

DOCUMENT: dict[str, Any] = {"a": {"b": 1, "c": 2}, "l": [1], "s": "x"}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"a": {"b": 5}}, {"a": {"b": 5, "c": 2}}, id="maps merge"),
        pytest.param({"a": {"b": None}}, {"a": {"c": 2}}, id="null removes"),
        pytest.param({"a": {"zz": None}}, {}, id="null of nothing is nothing"),
        pytest.param({"l": [2, None]}, {"l": [2, None]}, id="lists are replaced, nulls stay"),
        pytest.param({"new": {"x": None, "y": 1}}, {"new": {"y": 1}}, id="new: without nulls"),
        pytest.param({"s": {"x": None, "y": 1}}, {"s": {"y": 1}}, id="map over a scalar"),
        pytest.param({"l": [{"x": None}]}, {"l": [{}]}, id="list over a list: without nulls"),
        pytest.param({"a": [{"x": None}]}, {"a": [{"x": None}]}, id="list over a map: as it is"),
        pytest.param({"a": 1}, {"a": 1}, id="scalar over a map"),
    ],
)
def test_patch_gives(patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert apply_merge_patch(DOCUMENT, patch) == {**DOCUMENT, **expected}
    assert DOCUMENT == {"a": {"b": 1, "c": 2}, "l": [1], "s": "x"}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        (
            [],
            (
                "error decoding patch: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ),
        ),
    ],
)
def test_patch_that_is_no_map_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_merge_patch(DOCUMENT, patch)

    assert (caught.value.code, caught.value.message) == (400, message)
