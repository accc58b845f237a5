"""The `kubesched config` commands."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kubesched.cli.main import cli

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["config", *arguments], input=stdin)


def test_view_prints_the_defaults_without_a_file() -> None:
    result = run("view")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["parallelism"] == 16
    assert result.stderr == ""


def test_view_reads_standard_input() -> None:
    result = run("view", "-f", "-", stdin=HEAD + "parallelism: 3\n")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["parallelism"] == 3


def test_validate_accepts_a_valid_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HEAD)
    result = run("validate", "-f", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "valid\n", "")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("foo: 1\n", 'strict decoding error: unknown field "foo"\n'),
        (
            "parallelism: 0\n",
            "parallelism: Invalid value: 0: should be an integer value greater than zero\n",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: X}]}}}]\n",
            (
                "initializing profiles: creating profile for scheduler name default-scheduler: "
                'FilterPlugin "X" does not exist\n'
            ),
        ),
    ],
)
@pytest.mark.parametrize("command", ["view", "validate"])
def test_an_error_is_printed_alone(command: str, body: str, error: str) -> None:
    result = run(command, "-f", "-", stdin=HEAD + body)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", error)


def test_an_error_of_several_lines_is_printed_unchanged() -> None:
    result = run("validate", "-f", "-", stdin="a: 1\n\nb: 2\n")
    assert result.stderr == "Object 'Kind' is missing in 'a: 1\n\nb: 2\n'\n"


def test_hints_follow_the_error_on_request() -> None:
    result = run("validate", "--hints", "-f", "-", stdin=HEAD + "paralelism: 1\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        'strict decoding error: unknown field "paralelism"',
        "hint: paralelism: did you mean parallelism?",
    ]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = run("validate", "-f", str(tmp_path / "none"))
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)
    assert "none: No such file or directory" in missing.stderr
    folder = run("view", "-f", str(tmp_path))
    assert (folder.exit_code, folder.stderr.count("\n")) == (1, 1)
    binary = run("validate", "-f", "-", stdin=b"\xff\xfe\x00")
    assert binary.exit_code == 1
    assert "standard input: not UTF-8" in binary.stderr


def test_convert_prints_the_file_and_lists_the_changes() -> None:
    old = HEAD.replace("/v1\n", "/v1beta3\n") + "metricsBindAddress: ''\n"
    result = run("convert", "-f", "-", stdin=old)
    assert result.exit_code == 0
    assert result.stdout == HEAD
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["changed", "changed"]


def test_convert_rejects_other_documents() -> None:
    result = run("convert", "-f", "-", stdin="kind: Pod\n")
    assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize("command", [[], ["view"], ["validate"], ["convert"]])
def test_help_has_examples(command: list[str]) -> None:
    assert "Examples:" in run(*command, "--help").output
