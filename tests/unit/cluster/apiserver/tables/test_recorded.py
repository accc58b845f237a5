"""Rows of a real kube-apiserver for objects in many states.

recorded.jsonl.gz is written by conformance/compare_tables.py --record from a v1.36.4 server.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.strategy import Strategy
from kubesched.cluster.apiserver.tables import table_of


def _cases() -> list[Any]:
    lines = gzip.decompress((Path(__file__).parent / "recorded.jsonl.gz").read_bytes())
    cases = [json.loads(line) for line in lines.splitlines()]
    return [
        pytest.param(case, id=f"{case['resource']}-{case['document']['metadata']['name']}")
        for case in cases
    ]


@pytest.mark.parametrize("case", _cases())
def test_row_is_the_real_servers(case: dict[str, Any]) -> None:
    resource = Resource(
        group=case["group"],
        version=case["version"],
        resource=case["resource"],
        kind=case["kind"],
        singular="",
        is_namespaced=True,
        verbs=(),
        strategy=Strategy(),
        schema=None,
        is_custom=case["custom"],
        printer_columns=tuple(case["columns"]),
    )

    table = table_of(resource, [case["document"]], include_object="None", now_s=case["now_s"])

    assert table["rows"] == [case["row"]]
