"""Runs of the command line in this process, with their own streams.

Owns the result of a run: exit status and both streams. An exception that leaves `run` fails
the test, as it would show a user a traceback.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kubesched.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
SAMPLE_CLUSTER = str(ROOT / "examples" / "cluster")
EXAMPLE_PLUGINS = ROOT / "examples" / "plugins"


@dataclass(frozen=True)
class Run:
    """The result of a run of the command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the output, read as JSON."""
        return json.loads(self.out)


def kubesched(*arguments: str, stdin: bytes = b"") -> Run:
    """Run the command; return its status and output."""
    with CliRunner().isolation(input=stdin) as (out, err, _):
        try:
            status = run(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        return Run(status, out.getvalue().decode(), err.getvalue().decode())


def is_one_line(text: str) -> bool:
    """Return whether a text is exactly one line that is not blank."""
    return text.endswith("\n") and text.count("\n") == 1 and bool(text.strip())
