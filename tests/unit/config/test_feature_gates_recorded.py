"""Every gate, enabled and disabled at every version, compared with kube-scheduler v1.36.4.

The answers are in data/gates.json.gz, written by conformance/record_command_lines.py.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.config.feature_gates import GateError, known_gates, resolve_gates

pytestmark = pytest.mark.parity

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "gates.json.gz").read_bytes())
)


def error_of(setting: str, version: str) -> str:
    try:
        resolve_gates({"": [setting]}, emulated_version=[version])
    except GateError as problem:
        return str(problem)
    return ""


def pieces(text: str) -> list[str]:
    """Return the parts of an error, sorted: upstream iterates over a map."""
    return sorted(text.strip("[]").split(", "))


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_gate_can_be_set_where_upstream_allows_it(version: str) -> None:
    cases = [case for case in RECORDED["told"] if case["version"] == version]
    assert len(cases) == 2 * len(known_gates())
    wrong = [
        (case["gate"], case["error"], error_of(case["gate"], version))
        for case in cases
        if pieces(error_of(case["gate"], version)) != pieces(case["error"])
    ]
    assert wrong == []


def test_alpha_and_beta_gates_are_those_in_upstreams_help() -> None:
    listed = [
        f"{name}=true|false ({stage} - default={'true' if enabled else 'false'})"
        for name, stage, enabled in resolve_gates({})
        if stage in ("ALPHA", "BETA")
    ]
    assert listed == sorted(RECORDED["listed"])
