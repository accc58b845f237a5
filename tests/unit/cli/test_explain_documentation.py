"""docs/explain.md lists every field of the JSON."""

import re
from typing import Any, get_args

import msgspec
import pytest

from kubesched.explanation.comparison import Comparison, NodeReport
from kubesched.explanation.report import Explanation, PodReport
from tests.unit.cli.running import ROOT

DOCUMENT = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def fields(kind: Any) -> set[str]:
    """Return the JSON names of the fields of a type, nested ones included."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        own = msgspec.structs.fields(kind)
        return {field.encode_name for field in own}.union(*(fields(field.type) for field in own))
    return set().union(*map(fields, get_args(kind)))


def words_in_code() -> set[str]:
    """Return the words of the document in code spans."""
    without_blocks = re.sub(r"^```.*?^```", "", DOCUMENT, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", without_blocks))))


@pytest.mark.parametrize("kind", [Explanation, NodeReport, Comparison, PodReport])
def test_every_field_is_documented(kind: Any) -> None:
    assert {"pod", "plugin", "reasons", "victims"} & fields(kind)
    assert fields(kind) - words_in_code() == set()
