"""Recorded decisions of kube-scheduler v1.36.4 on 120 clusters, ten of each family.

Source: tests/parity/data/decisions-sample.jsonl.gz, produced by kube-scheduler's own code.
"""

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz.compare import differences
from kubesched.explanation.decision import CaseDecider

pytestmark = pytest.mark.parity

DATA = Path(__file__).parent / "data" / "decisions-sample.jsonl.gz"


def _cases() -> list[dict[str, Any]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


CASES = _cases()


@cache
def decider() -> CaseDecider:
    return CaseDecider()


def test_the_sample_holds_ten_cases_of_each_family() -> None:
    families = Counter(case["family"] for case in CASES)
    assert len(families) == 12
    assert set(families.values()) == {10}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_field_of_the_decision_equals_upstreams(case: dict[str, Any]) -> None:
    request = {key: value for key, value in case.items() if key != "decision"}
    decision = decider().decide(request).as_json()
    assert differences(case["decision"], decision) == []
