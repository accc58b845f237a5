"""Strategic merge patches: lists by key, directives, and the real server's words."""

from typing import Any

import pytest

from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.patch.strategic_merge import apply_strategic_merge

POD = schema_for("", "v1", "Pod")
DEPLOYMENT = schema_for("apps", "v1", "Deployment")


def _spec(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    patched = apply_strategic_merge(POD, {"spec": spec}, {"spec": patch})
    return patched["spec"]


def _names(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_elements_merge_by_their_key() -> None:
    spec = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}

    patched = _spec(spec, {"containers": [{"name": "b", "image": "3"}, {"name": "c"}]})

    assert patched["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "3"},
        {"name": "c"},
    ]
    assert spec["containers"][1]["image"] == "2"


def test_directives_of_elements_delete_and_replace() -> None:
    spec = {"containers": _names("a", "b", "c")}

    deleted = _spec(spec, {"containers": [{"name": "b", "$patch": "delete"}]})
    replaced = _spec(spec, {"containers": [{"name": "z"}, {"$patch": "replace"}]})

    assert deleted["containers"] == _names("a", "c")
    assert replaced["containers"] == _names("z")


def test_directives_of_maps_delete_and_replace() -> None:
    spec = {"nodeSelector": {"a": "1", "b": "2"}}

    assert _spec(spec, {"nodeSelector": {"$patch": "delete"}}) == {"nodeSelector": {}}
    assert _spec(spec, {"nodeSelector": {"$patch": "replace", "c": "3"}}) == {
        "nodeSelector": {"c": "3"}
    }


@pytest.mark.parametrize(
    ("live", "patch", "order", "expected"),
    [
        pytest.param("abc", "", "cba", "cba", id="only the order"),
        pytest.param("abc", "d", "adbc", "adbc", id="a new element finds its place"),
        pytest.param("axb", "", "ba", "xba", id="others stay before their successors"),
        pytest.param("ad", "bc", "", "adcb", id="an empty order reverses new elements"),
        pytest.param("adxyz", "ybcx", "", "cbadxyz", id="and puts them where Go's sort does"),
        pytest.param("abx", "", "ba", "bax", id="others stay behind their predecessors"),
    ],
)
def test_elements_have_the_order_of_the_patch(
    live: str, patch: str, order: str, expected: str
) -> None:
    sent: dict[str, Any] = {"$setElementOrder/containers": _names(*order)}
    if patch:
        sent["containers"] = _names(*patch)

    assert _spec({"containers": _names(*live)}, sent)["containers"] == _names(*expected)


def test_primitive_lists_merge_and_lose_elements() -> None:
    document = {"metadata": {"finalizers": ["a", "b"]}}

    merged = apply_strategic_merge(POD, document, {"metadata": {"finalizers": ["c", "a"]}})
    lost = apply_strategic_merge(
        POD, document, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}
    )

    assert merged["metadata"]["finalizers"] == ["c", "a", "b"]
    assert lost["metadata"]["finalizers"] == ["b"]


def test_lists_without_a_strategy_are_replaced() -> None:
    spec = {"tolerations": [{"key": "a"}]}

    assert _spec(spec, {"tolerations": [{"key": "b"}]})["tolerations"] == [{"key": "b"}]


def test_only_retained_keys_stay() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    patched = apply_strategic_merge(DEPLOYMENT, live, patch)

    assert patched["spec"]["strategy"] == {"type": "Recreate"}


def test_null_removes_and_is_dropped_from_new_values() -> None:
    spec = {"hostname": "x", "nodeSelector": {"a": "1"}}

    patched = _spec(spec, {"hostname": None, "securityContext": {"runAsUser": None, "fsGroup": 1}})

    assert patched == {"nodeSelector": {"a": "1"}, "securityContext": {"fsGroup": 1}}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            {"containers": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
            id="no key",
        ),
        pytest.param(
            {"containers": [{"name": "a", "$patch": "frob"}]},
            500,
            "unknown patch type: frob in map: map[$patch:frob name:a]",
            id="unknown directive",
        ),
        pytest.param(
            {"containers": [{"name": "a", "$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
            id="merge directive",
        ),
        pytest.param(
            {"containers": ["a"]},
            500,
            "list element types are not identical: [[map[name:a]] [a]]",
            id="mixed elements",
        ),
        pytest.param(
            {"$setElementOrder/containers": _names("a", "b"), "containers": _names("b", "a")},
            500,
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match "
            "$setElementOrder list:\n[map[name:a] map[name:b]]\n",
            id="an order that the patch does not keep",
        ),
        pytest.param(
            {"$setElementOrder/containers": {}},
            500,
            "expected a []interface {}, but received a map[string]interface {}",
            id="an order that is no list",
        ),
        pytest.param(
            {"$setElementOrder": []},
            400,
            "invalid patch format of setElementOrder list",
            id="an order of nothing",
        ),
        pytest.param(
            {"$deleteFromPrimitiveList": []},
            400,
            "invalid patch format of primitive list",
            id="a deletion from nothing",
        ),
        pytest.param(
            {"$retainKeys": "x"}, 400, "invalid patch format of retainKeys", id="invalid keys"
        ),
        pytest.param(
            {"$retainKeys": ["x"], "hostname": "y"},
            400,
            "invalid patch format of retainKeys",
            id="a key that is not retained",
        ),
    ],
)
def test_patch_is_rejected(patch: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        _spec({"containers": _names("a")}, patch)

    assert (caught.value.code, caught.value.message) == (code, message)


def test_kinds_without_a_type_have_no_strategic_merge() -> None:
    with pytest.raises(ApiError, match="strategic merge patch format is not supported") as caught:
        apply_strategic_merge(None, {}, {})

    assert caught.value.code == 400
