import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import kubesched


def a_case(identity: str, node: str = "n1") -> dict[str, Any]:
    resources = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {
        "id": identity,
        "config": None,
        "objects": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "uid": node},
                "status": resources,
            }
        ],
        "pod": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"containers": [{"name": "c"}], "schedulerName": "default-scheduler"},
        },
    }


def lines(*cases: object) -> bytes:
    texts = [case if isinstance(case, bytes) else json.dumps(case).encode() for case in cases]
    return b"\n".join(texts) + b"\n"


def answers(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_decisions_have_the_order_of_cases() -> None:
    ran = kubesched("decide", "--cases", "-", stdin=lines(a_case("b", "n1"), a_case("a", "n2")))
    assert (ran.status, ran.err) == (0, "")
    assert [(answer["id"], answer["decision"]["best"]) for answer in answers(ran.out)] == [
        ("b", ["n1"]),
        ("a", ["n2"]),
    ]


def test_cases_and_decisions_may_be_files(tmp_path: Path) -> None:
    cases, output = tmp_path / "cases.jsonl", tmp_path / "decisions.jsonl"
    cases.write_bytes(lines(a_case("a")))
    ran = kubesched("decide", "--cases", str(cases), "--output", str(output))
    assert (ran.status, ran.out) == (0, "")
    assert [answer["id"] for answer in answers(output.read_text())] == ["a"]


@pytest.mark.parametrize(
    ("bad", "identity", "problem"),
    [
        pytest.param(b"{", None, "truncated", id="a truncated line"),
        pytest.param(b"\xff\xfe\x00", None, "", id="not UTF-8"),
        pytest.param([1], None, "expected a JSON object, got list", id="a list"),
        pytest.param("text", None, "expected a JSON object, got str", id="a text"),
        pytest.param({"id": "x"}, "x", "objects: expected a list, got NoneType", id="no objects"),
        pytest.param(
            {"id": 7, "objects": []},
            None,
            "pod: expected an object",
            id="an id that is not a string",
        ),
        pytest.param(a_case("x") | {"config": 5}, "x", "config: expected an object", id="config"),
        pytest.param(
            a_case("x") | {"config": {"kind": "Nothing"}},
            "x",
            "config: ",
            id="an unknown configuration",
        ),
        pytest.param(a_case("x") | {"objects": [1]}, "x", "objects[0]: expected", id="no object"),
        pytest.param(
            a_case("x") | {"objects": [{"kind": "Pod"}]},
            "x",
            "'apiVersion' is missing",
            id="no version",
        ),
        pytest.param(
            a_case("x") | {"pod": a_case("x")["pod"] | {"spec": {"schedulerName": "other"}}},
            "x",
            "no profile has the scheduler name 'other'",
            id="a scheduler name without a profile",
        ),
        pytest.param(b'{"a":' * 100_000, None, "", id="deep nesting"),
    ],
)
def test_an_invalid_case_is_an_error_line_and_exit_status_one(
    bad: object, identity: str | None, problem: str
) -> None:
    ran = kubesched("decide", "--cases", "-", stdin=lines(a_case("first"), bad, a_case("last")))
    assert ran.status == 1
    assert ran.err == "kubesched: 1 case(s) could not be decided\n"
    first, wrong, last = answers(ran.out)
    assert (first["id"], last["id"]) == ("first", "last")
    assert first["decision"] == last["decision"]
    assert (wrong["id"], wrong["line"]) == (identity, 2)
    assert problem in wrong["error"]
    assert "decision" not in wrong


def test_empty_lines_are_skipped() -> None:
    ran = kubesched("decide", "--cases", "-", stdin=b"\n  \n" + lines(a_case("a")) + b"\n")
    assert ran.status == 0
    assert len(answers(ran.out)) == 1


def test_a_case_without_an_id_is_decided() -> None:
    case = a_case("a")
    del case["id"]
    ran = kubesched("decide", "--cases", "-", stdin=lines(case))
    assert ran.status == 0
    assert answers(ran.out)[0]["id"] is None
