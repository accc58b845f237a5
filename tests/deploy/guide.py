"""Runs the commands of docs/deploy.md on a cluster.

Owns their environment: a folder with deploy/ and examples/, kubectl, helm and kubesched on the
PATH, and a sudo for files of the control-plane node. Expected values are never computed here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.playground.in_process import playground
from kubesched.kit.clock import SystemClock
from tests.deploy.node_agent import NodeAgent, label_control_plane
from tests.examples.following import Step, prints, sections
from tests.playground.commands import KUBESCHED

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "deploy.md"
KUBEADM = Path(__file__).with_name("kubeadm-kube-scheduler.yaml")
_LOOKING = re.compile(r"kubectl (-n \S+ )?get [^>]*$")
_LINE_S = 60
# The node's files are in the reader's folder.
_SUDO = '#!/usr/bin/env bash\nexec "${@//\\/etc\\/kubernetes/$HOME/etc/kubernetes}"\n'


@dataclass(slots=True)
class Reader:
    """A reader who types the commands of the page, on a cluster like kubeadm's."""

    agent: NodeAgent
    directory: Path

    def follow(self, title: str) -> None:
        """Run every step under a title."""
        for step in sections(GUIDE)[title]:
            self.do(step)

    def do(self, step: Step) -> None:
        """Run a command; repeat a read-only one until its output matches the page."""
        completed = self.run(step.line)
        clock = SystemClock()
        end_s = clock.monotonic_s() + _LINE_S
        while _LOOKING.match(step.line) and not _output_matches(completed, step):
            assert clock.monotonic_s() < end_s, (
                f"{step.line}:\n{completed.stdout}{completed.stderr}"
            )
            assert self.agent.problem is None, self.agent.problem
            completed = self.run(step.line)
        assert _output_matches(completed, step), (
            f"{step.line}:\n{completed.stdout}{completed.stderr}"
        )

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line unchanged."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.directory,
            env={
                **os.environ,
                "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
                "HOME": str(self.directory),
                "KUBECONFIG": str(self.agent.cluster.kubeconfig),
                "COLUMNS": "120",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LINE_S,
            check=False,
        )


@contextmanager
def reading(directory: Path, *, nodes: int = 4) -> Iterator[Reader]:
    """Run a real cluster as kubeadm sets it up, with kube-scheduler as a static pod."""
    place_programs(directory)
    with playground(nodes=nodes, scheduler=False, server="real", controllers="real") as cluster:
        label_control_plane(cluster)
        agent = NodeAgent(cluster, directory)
        shutil.copy(KUBEADM, agent.etc / "manifests" / "kube-scheduler.yaml")
        with agent.at_work():
            yield Reader(agent, directory)


def place_programs(directory: Path) -> None:
    """Prepare a folder with a checkout and programs."""
    programs = directory / "bin"
    programs.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).symlink_to(Programs.built().path(name))
    (programs / "kubesched").symlink_to(KUBESCHED)
    sudo = programs / "sudo"
    sudo.write_text(_SUDO)
    sudo.chmod(0o755)
    for name in ("deploy", "examples"):
        (directory / name).symlink_to(ROOT / name)


def _output_matches(completed: subprocess.CompletedProcess[str], step: Step) -> bool:
    return completed.returncode == 0 and prints(completed.stdout + completed.stderr, step.expected)
