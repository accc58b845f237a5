"""Runs the same burst through kube-scheduler's code (`oracle bench`)."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.burst_result import BurstResult
from benchmarks.generate import Line
from benchmarks.workload import Workload

BUILD = Path(__file__).resolve().parents[1] / "conformance" / "build.sh"


class OracleRun(BurstResult, frozen=True, kw_only=True):
    """One drain of the oracle, as it prints it."""

    percentage: int


@dataclass(frozen=True, slots=True)
class OracleFigures:
    """All drains of one workload: with all nodes evaluated, and with its own sampling."""

    runs: tuple[OracleRun, ...]

    def rate(self, percentage: int) -> float:
        """Return the median of decisions a second."""
        return median(run.rate for run in self._at(percentage))

    def cpu_rate(self, percentage: int) -> float:
        """Return the median of decisions a second of processor time."""
        return median(run.cpu_rate for run in self._at(percentage))

    def _at(self, percentage: int) -> list[OracleRun]:
        return [run for run in self.runs if run.percentage == percentage]


def build_oracle() -> Path:
    """Return the path of the oracle; build it if necessary."""
    built = subprocess.run([BUILD], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.splitlines()[-1])


def ask_oracle(
    program: Path, workload: Workload, lines: Iterable[Line], *, runs: int, seconds_max: float
) -> OracleFigures | None:
    """Return the oracle's figures; None if the workload has plugins that it cannot run."""
    if workload.user_plugins:
        return None
    with tempfile.TemporaryDirectory() as directory:
        cluster = Path(directory) / "cluster.jsonl"
        with cluster.open("wb") as out:
            out.writelines(line.data + b"\n" for line in lines)
        command = [str(program), "bench", "--percentages", "100,0"]
        command += ["--runs", str(runs), "--seconds", str(seconds_max)]
        if workload.config is not None:
            config = Path(directory) / "config.json"
            config.write_bytes(msgspec.json.encode(workload.config))
            command += ["--config", str(config)]
        with cluster.open("rb") as objects:
            answer = subprocess.run(command, stdin=objects, stdout=subprocess.PIPE, check=True)
    decode = msgspec.json.Decoder(OracleRun).decode
    return OracleFigures(tuple(decode(line) for line in answer.stdout.splitlines()))
