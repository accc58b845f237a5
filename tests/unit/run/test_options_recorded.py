"""Command lines recorded from kube-scheduler v1.36.4, parsed by kubesched.

The answers are in data/command_lines.json.gz, written by conformance/record_command_lines.py.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from kubesched.config.encode import effective
from kubesched.config.errors import ConfigError
from kubesched.config.gate_support import ALWAYS_ON, LACKING
from kubesched.config.load import read_document
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.profile.build import build
from kubesched.run.options.parse import OptionsError, parse_options

pytestmark = pytest.mark.parity

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "command_lines.json.gz").read_bytes())
)
# Errors of the connection and of the written file, not of the options.
LATER = ("invalid configuration: no configuration", "open {dir}/no/out.yaml", "open {dir}: is a")


def cases(kind: str) -> list[dict[str, Any]]:
    of_kind = [case for case in RECORDED["cases"] if case["kind"] == kind]
    return [case for case in of_kind if not case["error"].startswith(LATER)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in RECORDED["files"].items():
        (tmp_path / name).write_text(text)
    return tmp_path


def arguments_of(case: dict[str, Any], place: Path) -> list[str]:
    texts: list[str] = case["arguments"]
    return [text.replace("{dir}", str(place)).replace("{port}", "10260") for text in texts]


def answer(case: dict[str, Any], place: Path) -> tuple[str, str]:
    """Return the stage at which kubesched rejects a command line, and its error."""
    try:
        options = parse_options(arguments_of(case, place))
        if options.show_version:
            return "version", ""
        build(options.config, validates=False)
    except OptionsError as problem:
        return problem.stage, str(problem).replace(str(place), "{dir}")
    except ConfigError as problem:
        return "command", str(problem)
    return "written", ""


def pieces(text: str) -> list[str]:
    """Return the parts of an error, sorted: upstream iterates over maps.

    The name of a scheme is a source location, which depends on the build.
    """
    return sorted(re.sub(r'in scheme ".*?"', "in scheme", text).strip("[]").split(", "))


@lru_cache
def document(text: str) -> object:
    return read_document(text)


def rejected_by_us(text: str) -> bool:
    return text.startswith("cannot set feature gate ") and any(
        f"cannot set feature gate {name} to " in text for name in (*LACKING, *ALWAYS_ON)
    )


@pytest.mark.parametrize("kind", ["usage", "logging", "command"])
def test_rejected_command_lines_have_the_same_error(kind: str, place: Path) -> None:
    wrong = []
    for case in cases(kind):
        stage, text = answer(case, place)
        if (stage, pieces(text)) != (kind, pieces(case["error"])):
            wrong.append((case["arguments"], case["error"], stage, text))
    assert wrong == []


def test_the_recording_has_many_cases_of_each_kind() -> None:
    counts = {kind: len(cases(kind)) for kind in ("usage", "logging", "command", "written")}
    assert all(count > 50 for count in counts.values()), counts


def test_the_version_is_printed_where_upstream_prints_it(place: Path) -> None:
    assert [answer(case, place) for case in cases("version")] == [("version", "")] * len(
        cases("version")
    )


def test_the_effective_configuration_is_the_same(place: Path) -> None:
    wrong = []
    ours = 0
    built: list[tuple[KubeSchedulerConfiguration, dict[str, Any]]] = []
    for case in cases("written"):
        try:
            config = parse_options(arguments_of(case, place)).config
        except OptionsError as problem:
            ours += rejected_by_us(str(problem))
            if not rejected_by_us(str(problem)):
                wrong.append((case["arguments"], str(problem)))
            continue
        encoded = next((encoded for seen, encoded in built if seen == config), None)
        if encoded is None:
            encoded = effective(build(config, validates=False).config)
            built.append((config, encoded))
        if encoded != document(case["config"].replace("{dir}", str(place))):
            wrong.append((case["arguments"], "another configuration"))
    assert wrong == []
    assert ours < 20


def test_warnings_about_headers_are_the_same(place: Path) -> None:
    wrong = []
    for case in cases("written"):
        try:
            options = parse_options(arguments_of(case, place))
        except OptionsError:
            continue
        warnings = [w.message for w in options.warnings if "is set without" in w.message]
        if warnings != case["warnings"]:
            wrong.append((case["arguments"], case["warnings"], warnings))
    assert wrong == []
