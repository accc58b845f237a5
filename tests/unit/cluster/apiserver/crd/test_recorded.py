"""Definitions and their instances, with what a real kube-apiserver answered.

The files beside this one are written by conformance/schemas/record.py from v1.36.4.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cluster.apiserver.crd.server import Server, comparable


def _cases(name: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((Path(__file__).parent / name).read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{number}-{case['code']}")
        for number, case in enumerate(_cases("definitions.jsonl.gz"))
    ],
)
def test_a_definition_is_answered_as_by_the_real_server(
    case: dict[str, Any], server: Server
) -> None:
    assert _answer(server, case) == _recorded(case)


def test_a_recorded_session_has_the_responses_of_the_real_server() -> None:
    """Run the requests in order: later ones see the effects of earlier ones."""
    server = Server()
    different = [
        (case["method"], case["path"], case.get("body"), answer, _recorded(case))
        for case in _cases("instances.jsonl.gz")
        if (answer := _answer(server, case)) != _recorded(case)
    ]

    assert different == []


def _answer(server: Server, case: dict[str, Any]) -> Any:
    code, answer, warnings = server.request(
        case["method"],
        case["path"],
        case.get("body"),
        case.get("content_type", "application/json"),
    )
    return code, _in_order(comparable(answer)), warnings


def _recorded(case: dict[str, Any]) -> Any:
    return case["code"], _in_order(case["answer"]), case["warnings"]


def _in_order(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a rejection with its causes sorted: upstream iterates over maps."""
    details = answer.get("details") or {}
    if answer.get("kind") != "Status" or len(details.get("causes") or ()) < 2:
        return answer
    causes = sorted(details["causes"], key=json.dumps)
    rest = {key: value for key, value in answer.items() if key not in {"message", "details"}}
    return {**rest, "details": {**details, "causes": causes}}
