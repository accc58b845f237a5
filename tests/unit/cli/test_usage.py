import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import ROOT, SAMPLE_CLUSTER, is_one_line, kubesched


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param("unknown", "No such command 'unknown'", id="no such command"),
        pytest.param("--unknown", "No such option", id="no such option"),
        pytest.param("explain", "Missing option '-f' / '--file'", id="explain without files"),
        pytest.param("explain .", "'--file'. Did you mean -f .?", id="a file for a pod"),
        pytest.param("explain -f a b c", "unexpected extra argument", id="two pods"),
        pytest.param("explain -f a -o xml", "'xml' is not one of", id="no such output"),
        pytest.param(
            "explain -f - -f - a", "standard input can be read only once", id="stdin twice"
        ),
        pytest.param(
            "explain -f - --config - a", "standard input can be read only once", id="stdin for two"
        ),
        pytest.param("explain -f a --plugin x", "'x' is not MODULE:CLASS", id="no class"),
        pytest.param(
            "explain -f a --plugin no.such.module:X", "cannot import no.such.module", id="no module"
        ),
        pytest.param(
            "explain -f a --plugin no_such_file.py:X", "cannot import no_such_file.py", id="no file"
        ),
        pytest.param("explain -f a --plugin json:No", "json has no class No", id="no such class"),
        pytest.param(
            "explain -f a --plugin fractions:Fraction", "extends no extension point", id="no plugin"
        ),
        pytest.param("decide", "Missing option '--cases'", id="decide without cases"),
        pytest.param("decide --cases no/such/file", "no/such/file", id="a missing file of cases"),
        pytest.param(
            "config unknown", "No such command 'unknown'", id="no such command in a group"
        ),
        pytest.param("config validate", "Missing option '-f' / '--file'", id="nothing to validate"),
        pytest.param("config convert", "Missing option '-f' / '--file'", id="nothing to convert"),
        pytest.param("config view extra", "unexpected extra argument", id="an extra argument"),
    ],
)
def test_an_invalid_command_line_is_one_line_and_status_two(arguments: str, problem: str) -> None:
    ran = kubesched(*arguments.split())
    assert ran.status == 2
    assert problem in ran.err
    assert is_one_line(ran.err)
    assert ran.err.startswith("kubesched: ")
    assert ran.out == ""


@pytest.mark.parametrize("group", ["", "config"])
def test_a_group_without_a_command_prints_its_help(group: str) -> None:
    ran = kubesched(*group.split())
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == kubesched(*group.split(), "--help").out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param("explain -f {tmp}/no.yaml", "no.yaml: No such file", id="no manifest"),
        pytest.param("explain -f {tmp}", "the directory has no", id="an empty directory"),
        pytest.param(
            "explain -f {cluster} --config {tmp}/no.yaml web-7",
            "no.yaml: No such file",
            id="no configuration",
        ),
        pytest.param(
            "explain -f {cluster} --config {tmp} web-7",
            "Is a directory",
            id="a directory for a configuration",
        ),
        pytest.param("config view -f {tmp}/no.yaml", "no.yaml: No such file", id="nothing to view"),
        pytest.param("config validate -f {tmp}", "Is a directory", id="a directory to validate"),
        pytest.param("config convert -f {tmp}/no", "no: No such file", id="nothing to convert"),
    ],
)
def test_an_unreadable_file_is_one_line_and_status_one(
    tmp_path: Path, arguments: str, problem: str
) -> None:
    ran = kubesched(*arguments.format(tmp=tmp_path, cluster=SAMPLE_CLUSTER).split())
    assert ran.status == 1
    assert is_one_line(ran.err)
    assert ran.err.startswith("kubesched: ")
    assert problem in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(
            ("explain", "-f", SAMPLE_CLUSTER, "web-7", "-o", "decision"), id="written by click"
        ),
        pytest.param(("explain", "-f", SAMPLE_CLUSTER, "web-7"), id="written by the printer"),
        pytest.param(("simulate", "-f", SAMPLE_CLUSTER), id="simulate"),
        pytest.param(("--help",), id="help"),
    ],
)
def test_a_closed_pipe_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kubesched.cli.main", *arguments]
    try:
        ran = subprocess.run(
            command,
            stdout=writing,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            check=False,
        )
    finally:
        os.close(writing)
    assert b"Error" not in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert ran.returncode == 0
