"""`kubesched playground` as a process, and kubectl on it.

Owns its start and end and what it prints. Expected values are never computed here.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml

from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.playground.in_process import kubectl_path
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import Api

KUBESCHED = Path(sys.prefix) / "bin" / "kubesched"
START_S = 45.0


@dataclass(slots=True)
class Command:
    """One run of the command; `with` ends it."""

    directory: Path
    """Where its files go, in place of the user's cache."""
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=lambda: free_ports(1)[0])
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        cache = self.directory / "cache"
        built = cache / "kubesched" / "control-plane"
        if not built.is_symlink():  # Nothing is there if nothing was built.
            built.parent.mkdir(parents=True, exist_ok=True)
            built.symlink_to(Programs.built().root.parent)
        with self.output_path.open("wb") as output:
            self.process = subprocess.Popen(
                [str(KUBESCHED), "playground", f"--port={self.port}", *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_CACHE_HOME": str(cache), **self.environment},
                cwd=self.directory,
                start_new_session=True,
            )
        return self

    def __exit__(self, *raised: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(START_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def output_path(self) -> Path:
        return self.directory / "playground.out"

    @property
    def output(self) -> str:
        """Return its output."""
        return self.output_path.read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def until(
        self, predicate: Callable[[], object], condition: str, timeout_s: float = START_S
    ) -> None:
        """Wait for a condition; fail with its description and the output."""
        assert self.process is not None
        try:
            until(lambda: predicate() or self._check(), condition, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def _check(self) -> bool:
        assert self.process is not None
        status = self.process.poll()
        assert status is None, f"it ended with {status}"
        return False

    def until_ready(self) -> Self:
        """Wait until it has printed the first steps."""
        self.until(lambda: "Press Ctrl-C to stop." in self.output, "the playground is ready")
        return self

    def steps(self) -> list[str]:
        """Return the lines it prints for the other terminal, as they are."""
        match = re.search(r"another terminal:\n((?:  .*\n)+)", self.output)
        assert match is not None, self.output
        return [line.strip() for line in match[1].splitlines()]

    @property
    def kubeconfig(self) -> Path:
        """Return the path in the export line."""
        name, _, path = shlex.split(self.steps()[0])[1].partition("=")
        assert name == "KUBECONFIG"
        return Path(path)

    def api(self) -> Api:
        """Return a client of the kubeconfig's user."""
        document = yaml.safe_load(self.kubeconfig.read_text())
        ca_file = self.directory / "ca.crt"
        cluster = document["clusters"][0]["cluster"]
        ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        token = document["users"][0]["user"]["token"]
        return Api(cluster["server"], token=token, ca_file=ca_file)

    def kubectl(self, *arguments: str, program: str = "kubectl") -> str:
        """Run kubectl; return its output."""
        return self.run_line(shlex.join(["kubectl", *arguments]), program)

    def run_line(self, line: str, program: str = "kubectl") -> str:
        """Run a line that begins with kubectl, by one of the programs of that name."""
        name, *arguments = shlex.split(line)
        assert name == "kubectl"
        completed = subprocess.run(
            [kubectl_path(program), *arguments],
            env={
                **os.environ,
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.directory),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert completed.returncode == 0, (
            f"{line}: {completed.stdout}{completed.stderr}\n{self.output}"
        )
        return completed.stdout

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end; return its exit status."""
        assert self.process is not None
        return self.process.wait(START_S)

    def children(self) -> list[int]:
        """Return the processes that it has started (Linux)."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


def blocks_of(text: str, language: str = "") -> list[str]:
    """Return the code blocks of a page that are in a language; commands have none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for named, block in found if named == language]


def has_kubelet(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
