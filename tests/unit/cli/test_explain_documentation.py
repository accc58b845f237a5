"""docs/explain.md lists every field of what machines read."""

import re
from typing import Any, get_args

import msgspec
import pytest

from kubesched.engine.comparison import Comparison, NodeReport
from kubesched.engine.explained import Explanation
from kubesched.scheduler.story import Story
from tests.unit.cli.running import ROOT

DOCUMENT = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def fields(kind: Any) -> set[str]:
    """Return the names of the fields of a type as they are written, those within them too."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        own = msgspec.structs.fields(kind)
        return {one.encode_name for one in own}.union(*(fields(one.type) for one in own))
    return set().union(*map(fields, get_args(kind)))


def told() -> set[str]:
    """Return the words of the document that are written as code."""
    without_blocks = re.sub(r"^```.*?^```", "", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", without_blocks))))


@pytest.mark.parametrize("kind", [Explanation, NodeReport, Comparison, Story])
def test_every_field_is_documented(kind: Any) -> None:
    assert {"pod", "plugin", "reasons", "victims"} & fields(kind)
    assert fields(kind) - told() == set()
