"""A `kubesched playground` process for upstream's specs.

Owns its start and end. All components are kubesched's: API server, controllers, kubelets,
scheduler.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 60.0
READY = "Press Ctrl-C to stop"


@dataclass(frozen=True, slots=True)
class OwnPlayground:
    """A running playground."""

    kubeconfig: Path
    """The administrator's kubeconfig."""
    pid: int


@contextmanager
def own_playground(*, nodes: int, flags: tuple[str, ...] = ()) -> Iterator[OwnPlayground]:
    """Run a playground until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="kubesched-playground-") as directory:
        kubeconfig, output = Path(directory, "kubeconfig"), Path(directory, "output")
        command = [
            str(Path(sys.executable).with_name("kubesched")),
            "playground",
            f"--nodes={nodes}",
            "--port=0",
            f"--write-kubeconfig={kubeconfig}",
            *flags,
        ]
        with output.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            until_ready(process, output)
            yield OwnPlayground(kubeconfig, process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_S_MAX)


def until_ready(process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until it is ready."""
    deadline_s = time.monotonic() + START_S_MAX
    while READY not in output.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise SystemExit(f"the playground did not start:\n{output.read_text()[-3000:]}")
        time.sleep(0.1)
