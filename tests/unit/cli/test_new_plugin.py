"""`kubesched new-plugin`: names, files and output."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.running import is_one_line, kubesched


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_file_of_a_project_is_written(directory: Path) -> None:
    ran = kubesched("new-plugin", "SpareGpu")
    assert (ran.status, ran.err) == (0, "")
    files = sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )
    assert files == [
        "spare-gpu/.dockerignore",
        "spare-gpu/.gitignore",
        "spare-gpu/Dockerfile",
        "spare-gpu/README.md",
        "spare-gpu/example/pod.yaml",
        "spare-gpu/manifests/rbac.yaml",
        "spare-gpu/manifests/scheduler.yaml",
        "spare-gpu/pyproject.toml",
        "spare-gpu/scheduler.yaml",
        "spare-gpu/src/spare_gpu/__init__.py",
        "spare-gpu/src/spare_gpu/plugin.py",
        "spare-gpu/tests/test_plugin.py",
        "spare-gpu/tests/test_project.py",
    ]
    assert ran.out.startswith("Created 13 files in spare-gpu; spare-gpu/README.md describes them")


def test_no_name_of_the_template_is_left(directory: Path) -> None:
    kubesched("new-plugin", "SpareGpu")
    for path in directory.rglob("*"):
        if path.is_file():
            left = re.findall(
                r"my.?plugin|KUBESCHED_VERSION|\.tmpl", path.read_text(), re.IGNORECASE
            )
            assert left == [], path


@pytest.mark.parametrize(
    ("name", "plugin", "module", "project"),
    [
        ("SpareGpu", "SpareGpu", "spare_gpu", "spare-gpu"),
        ("spare-gpu", "SpareGpu", "spare_gpu", "spare-gpu"),
        ("spare_gpu", "SpareGpu", "spare_gpu", "spare-gpu"),
        ("spareGpu", "SpareGpu", "spare_gpu", "spare-gpu"),
        ("GPUPack", "GPUPack", "gpu_pack", "gpu-pack"),
        ("Zone2", "Zone2", "zone2", "zone2"),
        ("x", "X", "x", "x"),
        ("Json", "Json", "json_plugin", "json"),
        ("class", "Class", "class_plugin", "class"),
        ("kubesched", "Kubesched", "kubesched_plugin", "kubesched"),
    ],
)
def test_a_name_is_spelled_by_the_rules_of_each_file(
    directory: Path, name: str, plugin: str, module: str, project: str
) -> None:
    assert kubesched("new-plugin", name).status == 0
    place = directory / project
    written = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    assert written["name"] == project
    assert written["entry-points"] == {"kubesched.plugins": {plugin: f"{module}.plugin:{plugin}"}}
    code = ast.parse((place / "src" / module / "plugin.py").read_text())
    classes = [node.name for node in code.body if isinstance(node, ast.ClassDef)]
    assert classes == [f"{plugin}Args", plugin]
    config = yaml.safe_load((place / "scheduler.yaml").read_text())
    (profile,) = config["profiles"]
    assert profile["schedulerName"] == project
    assert profile["pluginConfig"][0]["name"] == plugin


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("7up", "start with a letter"),
        ("spare gpu", "start with a letter"),
        ("../up", "start with a letter"),
        ("spare--gpu", "single dashes"),
        ("Größe", "letters"),
        ("", "start with a letter"),
        ("a" * 41, "longer than 40"),
        ("NodeResourcesFit", "is an in-tree plugin"),
        ("node-resources-fit", "NodeResourcesFit is an in-tree plugin"),
    ],
)
def test_an_invalid_name_is_rejected_and_nothing_written(
    directory: Path, name: str, message: str
) -> None:
    ran = kubesched("new-plugin", name)
    assert (ran.status, ran.out) == (2, "")
    assert is_one_line(ran.err)
    assert message in ran.err
    assert list(directory.iterdir()) == []


def test_existing_files_are_not_overwritten(directory: Path) -> None:
    (directory / "spare-gpu").mkdir()
    (directory / "spare-gpu" / "mine.txt").write_text("mine")
    ran = kubesched("new-plugin", "SpareGpu")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "kubesched: spare-gpu already exists and is not an empty directory\n"
    assert [path.name for path in (directory / "spare-gpu").iterdir()] == ["mine.txt"]
    (directory / "file").write_text("")
    assert kubesched("new-plugin", "SpareGpu", "--directory", "file").status == 1


def test_the_directory_option_is_honoured(directory: Path) -> None:
    (directory / "empty").mkdir()
    ran = kubesched("new-plugin", "SpareGpu", "--directory", "empty")
    assert ran.status == 0
    assert (directory / "empty" / "src" / "spare_gpu" / "plugin.py").is_file()
    assert " --plugin empty/src/spare_gpu/plugin.py:SpareGpu " in ran.out
    ran = kubesched("new-plugin", "SpareGpu", "--directory", "two words/deep")
    assert " --plugin 'two words/deep/src/spare_gpu/plugin.py:SpareGpu' " in ran.out


def test_five_commands_lead_to_a_decision(directory: Path) -> None:
    lines = kubesched("new-plugin", "SpareGpu").out.splitlines()
    commands = [line.split()[:2] for line in lines if line.startswith("  ")]
    assert commands == [
        ["pip", "install"],
        ["kubesched", "new-plugin"],
        ["sed", "-i.old"],
        ["kubesched", "playground"],
        ["kubectl", "--kubeconfig"],
    ]
    number = int(re.findall(r"edits line (\d+) ", "\n".join(lines))[0])
    text = (directory / "spare-gpu" / "src" / "spare_gpu" / "plugin.py").read_text()
    assert text.splitlines()[number - 1] == '    value: str = "zone-a"'
    assert text.count("zone-a") == 1, "sed edits one line"
