"""`kubesched decide`: read recorded cases, write decisions.

Owns reading and writing lines. An invalid case yields an error line and does not stop the run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import click
import msgspec

from kubesched.cli.options import plugin_option, registry_of
from kubesched.cli.printer import with_progress
from kubesched.cli.streams import STDOUT_NAME, named
from kubesched.explanation.decision import CaseDecider, CaseError


def decide_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the decision for one case, in the format in which decisions are compared."""
    return CaseDecider().decide(case).as_json()


_EPILOG = """\b
Examples:
  kubesched decide --cases cases.jsonl --output decisions.jsonl
  zcat cases.jsonl.gz | kubesched decide --cases - | jq .decision.best
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--cases",
    type=click.File("rb"),
    required=True,
    help="Read cases from FILE, one JSON object per line; - for stdin.",
)
@click.option(
    "--output",
    type=click.File("wb", lazy=False),
    default="-",
    show_default=True,
    help="Write decisions to FILE, one JSON object per line; - for stdout.",
)
@plugin_option
def decide(cases: BinaryIO, output: BinaryIO, plugins: tuple[str, ...]) -> None:
    """Compute decisions for recorded cases, as kube-scheduler would.

    Each input line is a case: {"id", "config", "objects", "pod"}. Each output line is a decision,
    {"id", "decision"}, in the same order, or {"id", "line", "error"} for an invalid case, which
    makes the exit status 1.
    """
    decider = CaseDecider(registry_of(plugins))
    failed = 0
    name = str(getattr(output, "name", STDOUT_NAME))
    for number, line in enumerate(with_progress(cases, "cases"), start=1):
        if not line.strip():
            continue
        result = _result(decider, number, line)
        failed += "error" in result
        with named(name):
            output.write(msgspec.json.encode(result) + b"\n")
    with named(name):
        output.flush()
    if failed:
        click.echo(f"kubesched: {failed} case(s) could not be decided", err=True)
        sys.exit(1)


def _result(decider: CaseDecider, number: int, line: bytes) -> dict[str, Any]:
    case: Any = None
    try:
        case = msgspec.json.decode(line)
        if not isinstance(case, dict):
            raise CaseError(f"expected a JSON object, got {type(case).__name__}")
        decision = decider.decide(case)
    except (CaseError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        case_id = case.get("id") if isinstance(case, dict) else None
        case_id = case_id if isinstance(case_id, str) else None
        return {"id": case_id, "line": number, "error": str(problem)}
    return {"id": case.get("id"), "decision": decision.as_json()}
