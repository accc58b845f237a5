"""`kubesched plugins`, the option `--plugin`, and `kubesched.main` in a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kubesched as library
from tests.unit.cli.running import EXAMPLE_PLUGINS, SAMPLE_CLUSTER, is_one_line, kubesched

PLUGIN = """
import msgspec
from kubesched import RawArgs


class ToneArgs(msgspec.Struct, frozen=True):
    favorite_color: str
    thanks_to: list[str] = []


class Tone:
    name = "tone"

    def __init__(self, args):
        self.args = args

    def filter(self, state, pod, node):
        return None

    def score_nodes(self, state, pod, nodes):
        return [0] * len(nodes)


class Plain:
    def pre_enqueue(self, pod):
        return None

    async def permit(self, state, pod, node_name):
        return None, 0


def makes_plain(args: RawArgs | None):
    return Plain()


def fails():
    raise RuntimeError("no tea")
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: tone}]}}
    pluginConfig: [{name: tone, args: {%s: blue}}]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    written = tmp_path / "mine.py"
    written.write_text(PLUGIN)
    return str(written)


def listed(*arguments: str) -> dict[str, Any]:
    ran = kubesched("plugins", "-o", "json", *arguments)
    assert ran.status == 0, ran.err
    return {plugin["name"]: plugin for plugin in ran.json}


# -- the list -------------------------------------------------------------------------------------


def test_in_tree_plugins_are_listed_with_extension_points_and_arguments() -> None:
    plugins = listed()
    assert plugins["NodeName"] == {
        "name": "NodeName",
        "from": "in-tree",
        "extensionPoints": ["filter"],
        "nodes": "all",
        "args": None,
        "problem": "",
    }
    assert plugins["PrioritySort"]["nodes"] == ""
    assert plugins["InterPodAffinity"]["args"] == {
        "kind": "InterPodAffinityArgs",
        "fields": [
            {"name": "hardPodAffinityWeight", "type": "int32", "required": False, "default": 1},
            {
                "name": "ignorePreferredTermsOfExistingPods",
                "type": "bool",
                "required": False,
                "default": False,
            },
        ],
    }


def test_a_plugin_option_is_listed_first_under_its_name(file: str) -> None:
    plugins = listed("--plugin", f"{file}:Tone", "--plugin", f"p={file}:Plain")
    assert list(plugins)[:2] == ["tone", "p"]
    assert plugins["tone"] == {
        "name": "tone",
        "from": f"{file}:Tone",
        "extensionPoints": ["filter", "score"],
        "nodes": "one, all",
        "args": {
            "kind": "ToneArgs",
            "fields": [
                {"name": "favoriteColor", "type": "str", "required": True, "default": None},
                {"name": "thanksTo", "type": "list[str]", "required": False, "default": []},
            ],
        },
        "problem": "",
    }
    assert plugins["p"]["extensionPoints"] == ["preEnqueue", "permit"]
    assert plugins["p"]["args"] is None


def test_a_factory_without_a_return_type_is_called(file: str) -> None:
    plugins = listed("--plugin", f"{file}:makes_plain", "--plugin", f"{file}:fails")
    assert plugins["makes_plain"]["extensionPoints"] == ["preEnqueue", "permit"]
    assert plugins["makes_plain"]["args"] == {"kind": "any", "fields": []}
    assert plugins["fails"]["problem"] == "no tea"


def test_the_list_as_text(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(file).parent)
    ran = kubesched("plugins", "--plugin", "mine.py:Tone", "tone")
    assert (ran.status, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows == [
        ["plugin", "from", "nodes", "extension", "points"],
        ["tone", "mine.py:Tone", "one,", "all", "filter,", "score"],
        [],
        ["Arguments,", "under", "pluginConfig:"],
        ["tone:", "favoriteColor", "(str,", "required)"],
        ["tone:", "thanksTo", "(list[str],", "default", "[])"],
    ]


def test_the_list_fits_eighty_columns(file: str) -> None:
    lines = kubesched("plugins").out.splitlines()
    assert max(map(len, lines)) <= 80
    wide = next(n for n, line in enumerate(lines) if line.startswith("  DynamicResources "))
    assert " ".join(" ".join(lines[wide : wide + 3]).split()) == (
        "DynamicResources in-tree all "
        "preEnqueue, preFilter, filter, postFilter, score, reserve, preBind"
    )
    assert "  InterPodAffinity: hardPodAffinityWeight (int32, default 1)" in lines
    long_name = "from-a-long-way-off" * 3
    lines = kubesched(
        "plugins", "--plugin", f"{long_name}={file}:Plain", long_name
    ).out.splitlines()
    assert lines[0].split() == ["plugin", "from", "nodes", "extension", "points"]
    assert "".join(line.split()[0] for line in lines[1:4]) == long_name


def test_a_broken_package_is_reported_and_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken_plugins-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugins\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text("[kubesched.plugins]\nBroken = broken_plugins:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = kubesched("plugins", "Broken")
    assert ran.status == 0
    assert "cannot be used" in ran.out
    assert ran.err.startswith(
        "note: Broken (package broken-plugins 0.3): cannot load broken_plugins:X: ModuleNotFound"
    )
    assert listed()["Broken"]["problem"]
    assert kubesched("config", "view").status == 0


def test_an_unknown_name_is_an_error() -> None:
    ran = kubesched("plugins", "NodeNmae")
    assert ran.status == 1
    assert ran.err == "kubesched: plugin NodeNmae not found, did you mean NodeName?\n"


# -- --plugin -------------------------------------------------------------------------------------


def test_a_configuration_is_checked_with_its_plugins(file: str, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG % "favoriteColor")
    plugin = ("--plugin", f"{file}:Tone")
    assert kubesched("config", "validate", "-f", str(config), *plugin).out == "valid\n"
    assert "favoriteColor: blue" in kubesched("config", "view", "-f", str(config), *plugin).out
    assert kubesched("config", "validate", "-f", str(config)).status == 1
    config.write_text(CONFIG % "favorColor")
    ran = kubesched("config", "validate", "-f", str(config), *plugin)
    assert ran.status == 1
    assert "unknown field 'favorColor', did you mean 'favoriteColor'?" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "-f", SAMPLE_CLUSTER, "web-7"],
        ["simulate", "-f", SAMPLE_CLUSTER],
        ["capacity", "-f", SAMPLE_CLUSTER],
        ["decide", "--cases", "-"],
        ["config", "view"],
        ["config", "validate", "-f", "-"],
        ["plugins"],
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_a_usage_error(command: list[str]) -> None:
    ran = kubesched(*command, "--plugin", "absent.py:X")
    assert ran.status == 2
    assert is_one_line(ran.err)
    assert "--plugin: cannot import absent.py: " in ran.err


# -- kubesched.main in a program ------------------------------------------------------------------


class Shown:
    name = "shown"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


def test_plugins_of_a_program_are_part_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        library.main(plugins={"offered": Shown}, arguments=["plugins", "offered"])
    assert ended.value.code == 0
    assert "this program" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        library.main([Shown], ["explain", "-f", SAMPLE_CLUSTER, "no-such-pod"])
    assert ended.value.code == 1
    with pytest.raises(SystemExit) as ended:
        library.main([Shown], ["explain", "--no-such-option"])
    assert ended.value.code == 2


def test_a_configuration_need_not_enable_the_plugins_of_a_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    arguments = [
        "explain",
        "-f",
        SAMPLE_CLUSTER,
        "--config",
        str(config),
        "web-7",
        "-o",
        "decision",
    ]
    with pytest.raises(SystemExit) as ended:
        library.main([Shown], arguments)
    assert ended.value.code == 0, capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        library.main([Shown], [*arguments[:3], "web-7", "-o", "decision"])
    assert ended.value.code == 0
    assert "enabled at multiPoint of the default profile: shown" in capsys.readouterr().err


def test_the_example_program_runs_the_command() -> None:
    run = subprocess.run(
        [sys.executable, "own_command.py", "plugins", "SpareGpu", "NotOnSpot"],
        cwd=EXAMPLE_PLUGINS,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count("this program") == 2
