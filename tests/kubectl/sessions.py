"""kubectl commands as data: commands.yaml, and the output of both versions in answers/.

Owns how a command is run and its output made comparable. Answers are recorded from kube-apiserver
v1.36.4 (`pytest tests/kubectl --programs --server real --record`) and hold for both servers.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubesched.testing import ApiServer, Programs

HERE = Path(__file__).parent
VERSIONS = {"1.36": "kubectl", "1.32": "kubectl-1.32"}

REPLACED = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"(?!2001)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\w{3}, \d\d \w{3} (?!2001)\d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"""(resourceVersion"?: ?")\d+"""), r"\1RV"),
    (re.compile(r"(Resource Version: +)\d+"), r"\1RV"),
    (re.compile(r"(?<![\w.])\d+(m\d+)?s\b"), "AGE"),
    (re.compile(r"\d+y\d+d \(x3 over \d+y\d+d\)"), "YEARS (x3 over YEARS)"),
    (re.compile(r"\d+y\d+d"), "YEARS"),
    (re.compile(r"\b10\.0\.\d+\.\d+"), "CLUSTER-IP"),
    (re.compile(r"(:|NodePort: .* )3\d{4}/TCP"), r"\1NODE-PORT/TCP"),
    (re.compile(r"kubectl(-1\.32)?-edit-\d+\.yaml"), "kubectl-edit.yaml"),
    (re.compile(r"(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "SERVER"),
]


@dataclass
class Session:
    """One kubectl with one server, in its own namespace."""

    server: ApiServer
    kubectl: Path
    namespace: str
    directory: Path

    @property
    def node(self) -> str:
        """Return the name of the case's own node."""
        return f"node-{self.namespace}"

    def prepare(self) -> None:
        """Write the manifests with the case's own names."""
        for path in (HERE / "manifests").glob("*.yaml"):
            (self.directory / path.name).write_text(self.named(path.read_text()))

    def named(self, text: str) -> str:
        """Return a text with its placeholders replaced."""
        places = {"<ns>": self.namespace, "<node>": self.node, "<manifests>": str(self.directory)}
        for name, value in places.items():
            text = text.replace(name, value)
        return text

    def run(
        self, command: str, *, stdin: str = "", editor: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        env = {
            "HOME": str(self.directory.parent),
            "PATH": "/usr/bin:/bin",
            "KUBECONFIG": str(self.server.kubeconfig),
            "KUBE_EDITOR": f"sed -i -e '{editor}'" if editor else "false",
        }
        return subprocess.run(
            [str(self.kubectl), "-n", self.namespace, *shlex.split(self.named(command))],
            input=self.named(stdin),
            env=env,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def done(self, step: dict[str, Any]) -> list[str]:
        """Do one step and return its output in comparable lines."""
        if "quiet" in step:
            self.run(step["quiet"]).check_returncode()
            return []
        if "retry" in step:
            self.retried(step["retry"])
            return []
        result = self.run(step["run"], stdin=step.get("stdin", ""), editor=step.get("editor", ""))
        lines = [f"$ kubectl {step['run']}"]
        if not step.get("drop"):
            lines += self.comparable(result.stdout, step)
            lines += [f"! {line}" for line in self.comparable(result.stderr, step)]
        return [*lines, f"= {result.returncode}"]

    def retried(self, command: str) -> None:
        for _ in range(50):
            if self.run(command).returncode == 0:
                return
            time.sleep(0.2)
        self.run(command).check_returncode()

    def comparable(self, text: str, step: dict[str, Any]) -> list[str]:
        """Return output without values that differ between runs."""
        for value, name in (
            (str(self.directory), "<manifests>"),
            (self.node, "<node>"),
            (self.namespace, "<ns>"),
        ):
            text = text.replace(value, name)
        for pattern, replacement in REPLACED:
            text = pattern.sub(replacement, text)
        if step.get("tokens"):
            text = re.sub(r"[\w-]+\.[\w-]+\.[\w-]+", "TOKEN", text)
        lines = [line.rstrip() for line in text.splitlines()]
        if step.get("custom"):  # defined by other tests
            lines = [line for line in lines if ".example.com" not in line]
        if step.get("shape"):
            lines = [line for line in lines if is_shape(line)]
        # Names of different lengths move columns.
        lines = [re.sub(r" {2,}", "  ", line) for line in lines if not line.startswith(MOVING)]
        return sorted(lines) if step.get("sort") else lines


MOVING = ("diff -u", "--- ", "+++ ")
SHAPE = re.compile(r"^(KIND|VERSION|GROUP|FIELD|FIELDS):|^ *\w+\t?<|^  +\w+\t<")


def is_shape(line: str) -> bool:
    """Return whether a line of `explain` is about fields; descriptions are not shipped."""
    return bool(SHAPE.match(line))


def load_cases() -> list[dict[str, Any]]:
    """Return the cases."""
    text = (HERE / "commands.yaml").read_text()
    loaded: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


def load_answers(version: str) -> dict[str, list[str]]:
    """Return the recording of a version of kubectl."""
    path = HERE / "answers" / f"{version}.json"
    loaded: dict[str, list[str]] = json.loads(path.read_text()) if path.exists() else {}
    return loaded


def save_answers(version: str, answers: dict[str, list[str]]) -> None:
    """Write the recording."""
    known = {case["name"] for case in load_cases()}
    kept = {name: lines for name, lines in sorted(answers.items()) if name in known}
    path = HERE / "answers" / f"{version}.json"
    path.write_text(json.dumps(kept, indent=1) + "\n")


def program(version: str) -> Path:
    """Return the path of kubectl in a version."""
    return Programs.built().path(VERSIONS[version])
