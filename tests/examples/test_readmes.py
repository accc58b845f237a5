"""The READMEs of the examples, followed word for word, section by section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.examples.folders import EXAMPLES
from tests.examples.following import Reader, Step, prints, sections

ON_A_CLUSTER = "On a cluster"
SECTIONS = [
    (example, title, steps)
    for example in EXAMPLES
    for title, steps in sections(example.readme).items()
]


def named(*, with_cluster: bool) -> list[Any]:
    return [
        pytest.param(title, steps, id=f"{example.name}: {title}")
        for example, title, steps in SECTIONS
        if any(step.needs_cluster for step in steps) == with_cluster
    ]


@pytest.mark.parametrize(("title", "steps"), named(with_cluster=False))
def test_commands_without_a_cluster(title: str, steps: list[Step], tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(steps)


@pytest.mark.programs
@pytest.mark.timeout(240)
@pytest.mark.parametrize("plane", ["embedded", "real"])
@pytest.mark.parametrize(("title", "steps"), named(with_cluster=True))
def test_commands_on_a_cluster(title: str, steps: list[Step], plane: str, tmp_path: Path) -> None:
    with Reader(tmp_path, [f"--control-plane={plane}"]) as reader:
        if title == ON_A_CLUSTER:
            # The reader's cluster, which already has a scheduler.
            reader.start_playground()
        reader.follow(steps)


def test_every_example_is_followed() -> None:
    found = {example.name for example, _, _ in SECTIONS}
    assert found == {"cpu-label", "space-cloud", "sample-args", "two-profiles"}
    for example in EXAMPLES:
        assert ON_A_CLUSTER in sections(example.readme)


@pytest.mark.parametrize(
    ("expected", "matches"),
    [
        (["a b"], True),
        (["a  ..."], True),
        (["a ...", "c"], True),
        (["...", "c"], True),
        (["c", "a b"], False),
        (["a"], False),
        (["b"], False),
        (["c", "c"], False),
    ],
)
def test_matching_of_printed_output(expected: list[str], matches: bool) -> None:
    assert prints("a   b\nx\nc\n", expected) is matches
