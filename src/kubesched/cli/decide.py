"""`kubesched decide`: cases in, decisions out.

Owns reading and writing lines. A case that cannot be read costs its own line, never the run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import click
import msgspec

from kubesched.app.cases import CaseDecider, CaseError
from kubesched.cli.options import plugin_option, registry_of
from kubesched.cli.progress import counted
from kubesched.cli.streams import STDOUT_NAME, named


def decide_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return our decision for one case, in the form in which decisions are compared."""
    return CaseDecider().decide(case).as_json()


_EPILOG = """\b
Examples:
  kubesched decide --cases cases.jsonl --output decisions.jsonl
  zcat cases.jsonl.gz | kubesched decide --cases - | jq .decision.best
"""


@click.command(short_help="Decide recorded cases.", epilog=_EPILOG)
@click.option(
    "--cases",
    type=click.File("rb"),
    required=True,
    help="Cases, one JSON object a line; - for stdin.",
)
@click.option(
    "--output",
    type=click.File("wb", lazy=False),
    default="-",
    show_default=True,
    help="Decisions, one JSON object a line; - for stdout.",
)
@plugin_option
def decide(cases: BinaryIO, output: BinaryIO, plugins: tuple[str, ...]) -> None:
    """Decide each case of a file as kube-scheduler would.

    A case is one line: {"id", "config", "objects", "pod"}. The answer is one line:
    {"id", "decision"}, in the same order, or {"id", "line", "error"} for a case that cannot be
    read; then the exit status is 1.
    """
    decider = CaseDecider(registry_of(plugins))
    failed = 0
    name = str(getattr(output, "name", STDOUT_NAME))
    for number, line in enumerate(counted(cases, "cases"), start=1):
        if not line.strip():
            continue
        answer = _answer(decider, number, line)
        failed += "error" in answer
        with named(name):
            output.write(msgspec.json.encode(answer) + b"\n")
    with named(name):
        output.flush()
    if failed:
        click.echo(f"kubesched: {failed} case(s) could not be decided", err=True)
        sys.exit(1)


def _answer(decider: CaseDecider, number: int, line: bytes) -> dict[str, Any]:
    case: Any = None
    try:
        case = msgspec.json.decode(line)
        if not isinstance(case, dict):
            raise CaseError(f"expected a JSON object, got {type(case).__name__}")
        decision = decider.decide(case)
    except (CaseError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        known = case.get("id") if isinstance(case, dict) else None
        identity = known if isinstance(known, str) else None
        return {"id": identity, "line": number, "error": str(problem)}
    return {"id": case.get("id"), "decision": decision.as_json()}
