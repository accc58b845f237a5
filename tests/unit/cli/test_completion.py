"""Completions in shells, tested with a real bash if there is one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import ROOT, kubesched

BASH = shutil.which("bash")


@pytest.mark.parametrize(
    ("shell", "part"),
    [
        ("bash", "complete -o nosort -F _kubesched_completion kubesched"),
        ("zsh", "#compdef kubesched"),
        ("fish", "complete --no-files --command kubesched"),
    ],
)
def test_a_script_for_each_shell(shell: str, part: str) -> None:
    ran = kubesched("completion", shell)
    assert (ran.status, ran.err) == (0, "")
    assert part in ran.out
    assert f"_KUBESCHED_COMPLETE={shell}_complete" in ran.out


def test_other_shells_are_rejected() -> None:
    ran = kubesched("completion", "powershell")
    assert ran.status == 2
    assert "'powershell' is not one of 'bash', 'fish', 'zsh'" in ran.err


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the command in it."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "kubesched"
    code = "from kubesched.cli.main import main; main()"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(code)} "$@"\n')
    script.chmod(0o755)
    (folder / "completion").write_text(kubesched("completion", "bash").out)
    return folder


def completed(program: Path, line: str, directory: Path) -> list[str]:
    """Return the completions of bash for a line."""
    # As bash calls a completion: words are split at COMP_WORDBREAKS.
    script = f"""
        source {program}/completion
        # There is no compopt outside of a completion: its -o default completes files.
        compopt() {{ COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]#=}}")); }}
        COMP_LINE={shlex.quote(line)}
        COMP_WORDS=({words_of(line)})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _kubesched_completion kubesched
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    env = {
        **os.environ,
        "PATH": f"{program}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    ran = subprocess.run(
        [str(BASH), "--norc", "--noprofile", "-c", script],
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def words_of(line: str) -> str:
    words = [part for word in line.split(" ") for part in _parted(word)]
    return " ".join(shlex.quote(word) for word in words)


def _parted(word: str) -> list[str]:
    name, equals, value = word.partition("=")
    return [word] if not equals else [name, "=", value] if value else [name, "="]


@pytest.mark.slow
@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        pytest.param("kubesched ex", {"explain", "extender"}, id="commands"),
        pytest.param("kubesched config ", {"view", "validate", "convert"}, id="subcommands"),
        pytest.param("kubesched run --leader-elect-re", {
            "--leader-elect-renew-deadline",
            "--leader-elect-resource-lock",
            "--leader-elect-resource-name",
            "--leader-elect-resource-namespace",
            "--leader-elect-retry-period",
        }, id="kube-scheduler's flags"),
        pytest.param("kubesched doctor --rb", {"--rbac"}, id="flags of doctor"),
        pytest.param("kubesched run --leader-elect=", {"true", "false"}, id="a boolean"),
        pytest.param("kubesched run --logging-format j", {"json"}, id="a choice"),
        pytest.param("kubesched run --logging-format=j", {"json"}, id="behind an equals sign"),
        pytest.param("kubesched explain --out", {"--output"}, id="an option"),
        pytest.param("kubesched completion z", {"zsh"}, id="an argument"),
        pytest.param("kubesched run --config sch", {"scheduler.yaml"}, id="a file"),
        pytest.param("kubesched run --config=sch", {"scheduler.yaml"}, id="a file behind ="),
        pytest.param("kubesched explain -f sch", {"scheduler.yaml"}, id="a file of an option"),
        pytest.param("kubesched run --no-such-flag", set(), id="nothing"),
    ],
)  # fmt: skip
def test_bash_completes(program: Path, tmp_path: Path, line: str, offered: set[str]) -> None:
    (tmp_path / "scheduler.yaml").touch()
    (tmp_path / "other.txt").touch()
    assert set(completed(program, line, tmp_path)) == offered


@pytest.mark.slow
@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_bash_completes_every_command_once(program: Path, tmp_path: Path) -> None:
    commands = kubesched("--help").out.split("Commands:\n")[1].split("\n\n")[0]
    listed = re.findall(r"^  ([a-z-]+)", commands, re.MULTILINE)
    assert completed(program, "kubesched ", tmp_path) == listed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_whole_word(shell: str, program: Path, tmp_path: Path) -> None:
    words = "kubesched run --logging-format=j"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "_KUBESCHED_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": "2" if shell == "zsh" else "--logging-format=j",
    }
    ran = subprocess.run(
        [program / "kubesched"], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "--logging-format=json" in ran.stdout
    assert ran.stderr == ""
