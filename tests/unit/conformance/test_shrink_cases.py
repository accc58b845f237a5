"""Shrinking: the smallest case that keeps the property, within a number of calls."""

from typing import Any

from conformance.fuzz.shrink import minimize, removable, shrink, without

Obj = dict[str, Any]


def a_case(count: int) -> Obj:
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{index}", "uid": str(index), "labels": {"a": "1", "b": "2"}},
            "spec": {"taints": [{"key": "x"}, {"key": "y"}, {"key": "z"}]},
        }
        for index in range(count)
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "incoming", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "s", "priority": 3},
    }
    config = {"apiVersion": "v1", "kind": "K", "profiles": [{"schedulerName": "s"}]}
    return {"id": "x", "family": "f", "config": config, "objects": objects, "pod": pod}


def names(case: Obj) -> set[str]:
    return {obj["metadata"]["name"] for obj in case["objects"]}


def test_objects_that_do_not_matter_are_removed() -> None:
    small = shrink(a_case(40), lambda cases: [{"n7", "n31"} <= names(case) for case in cases])
    assert names(small) == {"n7", "n31"}


def test_fields_that_do_not_matter_are_removed() -> None:
    def differs(case: Obj) -> bool:
        return any(
            taint.get("key") == "y"
            for obj in case["objects"]
            for taint in obj.get("spec", {}).get("taints", [])
        )

    small = shrink(a_case(9), lambda cases: [differs(case) for case in cases])
    (node,) = small["objects"]
    assert node["spec"] == {"taints": [{"key": "y"}]}
    assert set(node) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(node["metadata"]) == {"name", "uid"}
    assert "priority" not in small["pod"]["spec"]
    assert small["config"] is None


def test_the_configuration_stays_when_it_matters() -> None:
    small = shrink(a_case(3), lambda cases: [bool(case["config"]) for case in cases])
    assert small["config"] == {"apiVersion": "v1", "kind": "K"}
    assert small["objects"] == []


def test_identity_of_the_pod_stays() -> None:
    small = shrink(a_case(1), lambda cases: [True] * len(cases))
    assert small["pod"]["metadata"] == {"name": "incoming", "namespace": "default", "uid": "u"}
    assert small["pod"]["spec"] == {"containers": [], "schedulerName": "s"}


def test_the_original_case_is_unchanged() -> None:
    case = a_case(4)
    shrink(case, lambda cases: [True] * len(cases))
    assert case == a_case(4)


def test_calls_are_limited() -> None:
    calls: list[int] = []

    def still_differs(cases: list[Obj]) -> list[bool]:
        calls.append(len(cases))
        return ["n0" in names(case) for case in cases]

    small = shrink(a_case(64), still_differs, rounds=3)
    assert len(calls) == 3
    assert "n0" in names(small)


def test_a_result_always_has_the_property() -> None:
    # The property is not monotone: an even number of objects, at least four.
    def differs(case: Obj) -> bool:
        return len(case["objects"]) >= 4 and len(case["objects"]) % 2 == 0

    small = shrink(a_case(22), lambda cases: [differs(case) for case in cases])
    assert differs(small)


def test_minimize_finds_scattered_items() -> None:
    required = {3, 50, 77}
    kept = minimize(
        range(100),
        lambda items: {"items": items},
        lambda cases: [required <= set(case["items"]) for case in cases],
    )
    assert kept == [3, 50, 77]


def test_without_removes_several_elements_of_one_list() -> None:
    case = a_case(1)
    base = ("objects", 0, "spec", "taints")
    small = without(case, [(*base, 0), (*base, 2)])
    assert small["objects"][0]["spec"]["taints"] == [{"key": "y"}]


def test_removable_never_names_an_identifying_field() -> None:
    paths = removable(a_case(1))
    assert ("objects", 0, "metadata", "name") not in paths
    assert ("pod", "spec", "containers") not in paths
    assert ("objects", 0, "metadata", "labels", "a") in paths
