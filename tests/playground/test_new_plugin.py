"""`kubesched new-plugin`: the tests it writes pass, and the commands it prints work."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubesched.cluster.playground.in_process import Playground
from kubesched.testing import a_pod, assert_fits, assert_placed, assert_rejected, assert_waits
from tests.playground.commands import KUBESCHED, Command

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str | Path, cwd: Path, **environment: str) -> str:
    completed = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, **environment},
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def test_its_tests_pass_as_they_are_and_after_the_line_was_edited(tmp_path: Path) -> None:
    steps = run(KUBESCHED, "new-plugin", "EvenZones", cwd=tmp_path)
    (edit,) = (line for line in steps.splitlines() if line.startswith("  sed"))
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert "11 passed" in run(*tests, cwd=tmp_path / "even-zones")
    run(*shlex.split(edit), cwd=tmp_path)
    assert "zone-b" in (tmp_path / "even-zones" / "src" / "even_zones" / "plugin.py").read_text()
    assert "11 passed" in run(*tests, cwd=tmp_path / "even-zones")


@pytest.mark.programs
@pytest.mark.timeout(120)
def test_the_printed_commands_work(tmp_path: Path) -> None:
    lines = run(KUBESCHED, "new-plugin", "EvenZones", cwd=tmp_path).splitlines()
    _, _, edit, start, explain = (line.strip() for line in lines if line.startswith("  "))
    run(*shlex.split(edit), cwd=tmp_path)
    with Command(tmp_path, tuple(shlex.split(start)[2:])) as command:
        command.until_ready()
        assert command.kubeconfig == tmp_path / "even-zones" / "kubeconfig"
        assert command.run_line(explain.replace(" even-zones", f" {tmp_path}/even-zones"))
        # The second of four nodes in zones a, b, c, a.
        command.until(lambda: "default/web -> node-2" in command.output, "the decision is reported")
        pod = json.loads(command.kubectl("get", "pod", "web", "-o", "json"))
        assert pod["spec"]["nodeName"] == "node-2"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_test_kit_works_from_the_built_wheel(tmp_path: Path) -> None:
    tree, site = tmp_path / "tree", tmp_path / "site"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tree)
    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, tree)
    run(sys.executable, *build, cwd=tmp_path)
    (wheel,) = tmp_path.glob("kubesched-*.whl")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        site,
        wheel,
        cwd=site.parent,
    )
    path = run(
        sys.executable,
        "-c",
        "import kubesched; print(kubesched.__file__)",
        cwd=tmp_path,
        PYTHONPATH=str(site),
    )
    assert Path(path.strip()).is_relative_to(site), "the wheel, not the sources"
    command = (sys.executable, "-m", "kubesched.cli.main", "new-plugin", "EvenZones")
    run(*command, cwd=tmp_path, PYTHONPATH=str(site))
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert "11 passed" in run(*tests, cwd=tmp_path / "even-zones", PYTHONPATH=str(site))


@pytest.mark.playground(nodes=3)
def test_assertions_wait_for_a_whole_cluster(playground: Playground) -> None:
    node = {"kubernetes.io/hostname": "node-2"}
    playground.create(a_pod("web", nodeSelector=node), a_pod("big", requests={"cpu": "64"}))
    assert_placed(playground, "web", on="node-2")
    assert_waits(playground, "big", because="3 Insufficient cpu")
    assert_fits(playground, "web", "node-2")
    assert_rejected(playground, "web", "node-1", "node-3", by="NodeAffinity")
    with pytest.raises(AssertionError) as failed:
        assert_placed(playground, "web", on="node-1")
    assert str(failed.value).startswith("default/web is on node-2, not on node-1\n")
    assert "NodeAffinity: node(s) didn't match Pod's node affinity/selector" in str(failed.value)
    with pytest.raises(AssertionError, match="waits, but not because of 'memory'") as failed:
        assert_waits(playground, "big", because="memory")
    assert "lacks 60 cpu on" in str(failed.value)
