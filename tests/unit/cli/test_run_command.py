from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from kubesched.run.options.scheduler_flags import scheduler_flags
from tests.unit.cli.running import kubesched

BAD_INT = (
    'invalid argument "x" for "--kube-api-burst" flag: '
    'strconv.ParseInt: parsing "x": invalid syntax'
)


def test_help_has_every_flag_in_its_group() -> None:
    text = kubesched("run", "--help").out
    groups = re.findall(r"^(\w.*) flags:$", text, re.MULTILINE)
    assert groups == [
        "Misc", "Secure serving", "Authentication", "Authorization", "Deprecated",
        "Leader election", "Feature gate", "Metrics", "Logs", "Kubesched", "Global",
    ]  # fmt: skip
    shown = re.findall(r"^(?:  -\w, |      )--([\w-]+)", text, re.MULTILINE)
    assert sorted(shown) == [flag.name for flag in scheduler_flags()]


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_help_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    widths = [len(line) for line in kubesched("run", "--help").out.splitlines()]
    assert columns - 20 < max(widths) <= columns


def test_help_takes_precedence_over_invalid_values() -> None:
    ran = kubesched("run", "-h", "word", "--feature-gates=Bogus=true", "--secure-port=-1")
    assert (ran.status, ran.err) == (0, "")


def test_the_version_has_that_of_kubernetes_and_ours() -> None:
    ran = kubesched("run", "--version")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == f"Kubernetes v1.36.4 (kubesched {version('kubesched')})\n"


def test_the_raw_version_has_its_parts() -> None:
    ran = kubesched("run", "--version=raw", "--emulated-version=1.34")
    assert ran.out.startswith('version.Info{Major:"1", Minor:"36", EmulationMajor:"1", ')
    assert 'EmulationMinor:"34"' in ran.out
    assert 'GitVersion:"v1.36.4"' in ran.out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["-z"], "unknown shorthand flag: 'z' in -z"),
        (["--config"], "flag needs an argument: --config"),
        (["--", "x"], '"kube-scheduler" does not take any arguments, got ["x"]'),
        (
            ["--leader-elect", "maybe"],
            '"kube-scheduler" does not take any arguments, got ["maybe"]',
        ),
        (["--kube-api-burst=x"], BAD_INT),
    ],
)
def test_an_invalid_command_line_ends_with_the_error(arguments: list[str], error: str) -> None:
    ran = kubesched("run", *arguments)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("Usage: kubesched run [flags]\n")
    assert ran.err.endswith(f"\nError: {error}\n")


def test_a_misspelled_flag_is_recognized() -> None:
    ran = kubesched("run", "--leader-elct")
    assert "\nDid you mean --leader-elect?\n" in ran.err
    assert "Did you mean" not in kubesched("run", "--quite-another-thing").err


def test_the_flag_with_a_bad_value_is_explained() -> None:
    assert "Port to serve HTTPS on" in kubesched("run", "--secure_port=x").err


def test_invalid_logging_options_are_reported_as_plain_text() -> None:
    ran = kubesched("run", "--logging-format=xml")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == 'format: Invalid value: "xml": Unsupported log format\n'


def test_other_errors_are_logged() -> None:
    ran = kubesched("run", "--secure-port=-1")
    assert (ran.status, ran.out) == (1, "")
    place = r"E\d{4} [\d:.]+ +\d+ command\.py:\d+\]"
    line = place + r' "command failed" err="--secure-port -1 must be .*"\n'
    assert re.fullmatch(line, ran.err)


def test_other_errors_are_logged_as_json_on_request() -> None:
    ran = kubesched("run", "--secure-port=-1", "--logging-format=json")
    logged = json.loads(ran.err)
    assert (ran.status, logged["msg"]) == (1, "command failed")
    assert logged["err"].startswith("--secure-port -1 must be between 0 and 65535")


def test_errors_in_a_file_are_logged(tmp_path: Path) -> None:
    ran = kubesched("run", f"--config={tmp_path}/nowhere.yaml")
    assert ran.status == 1
    assert f'err="open {tmp_path}/nowhere.yaml: no such file or directory"' in ran.err
