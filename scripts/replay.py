"""Runs the oracle on the recorded samples, and compares.

Owns the proof that the oracle on this machine is the scheduler that produced the samples. Never
runs kubesched: tests/parity compares it with the samples, without the oracle.

    python scripts/replay.py ORACLE
"""

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "tests" / "parity" / "data"
Json = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Replay both samples; return 1 if a result differs from the recorded one."""
    parser = argparse.ArgumentParser(description="Replay the recorded samples through the oracle.")
    parser.add_argument("oracle", type=Path, help="program built by conformance/build.sh")
    options = parser.parse_args(arguments)

    different = replay(options.oracle, "decide", "decisions-sample.jsonl.gz", differing_decision)
    different += replay(options.oracle, "config", "config-sample.jsonl.gz", differing_config)
    return 1 if different else 0


def replay(
    oracle: Path, command: str, sample: str, differing: Callable[[Json, Json], list[str]]
) -> int:
    """Return the number of differing cases of a sample; print each to standard error."""
    with gzip.open(DATA / sample, mode="rt", encoding="utf-8") as file:
        recorded = [json.loads(line) for line in file if line.strip()]
    answers = answers_of(oracle, command, recorded)
    different = 0
    for case, answer in zip(recorded, answers, strict=True):
        fields = differing(case, answer)
        if fields:
            different += 1
            print(f"{sample}: {case['id']}: differs in {', '.join(fields)}", file=sys.stderr)
    print(f"oracle {command}: {len(recorded) - different} of {len(recorded)} as recorded")
    return different


def answers_of(oracle: Path, command: str, cases: list[Json]) -> list[Json]:
    """Return the oracle's answers in the order of the cases, which it gets without the results."""
    results = {"decision", "expected"}
    lines = "".join(
        json.dumps({key: value for key, value in case.items() if key not in results}) + "\n"
        for case in cases
    )
    done = subprocess.run(
        [oracle, command], input=lines, stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def differing_decision(case: Json, answer: Json) -> list[str]:
    """Return the fields of a decision that differ from the recorded one."""
    if answer.get("id") != case["id"] or "decision" not in answer:
        return [answer.get("panic", "no answer")]
    recorded, got = case["decision"], answer["decision"]
    fields = [
        field
        for field in recorded
        if field != "preemption" and comparable(recorded, field) != comparable(got, field)
    ]
    actual, allowed = outcomes(got["preemption"]), outcomes(recorded["preemption"])
    # The oracle tries some orders of arrival: it may find fewer than all allowed outcomes.
    if bool(actual) != bool(allowed) or not actual <= allowed:
        fields.append("preemption")
    return fields


def comparable(decision: Json, field: str) -> Any:
    """Return one field without the order of names and without scores of 0."""
    value = decision[field]
    match field:
        case "feasible" | "best":
            return sorted(value)
        case "rejected":
            return {
                node: {**rejection, "reasons": sorted(rejection["reasons"])}
                for node, rejection in value.items()
            }
        case "preFilterRejected":
            return value and {**value, "reasons": sorted(value["reasons"])}
        case "scores":
            return {
                node: {plugin: score for plugin, score in scores.items() if score}
                for node, scores in value.items()
            }
        case _:
            return value


def outcomes(preemption: Json | None) -> set[tuple[str, tuple[str, ...]]]:
    """Return the allowed outcomes of a preemption; empty without one."""
    if preemption is None:
        return set()
    return {
        (outcome["nominatedNode"], tuple(sorted(outcome["victims"])))
        for outcome in preemption.get("acceptable", [preemption])
    }


def differing_config(case: Json, answer: Json) -> list[str]:
    """Return the fields of a loaded configuration that differ from the recorded ones."""
    if answer.get("id") != case["id"] or "expected" not in answer:
        return [answer.get("panic", "no answer")]
    recorded, got = case["expected"], answer["expected"]
    fields = [
        field
        for field in ("stage", "effective", "profiles")
        if recorded.get(field) != got.get(field)
    ]
    if got.get("error") not in [recorded["error"], *recorded.get("acceptable", [])]:
        fields.append("error")
    return fields


if __name__ == "__main__":
    sys.exit(main())
