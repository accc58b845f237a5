"""The two sides: the oracle's process, and kubesched in this process.

Owns starting the oracle and reading its lines. Never compares.
Upstream: none; the oracle drives pkg/scheduler.
"""

import importlib
import json
import os
import subprocess
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Obj = dict[str, Any]

BUILD = Path(__file__).resolve().parents[1] / "build.sh"


class OracleError(Exception):
    """The oracle could not be built or did not respond."""


class Oracle:
    """The Go program that drives kube-scheduler's own code."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def build(cls) -> "Oracle":
        """Return the oracle at the path in KUBESCHED_ORACLE, or build it."""
        named = os.environ.get("KUBESCHED_ORACLE")
        if named:
            return cls(Path(named))
        done = subprocess.run([str(BUILD)], stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            raise OracleError(f"{BUILD.name} failed with status {done.returncode}")
        return cls(Path(lines[-1]))

    def stored(self, cases: Sequence[Obj]) -> list[Obj]:
        """Return the cases as the API server would store their objects."""
        return self._ask(["stored"], cases)

    def decide(self, cases: Sequence[Obj], orders: int | None = None) -> list[Obj]:
        """Return one result per case: `decision`, or `panic` with a text."""
        flags = [] if orders is None else ["--orders", str(orders)]
        return self._ask(["decide", *flags], cases)

    def config(self, cases: Sequence[Obj]) -> list[Obj]:
        """Load each configuration with kube-scheduler's code."""
        return self._ask(["config"], cases)

    def _ask(self, command: list[str], cases: Sequence[Obj]) -> list[Obj]:
        if not cases:
            return []
        text = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run(
            [str(self._path), *command],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        answers = [json.loads(line) for line in done.stdout.split("\n") if line.strip()]
        if len(answers) != len(cases):
            tail = done.stderr.strip().splitlines()[-3:]
            raise OracleError(
                f"oracle {command[0]}: {len(answers)} answers to {len(cases)} cases, "
                f"status {done.returncode}: {' | '.join(tail)}"
            )
        return answers


def our_decision(case: Obj) -> Obj:
    """Return `{"decision": ...}`, or `{"crash": text}` when kubesched raised."""
    # Imported on demand: the generators and the oracle work without kubesched.
    decide_case = importlib.import_module("kubesched.cli.decide").decide_case
    undecided = {key: value for key, value in case.items() if key != "decision"}
    try:
        return {"decision": decide_case(undecided)}
    except Exception as error:  # noqa: BLE001 - a crash is a finding, and is reported as one
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        return {"crash": f"{type(error).__name__}: {error} ({place})"}
