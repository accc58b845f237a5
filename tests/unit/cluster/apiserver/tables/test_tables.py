"""Tables around their rows, durations, and paths of columns."""

from typing import Any

import pytest

from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Strategy
from kubesched.cluster.apiserver.tables import partial_metadata, table_of
from kubesched.cluster.apiserver.tables.cells import human_duration
from kubesched.cluster.apiserver.tables.json_path import PathError, find, steps_of


def _resource(group: str, resource: str, kind: str, **rest: Any) -> Resource:
    return Resource(
        group=group,
        version="v1",
        resource=resource,
        kind=kind,
        singular="",
        is_namespaced=True,
        verbs=(),
        strategy=Strategy(),
        schema=None,
        **rest,
    )


MAPS = _resource("", "configmaps", "ConfigMap")
MAP = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "m", "creationTimestamp": "1970-01-01T00:00:00Z"},
    "data": {"a": "b"},
}


def _table(resource: Resource, *documents: dict[str, Any], include: str = "None") -> Any:
    return table_of(resource, list(documents), include_object=include, now_s=90.0)


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("None", None),
        ("Object", MAP),
        (
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": MAP["metadata"],
            },
        ),
        ("", partial_metadata(MAP)),
    ],
)
def test_a_row_includes_its_object_as_requested(include: str, expected: Any) -> None:
    assert _table(MAPS, MAP, include=include)["rows"] == [
        {"cells": ["m", 1, "90s"], "object": expected}
    ]


def test_columns_have_names_and_formats() -> None:
    columns = _table(MAPS)["columnDefinitions"]

    assert [column["name"] for column in columns] == ["Name", "Data", "Age"]
    assert columns[0]["format"] == "name"


def test_kinds_without_columns_show_their_creation_time() -> None:
    limits = _resource("", "limitranges", "LimitRange")

    table = _table(limits, {**MAP, "kind": "LimitRange"})

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["rows"][0]["cells"] == ["m", "1970-01-01T00:00:00Z"]
    assert _table(limits)["rows"] is None
    assert _table(MAPS)["rows"] == []


def test_custom_kinds_show_their_age_unless_they_have_columns() -> None:
    plain = _resource("x.io", "things", "Thing", is_custom=True)
    column = {"name": "Size", "type": "integer", "jsonPath": ".data.a"}
    sized = _resource("x.io", "things", "Thing", is_custom=True, printer_columns=(column,))

    assert _table(plain, MAP)["rows"][0]["cells"] == ["m", "90s"]
    assert _table(plain)["columnDefinitions"][1]["type"] == "date"
    assert _table(sized)["columnDefinitions"][1] == {
        "name": "Size",
        "type": "integer",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .data.a",
        "priority": 0,
    }


def test_flow_schemas_come_by_precedence() -> None:
    flows = _resource("flowcontrol.apiserver.k8s.io", "flowschemas", "FlowSchema")
    documents = [
        {"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}}
        for name, precedence in (("b", 5), ("a", 5), ("z", 1))
    ]

    rows = _table(flows, *documents)["rows"]

    assert [row["cells"][0] for row in rows] == ["z", "a", "b"]


def test_a_scale_has_columns_of_its_own() -> None:
    scales = _resource("autoscaling", "scales", "Scale")
    scale = {"metadata": MAP["metadata"], "spec": {"replicas": 3}, "status": {"replicas": 2}}

    table = _table(scales, scale)

    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"] == ["m", 3, 2, "90s"]


def test_terminated_pods_are_marked_for_clients() -> None:
    pods = _resource("", "pods", "Pod")
    pod = {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Failed"}}

    (row,) = _table(pods, pod)["rows"]

    assert row["conditions"] == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]


_DAY = 86_400


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (605, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (7 * 3600 + 60, "7h1m"),
        (8 * 3600 + 60, "8h"),
        (2 * _DAY - 1, "47h"),
        (2 * _DAY + 3600, "2d1h"),
        (8 * _DAY + 3600, "8d"),
        (2 * 365 * _DAY - 1, "729d"),
        (2 * 365 * _DAY, "2y"),
        (2 * 365 * _DAY + _DAY, "2y1d"),
        (8 * 365 * _DAY + _DAY, "8y"),
    ],
)
def test_durations_are_short(seconds: float, expected: str) -> None:
    assert human_duration(seconds) == expected


DOCUMENT = {"a": {"b.c": [1, 2, 3], "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]}, "n": None}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a['b.c'][0]", [1]),
        (".a.b\\.c[1:]", [2, 3]),
        ("$.a.b\\.c[-1]", [3]),
        (".a.l[*].n", ["x", "y"]),
        ('.a.l[?(@.n=="y")].v', [2]),
        (".a.l[?(@.v>=2)].n", ["y"]),
        (".a.l[?(@.w)].n", []),
        ("..n", [None, "x", "y"]),
        (".none.at.all", []),
        (".n.x", []),
    ],
)
def test_path_finds(path: str, expected: list[Any]) -> None:
    assert find(path, DOCUMENT) == expected


@pytest.mark.parametrize("path", [".a.l[7]", ".a[0]"])
def test_path_that_cannot_be_walked_is_an_error(path: str) -> None:
    with pytest.raises(PathError):
        find(path, DOCUMENT)


@pytest.mark.parametrize("path", ["a b", ".a[", ".a[x]", ".a{"])
def test_path_that_does_not_parse_is_an_error(path: str) -> None:
    with pytest.raises(PathError):
        steps_of(path)
