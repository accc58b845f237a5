"""The Dockerfile, as far as it can be tested without building an image.

The wheel is built from exactly the files that it copies, installed as in the image, and run.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def steps() -> list[tuple[str, str]]:
    """Return the instructions and their arguments."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(None, 1)[0], " ".join(line.split(None, 1)[1].split())) for line in lines]


def all_of(instruction: str) -> list[str]:
    return [rest for name, rest in steps() if name == instruction]


@cache
def copied() -> list[str]:
    """Return the files of the tree that the Dockerfile copies."""
    sources = [
        source
        for rest in all_of("COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    ]
    assert sources
    found = []
    for source in sources:
        path = ROOT / source
        assert path.exists(), f"{source} is not there"
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [file.relative_to(ROOT).as_posix() for file in files if file.is_file()]
    return found


def is_left_out(name: str) -> bool:
    """Return whether .dockerignore keeps a file from being copied."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    left_out = False
    for line in (line for line in lines if line and not line.startswith("#")):
        pattern = line.removeprefix("!")
        parents = [name, *(str(parent) for parent in Path(name).parents)]
        anywhere = pattern.removeprefix("**/")
        is_matched = any(fnmatch.fnmatchcase(parent, pattern) for parent in parents) or (
            anywhere != pattern
            and any(fnmatch.fnmatchcase(Path(parent).name, anywhere) for parent in parents)
        )
        if is_matched:
            left_out = not line.startswith("!")
    return left_out


def test_the_base_image_is_an_argument_of_both_stages() -> None:
    assert steps()[0] == ("ARG", "BASE_IMAGE=python:3.13-slim")
    assert all_of("FROM") == ["${BASE_IMAGE} AS build", "${BASE_IMAGE}"]


def test_the_image_is_independent_of_the_architecture() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    code = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"amd64|arm64|x86_64|aarch64|--platform", code)


def test_only_wheels_of_known_hashes_are_installed() -> None:
    installs = [
        part
        for rest in all_of("RUN")
        for part in rest.split("&&")
        if " install " in part and "--no-index" not in part
    ]
    assert len(installs) == 2
    for install in installs:
        assert {"--only-binary=:all:", "--require-hashes", "--no-deps"} <= set(install.split())


def test_it_runs_as_nobody_on_a_read_only_file_system() -> None:
    (user,) = all_of("USER")
    assert all(part.isdigit() and int(part) > 0 for part in user.split(":"))
    last = [name for name, _ in steps()][::-1]
    assert last.index("USER") < last.index("FROM"), "the user is that of the last stage"
    assert "PYTHONDONTWRITEBYTECODE=1" in all_of("ENV")[0]


def test_it_starts_the_scheduler_with_the_file_that_manifests_mount() -> None:
    (entry,), (command,) = all_of("ENTRYPOINT"), all_of("CMD")
    whole = json.loads(entry) + json.loads(command)
    assert whole == ["kubesched", "run", "--config=/etc/kubesched/scheduler.yaml"]


def test_the_build_context_has_all_copied_and_no_private_files() -> None:
    kept = [name for name in copied() if "__pycache__" not in name and ".egg-info" not in name]
    assert [name for name in kept if is_left_out(name)] == []
    private = (".git/config", ".venv/pyvenv.cfg", "src/kubesched/__pycache__/x.pyc", "kubeconfig")
    assert [name for name in private if not is_left_out(name)] == []


def test_the_build_backend_is_the_one_that_is_tested() -> None:
    pin = re.compile(r"^setuptools==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", re.MULTILINE)
    found = {
        name: pin.findall((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8"))
        for name in ("build", "dev")
    }
    assert len(found["build"]) == 1
    assert found["build"] == found["dev"]


def test_manifests_and_docs_name_the_image_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    named: dict[str, set[str]] = {}
    for folder in ("deploy", "docs", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".md", ".yaml"):
                found = re.findall(
                    r"(?<![\w-])kubesched:(\d[\w.-]*\w)", path.read_text(encoding="utf-8")
                )
                if found:
                    named[path.relative_to(ROOT).as_posix()] = set(found)
    assert {"deploy/second-scheduler/deployment.yaml", "docs/image.md"} <= set(named)
    assert {name: tags for name, tags in named.items() if tags != {version}} == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel built from the copied files only."""
    folder = tmp_path_factory.mktemp("image")
    for name in copied():
        if not is_left_out(name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    flags = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *flags, "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    sources = {
        name.removeprefix("src/")
        for name in copied()
        if name.startswith("src/kubesched/") and not is_left_out(name)
    }
    assert sources - inside == set()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment that the wheel was installed into, as in the image."""
    folder = tmp_path_factory.mktemp("opt") / "kubesched"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    # Its dependencies are installed here already, in the pinned versions.
    libraries = sysconfig.get_path("purelib")
    (places,) = folder.glob("lib/python3.*/site-packages")
    line = f"import sys; sys.path.append({libraries!r})\n"
    (places / "pins.pth").write_text(line, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--version"], "kubesched, version 0.1.0", id="version"),
        pytest.param(["run", "--version"], "Kubernetes v1.36.4", id="run"),
        pytest.param(["config", "view"], "kind: KubeSchedulerConfiguration", id="config"),
        pytest.param(["extender", "--help"], "Usage: kubesched extender", id="extender"),
        pytest.param(["completion", "bash"], "_kubesched_completion", id="completion"),
    ],
)
def test_the_installed_command_runs(
    installed: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    completed = subprocess.run(
        [installed / "bin" / "kubesched", *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert expected in completed.stdout


@pytest.mark.slow
def test_the_installed_files_are_used(installed: Path, tmp_path: Path) -> None:
    code = "import kubesched; print(kubesched.__file__)"
    command = [str(installed / "bin" / "python"), "-c", code]
    env = {"PATH": "/usr/bin:/bin"}
    output = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True).stdout
    assert Path(output.decode().strip()).is_relative_to(installed)
