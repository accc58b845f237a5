"""Asks the oracle again for the recorded samples, and compares.

Owns the proof that the oracle on this machine is the scheduler which the samples came from. Never
asks kubesched itself: tests/parity does, without the oracle.

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
    """Replay both samples; 1 if the oracle says anything else than was recorded."""
    parser = argparse.ArgumentParser(description="Replay the recorded samples through the oracle.")
    parser.add_argument("oracle", type=Path, help="the binary that conformance/build.sh made")
    options = parser.parse_args(arguments)

    different = replay(options.oracle, "decide", "decisions-sample.jsonl.gz", differing_decision)
    different += replay(options.oracle, "config", "config-sample.jsonl.gz", differing_config)
    return 1 if different else 0


def replay(
    oracle: Path, command: str, sample: str, differing: Callable[[Json, Json], list[str]]
) -> int:
    """Return how many cases of one sample came out differently, each named on standard error."""
    with gzip.open(DATA / sample, mode="rt", encoding="utf-8") as file:
        recorded = [json.loads(line) for line in file if line.strip()]
    answers = ask(oracle, command, recorded)
    different = 0
    for case, answer in zip(recorded, answers, strict=True):
        fields = differing(case, answer)
        if fields:
            different += 1
            print(f"{sample}: {case['id']}: differs in {', '.join(fields)}", file=sys.stderr)
    print(f"oracle {command}: {len(recorded) - different} of {len(recorded)} as recorded")
    return different


def ask(oracle: Path, command: str, cases: list[Json]) -> list[Json]:
    """Return the oracle's answers, in the order of the cases, which it sees without the results."""
    results = {"decision", "expected"}
    questions = "".join(
        json.dumps({key: value for key, value in case.items() if key not in results}) + "\n"
        for case in cases
    )
    done = subprocess.run(
        [oracle, command], input=questions, stdout=subprocess.PIPE, check=True, encoding="utf-8"
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
    seen, allowed = outcomes(got["preemption"]), outcomes(recorded["preemption"])
    # The oracle tries some orders of arrival: it may see fewer outcomes than can happen, no others.
    if bool(seen) != bool(allowed) or not seen <= allowed:
        fields.append("preemption")
    return fields


def comparable(decision: Json, field: str) -> Any:
    """Return one field without what carries no meaning: order of names, scores of 0."""
    value = decision[field]
    match field:
        case "feasible" | "best":
            return sorted(value)
        case "rejected":
            return {node: {**why, "reasons": sorted(why["reasons"])} for node, why in value.items()}
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
    """Return every outcome a preemption allows, none if there is none."""
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
