"""Checks `make playground`: starts it, runs the printed commands, and stops it.

With kubectl on the PATH, every printed command runs; otherwise a deployment is created over HTTP.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubesched.kit.clock import SystemClock
from kubesched.testing import Api

START_S_MAX = 30.0
"""The documented start takes five seconds; a busy machine needs more."""
RUN_S_MAX = 60.0


class CheckError(Exception):
    """A failed check."""


def main(kubesched: str) -> int:
    """Run the check; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="kubesched-check-") as directory:
        output = Path(directory) / "output"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [kubesched, "playground", "--port=0"],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_CACHE_HOME": directory},
            )
        try:
            run_commands(process, output)
        except (CheckError, subprocess.SubprocessError) as problem:
            print(f"{output.read_text()}\nplayground: {problem}", file=sys.stderr)
            return 1
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        print(output.read_text())
    return 0


def run_commands(process: subprocess.Popen[bytes], output: Path) -> None:
    """Run the commands that the playground prints, then stop it."""
    started_s = SystemClock().monotonic_s()
    wait(process, lambda: "Press Ctrl-C to stop." in output.read_text(), "it is ready", START_S_MAX)
    print(f"ready after {SystemClock().monotonic_s() - started_s:.1f} s")
    found = re.search(r"another terminal:\n((?:  .*\n)+)", output.read_text())
    if found is None:
        raise CheckError("it printed no commands")
    export, *lines = [line.strip() for line in found[1].splitlines()]
    kubeconfig = Path(shlex.split(export)[1].partition("=")[2])
    if shutil.which("kubectl"):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        for line in lines:
            print(f"$ {line}", flush=True)
            subprocess.run(shlex.split(line), check=True, env=environment, timeout=RUN_S_MAX)
    else:
        run_deployment(process, kubeconfig)
    process.send_signal(signal.SIGINT)
    if status := process.wait(START_S_MAX):
        raise CheckError(f"it ended with status {status}")
    if "Next steps:" not in output.read_text():
        raise CheckError("it did not print the next steps")


def run_deployment(process: subprocess.Popen[bytes], kubeconfig: Path) -> None:
    """Run a deployment of three pods."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "nginx", "image": "nginx"}]}
    spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    with api_of(kubeconfig) as api:
        api.post(path, {"metadata": {"name": "web"}, "spec": spec}).must(201)

        def is_available() -> bool:
            status: dict[str, Any] = api.get(f"{path}/web").must(200).json.get("status", {})
            return status.get("availableReplicas") == 3

        wait(process, is_available, "three pods run", RUN_S_MAX)
    print("three pods run")


def api_of(kubeconfig: Path) -> Api:
    """Return a client of the kubeconfig's user."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    ca_file = kubeconfig.with_name("ca.crt")
    ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    token = document["users"][0]["user"]["token"]
    return Api(cluster["server"], token=token, ca_file=ca_file)


def wait(
    process: subprocess.Popen[bytes], condition: Callable[[], bool], text: str, timeout_s: float
) -> None:
    """Wait for a condition; CheckError at the timeout, or if the playground ends before."""
    deadline_s = SystemClock().monotonic_s() + timeout_s
    while not condition():
        if process.poll() is not None:
            raise CheckError(f"it ended with status {process.returncode} before {text}")
        if SystemClock().monotonic_s() > deadline_s:
            raise CheckError(f"timeout after {timeout_s:g} s before {text}")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
