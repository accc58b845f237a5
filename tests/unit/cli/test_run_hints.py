"""`kubesched run` prints hints on a configuration that it rejects."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.running import ROOT, kubesched

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FAULTS = [
    pytest.param(
        HEAD + "paralelism: 1\n", "paralelism: did you mean parallelism?", id="a misspelled field"
    ),
    pytest.param(
        HEAD.replace("/v1", "/v1beta3"),
        "kubescheduler.config.k8s.io/v1beta3 is no longer served: rewrite the file with "
        "`kubesched config convert`",
        id="an old version",
    ),
    pytest.param(
        HEAD + "profiles: [{plugins: {score: {enabled: [{name: NodeAfinity}]}}}]\n"
        "leaderElection: {leaderElect: false}\n",
        "there is no plugin NodeAfinity, did you mean NodeAffinity?",
        id="an error of the build",
    ),
]


@pytest.mark.parametrize(("text", "hint"), FAULTS)
def test_the_log_has_a_hint_after_the_error(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    flags = (f"--config={path}", "--logging-format=json", "--master=http://127.0.0.1:1")
    ran = kubesched("run", *flags)
    assert ran.status == 1
    *_, failed, hinted = map(json.loads, ran.err.splitlines())
    assert failed["msg"] == "command failed"
    assert hint not in failed["err"]
    assert (hinted["msg"], hinted["hint"]) == ("Hint", hint)


def test_kubeconfig_is_ignored_beside_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD)
    ran = kubesched("run", f"--config={path}", "--kubeconfig=any", "--logging-format=json")
    assert ran.status == 1
    *_, failed, hinted = map(json.loads, ran.err.splitlines()[-2:])
    assert failed["err"].startswith("invalid configuration: no configuration has been provided")
    assert hinted["hint"] == (
        "--kubeconfig is ignored with --config: set clientConnection.kubeconfig in the file, "
        "or KUBECONFIG"
    )


@pytest.mark.slow
def test_a_terminal_shows_hints_as_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD + "paralelism: 1\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kubesched.cli.main", "run", f"--config={path}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stderr=theirs, env=env)
    os.close(theirs)
    assert process.wait(timeout=30) == 1
    shown = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert '"command failed"' in shown[0]
    assert shown[-1] == "hint: paralelism: did you mean parallelism?"


def test_no_hint_for_an_unknown_error(tmp_path: Path) -> None:
    ran = kubesched("run", f"--config={tmp_path}/nowhere.yaml")
    assert "Hint" not in ran.err
    assert "hint:" not in ran.err
