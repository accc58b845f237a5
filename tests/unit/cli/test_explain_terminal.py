"""The look of an explanation: widths of terminals, pipes, encodings."""

import io
import sys

import pytest

from kubesched.cli.render import Explanation, show
from kubesched.engine.decide import Decision
from kubesched.framework.status import unresolvable

SCORES = {
    "node-a": {"NodeResourcesBalancedAllocation": 72, "TaintToleration": 300, "total": 372},
    "node-b": {"NodeResourcesBalancedAllocation": 90, "TaintToleration": 0, "total": 90},
}


def shown(
    monkeypatch: pytest.MonkeyPatch,
    decision: Decision,
    *,
    width: int = 0,
    encoding: str = "utf-8",
    pod: str = "shop/web",
) -> str:
    """Return what is printed; on a terminal of some width, or (0) to a pipe."""
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    if width:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", stream)
    show(Explanation(pod, decision, node_count=3))
    stream.flush()
    return data.getvalue().decode(encoding)


@pytest.fixture
def placed() -> Decision:
    return Decision(
        "default-scheduler",
        suggested_host="node-a",
        feasible=("node-a", "node-b"),
        rejected={"node-c": unresolvable("node(s) were unschedulable").by("NodeUnschedulable")},
        scores=SCORES,
        best=("node-a",),
    )


def test_a_wide_terminal_gets_tables(monkeypatch: pytest.MonkeyPatch, placed: Decision) -> None:
    text = shown(monkeypatch, placed, width=120)
    assert "\x1b[" in text
    assert "─" in text
    assert "NodeResourcesBalancedAllocation" not in text  # Its words stand below each other.
    assert "372" in text
    assert max(map(len, text.splitlines())) < 200


def test_a_narrow_terminal_gets_paragraphs(
    monkeypatch: pytest.MonkeyPatch, placed: Decision
) -> None:
    text = shown(monkeypatch, placed, width=30)
    assert "─" not in text
    assert "  node-a: total 372\n" in text
    assert "    NodeResourcesBalancedAllocation 72, TaintToleration 300\n" in text
    assert "  NodeUnschedulable: node(s) were unschedulable\n" in text


def test_a_pipe_gets_plain_columns_whatever_the_width(
    monkeypatch: pytest.MonkeyPatch, placed: Decision
) -> None:
    text = shown(monkeypatch, placed)
    assert "\x1b" not in text
    assert "  node    total  NodeResourcesBalancedAllocation  TaintToleration\n" in text
    assert "  node-b     90                               90                0\n" in text


def test_everything_that_is_told_in_colour_is_told_without(
    monkeypatch: pytest.MonkeyPatch, placed: Decision
) -> None:
    plain, drawn = shown(monkeypatch, placed), shown(monkeypatch, placed, width=200)
    for word in (
        "node-a",
        "node-b",
        "node-c",
        "372",
        "300",
        "NodeUnschedulable",
        "default-scheduler",
    ):
        assert word in plain
        assert word in drawn


@pytest.mark.parametrize("width", [0, 30, 200])
def test_names_cannot_play_with_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    host = "\x1b[2J[red]a\u202e\n"
    decision = Decision("p\x07", suggested_host=host, feasible=(host,), best=(host,))
    text = shown(monkeypatch, decision, width=width, pod="x/\x1b]0;title\x07")
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "[red]a" in text


@pytest.mark.parametrize("width", [0, 30, 200])
def test_a_stream_that_knows_few_letters_is_served(
    monkeypatch: pytest.MonkeyPatch, placed: Decision, width: int
) -> None:
    text = shown(monkeypatch, placed, width=width, encoding="ascii", pod="käse/web")
    assert "372" in text


def test_scoring_by_nobody_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = Decision(
        "bare",
        suggested_host="a",
        feasible=("a", "b"),
        scores={"a": {"total": 0}, "b": {"total": 0}},
        best=("a", "b"),
    )
    first = shown(monkeypatch, decision).splitlines()[0]
    assert (
        first == "shop/web goes to a: one of 2 fitting nodes; no plugin scores, any may be taken."
    )
