"""The output of kubectl, in both versions, equals that on the real server."""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kubesched.testing import Api, ApiServer
from tests.kubectl.sessions import (
    VERSIONS,
    Session,
    load_answers,
    load_cases,
    program,
    save_answers,
)

pytestmark = pytest.mark.programs
_numbers = count(1)


@pytest.fixture(params=sorted(VERSIONS))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(
    version: str, api_server: ApiServer, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    name = f"kube{next(_numbers):04}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.post("/api/v1/namespaces", body).must(201)
    # One home per version, so that kubectl's discovery cache is kept.
    home = tmp_path_factory.getbasetemp() / f"kubectl-{version}"
    directory = home / name
    directory.mkdir(parents=True)
    created = Session(api_server, program(version), name, directory)
    created.prepare()
    yield created
    shutil.rmtree(directory)


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: str(case["name"]))
def test_the_output_is_as_on_the_real_server(
    case: dict[str, Any], session: Session, version: str, request: pytest.FixtureRequest
) -> None:
    lines = [line for step in case["steps"] for line in session.done(step)]
    answers = load_answers(version)
    if request.config.getoption("--record"):
        save_answers(version, {**answers, case["name"]: lines})
        return
    difference = list(
        difflib.unified_diff(answers[case["name"]], lines, "real", "seen", lineterm="", n=1)
    )
    if difference:
        pytest.fail("\n".join(difference), pytrace=False)


def test_every_recorded_answer_has_its_case() -> None:
    names = {case["name"] for case in load_cases()}
    for version in VERSIONS:
        assert set(load_answers(version)) == names


def read_until(stream: Any, pattern: str) -> list[str]:
    """Return lines up to one that matches."""
    lines = []
    for line in stream:
        lines.append(re.sub(r" +", " ", line).strip())
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"{pattern!r} never came: {lines}")


def test_get_watches(session: Session) -> None:
    session.run("run web --image=img").check_returncode()
    command = [str(session.kubectl), "-n", session.namespace, "get", "pods", "-w"]
    env = {
        "HOME": str(session.directory.parent),
        "KUBECONFIG": str(session.server.kubeconfig),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as watching:
        try:
            assert watching.stdout is not None
            first = read_until(watching.stdout, "^web")
            assert [line.split(" ")[:3] for line in first] == [
                ["NAME", "READY", "STATUS"],
                ["web", "0/1", "Pending"],
            ]
            session.run("run db --image=img").check_returncode()
            assert read_until(watching.stdout, "^db")[-1].startswith("db 0/1 Pending 0")
            patch = '{"status":{"phase":"Running"}}'
            session.run(f"patch pod web --subresource=status -p '{patch}'").check_returncode()
            assert read_until(watching.stdout, "Running")[-1].startswith("web 0/1 Running 0")
            session.run("delete pod db").check_returncode()
            assert read_until(watching.stdout, "^db")[-1].startswith("db 0/1")
        finally:
            watching.terminate()


def test_wait_sees_later_changes(session: Session) -> None:
    session.run("run web --image=img").check_returncode()
    condition = "--for=condition=Ready"
    command = [str(session.kubectl), "-n", session.namespace, "wait", "pod/web", condition]
    env = {
        "HOME": str(session.directory.parent),
        "KUBECONFIG": str(session.server.kubeconfig),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) as waiting:
        patch = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
        session.run(f"patch pod web --subresource=status -p '{patch}'").check_returncode()
        printed, _ = waiting.communicate(timeout=40)
    assert (waiting.returncode, printed) == (0, "pod/web condition met\n")


def test_a_large_manifest_is_applied_at_once(session: Session, tmp_path: Path) -> None:
    objects = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\ndata: {{k: v}}\n"
        for number in range(60)
    )
    result = session.run("apply -f -", stdin=objects)
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 60)
