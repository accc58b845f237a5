"""Recorded answers of kube-scheduler v1.36.4 to configuration files.

Sources, both answered by kube-scheduler's own code: config-sample.jsonl.gz, 40 files written by
hand; config-recorded.jsonl.gz, 648 files of conformance/fuzz_config.py (seed 36), answered by
conformance/oracle.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.config.encode import effective, to_yaml
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.profile.build import build

pytestmark = pytest.mark.parity


def _cases() -> list[Any]:
    cases: list[Any] = []
    for name in ("config-sample", "config-recorded"):
        path = Path(__file__).parent / "data" / f"{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            cases += [json.loads(line) for line in lines]
    return [pytest.param(case["text"], case["expected"], id=case["id"]) for case in cases]


CASES = _cases()
LOADING = [case for case in CASES if case.values[1]["stage"] == "ok"]
FAULTY = [case for case in CASES if case.values[1]["stage"] != "ok"]


def test_the_files_are_of_both_sorts() -> None:
    assert (len(LOADING), len(FAULTY)) == (16 + 178, 24 + 470)


@pytest.mark.parametrize(("text", "expected"), LOADING)
def test_effective_configuration_equals_upstreams(text: str, expected: dict[str, Any]) -> None:
    config = build(load_config(text)).config
    assert effective(config) == expected["effective"]
    assert yaml.load(to_yaml(config), Loader=yaml.CSafeLoader) == expected["effective"]


@pytest.mark.parametrize(("text", "expected"), LOADING)
def test_plugins_run_in_upstreams_order(text: str, expected: dict[str, Any]) -> None:
    built = build(load_config(text))
    assert set(built.profiles) == set(expected["profiles"])
    for name, profile in built.profiles.items():
        plugins = dict(expected["profiles"][name])
        score_weights = plugins.pop("scoreWeights")
        placement_weights = plugins.pop("placementScoreWeights", {})
        assert {point: list(profile.plugin_names(point)) for point in plugins} == plugins
        listed = profile.list_plugins()
        assert dict(listed.get("score", ())) == score_weights
        assert dict(listed.get("placementScore", ())) == placement_weights


@pytest.mark.parametrize(("text", "expected"), FAULTY)
def test_error_text_equals_upstreams(text: str, expected: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        build(load_config(text))
    assert caught.value.stage == expected["stage"]
    assert str(caught.value) in expected.get("acceptable", [expected["error"]])
