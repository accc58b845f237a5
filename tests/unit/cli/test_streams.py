"""Standard streams that are closed or full are reported where they are used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import ROOT, SAMPLE_CLUSTER

EXPLAIN = ("explain", "-f", SAMPLE_CLUSTER, "web-7")
CAPACITY = ("capacity", "-f", SAMPLE_CLUSTER, "web-7")
SIMULATE = ("simulate", "-f", SAMPLE_CLUSTER)
COMMANDS = [
    pytest.param(EXPLAIN, id="explain"),
    pytest.param(CAPACITY, id="capacity"),
    pytest.param(SIMULATE, id="simulate"),
    pytest.param(("config", "view"), id="config view"),
]


def with_streams(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a new process, with streams redirected by a shell."""
    command = [sys.executable, "-m", "kubesched.cli.main", *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [
        pytest.param(">&-", "Bad file descriptor", id="closed"),
        pytest.param(">/dev/full", "No space left on device", id="full"),
    ],
)
def test_output_that_cannot_be_written_is_reported(
    command: tuple[str, ...], redirection: str, reason: str
) -> None:
    ran = with_streams(redirection, *command)
    problem = [line for line in ran.stderr.splitlines() if not line.startswith("note: ")]
    assert (ran.returncode, problem) == (1, [f"kubesched: standard output: {reason}"])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("redirection", ["<&-", "2>&-"])
def test_a_closed_stream_that_is_not_used_is_no_error(
    command: tuple[str, ...], redirection: str
) -> None:
    ran = with_streams(redirection, *command)
    assert ran.returncode == 0
    assert ran.stdout.strip()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("explain", "-f", "-", "web-7"), id="manifests"),
        pytest.param((*EXPLAIN, "--config", "-"), id="a configuration"),
        pytest.param(("simulate", "-f", "-"), id="a scenario"),
        pytest.param((*SIMULATE, "--config", "-"), id="its configuration"),
        pytest.param(("config", "validate", "-f", "-"), id="a configuration to check"),
        pytest.param(("decide", "--cases", "-"), id="cases"),
    ],
)
def test_input_that_cannot_be_read_is_reported(command: tuple[str, ...]) -> None:
    ran = with_streams("<&-", *command)
    assert (ran.returncode, ran.stderr) == (
        1,
        "kubesched: standard input: Bad file descriptor\n",
    )


def test_a_file_is_written_without_standard_output(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    ran = with_streams(">&-", *SIMULATE, "--output", str(file))
    assert (ran.returncode, file.read_text()) == (0, with_streams("", *SIMULATE).stdout)


def test_an_error_names_the_file_of_a_report() -> None:
    ran = with_streams("", *SIMULATE, "--output", "/dev/full")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "kubesched: /dev/full: No space left on device"


def test_an_error_names_the_file_of_decisions(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text("{}\n")
    ran = with_streams("", "decide", "--cases", str(cases), "--output", "/dev/full")
    assert (ran.returncode, ran.stderr) == (1, "kubesched: /dev/full: No space left on device\n")
