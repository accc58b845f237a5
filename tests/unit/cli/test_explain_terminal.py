"""Explanations on terminals of several widths, in pipes, in encodings, with colour."""

import io
import re
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.cli.explain.text import show_explanation
from kubesched.cli.printer import Printer
from kubesched.explanation.report import Change, Event, Explanation, Ranked, Rejection, RunnerUp

ESCAPE = re.compile("\x1b\\[[0-9;]*m")
SCORES = {
    "node-a": {"NodeResourcesBalancedAllocation": 72, "TaintToleration": 300, "ImageLocality": 5},
    "node-b": {"NodeResourcesBalancedAllocation": 90, "TaintToleration": 0, "ImageLocality": 5},
}


def shown(
    monkeypatch: pytest.MonkeyPatch,
    explanation: Explanation,
    *,
    width: int = 0,
    encoding: str = "utf-8",
    wide: bool = False,
) -> str:
    """Return the output on a terminal of a width, or to a pipe if it is 0."""
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    if width:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", stream)
    show_explanation(explanation, Printer(is_wide=wide))
    stream.flush()
    return data.getvalue().decode(encoding)


def an_explanation(**parts: Any) -> Explanation:
    fields: dict[str, Any] = {
        "pod": "shop/web",
        "profile": "default-scheduler",
        "outcome": "placed",
        "node": "node-a",
        "why": "only",
        "node_count": 3,
        "fit_count": 1,
        "total": None,
        "tied_count": 1,
        "tied": (),
        "runner_up": None,
        "ranking": (),
        "ranking_left_out": 0,
        "rejected_count": 0,
        "rejections": (),
        "rejections_left_out": 0,
        "rejected_whole": None,
        "preemption": None,
        "event": Event(type="Normal", reason="Scheduled", message="Successfully assigned it"),
    }
    return Explanation(**fields | parts)


@pytest.fixture
def placed() -> Explanation:
    ranking = tuple(
        Ranked(node=node, total=sum(scores.values()), scores=scores)
        for node, scores in SCORES.items()
    )
    difference = {"TaintToleration": 300, "NodeResourcesBalancedAllocation": -18}
    return an_explanation(
        why="highest",
        fit_count=2,
        total=377,
        runner_up=RunnerUp(node="node-b", total=95, behind=282, difference=difference),
        ranking=ranking,
        rejected_count=1,
        rejections=(
            Rejection(
                plugin="NodeUnschedulable",
                code="UnschedulableAndUnresolvable",
                reasons=("node(s) were unschedulable",),
                count=1,
                nodes=("node-c",),
            ),
        ),
    )


def lengths(text: str) -> list[int]:
    return [len(line) for line in ESCAPE.sub("", text).splitlines()]


def test_a_terminal_gets_colour_and_a_folded_header(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation
) -> None:
    text = shown(monkeypatch, placed, width=80)
    assert "\x1b[" in text
    plain = ESCAPE.sub("", text)
    # A long name is broken between its words.
    assert "    Node\n" in plain
    assert "  node    total  Allocation  Toleration\n" in plain
    assert "  node-b     95          90           0\n" in plain


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation, width: int
) -> None:
    # Except for the event, which stays on one line, to be searched for or copied.
    explanation = replace(placed, event=replace(placed.event, message="Assigned"))
    assert max(lengths(shown(monkeypatch, explanation, width=width))) <= width


def test_a_narrow_terminal_gets_columns_in_parts(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation
) -> None:
    text = ESCAPE.sub("", shown(monkeypatch, placed, width=32))
    assert "  node    total  Allocation\n  node-a    377" in text
    assert "  node    Toleration\n  node-a" in text
    assert "  1  NodeUnschedulable: node(s)\n" in text


def test_a_pipe_gets_eighty_columns_without_colour(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation
) -> None:
    text = shown(monkeypatch, placed)
    assert "\x1b" not in text
    # The first sentence and the event stay whole, to be searched for.
    assert max(lengths(text)[3:]) <= 80


def test_equal_scores_are_reported_below_the_table(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation
) -> None:
    assert "5 on every node: ImageLocality\n" in shown(monkeypatch, placed)
    wide = shown(monkeypatch, placed, wide=True)
    assert "on every node" not in wide
    assert "Locality" in wide


def test_columns_without_room_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = [f"Plugin{letter * 9}" for letter in "ABCDEFGHIJ"]
    low = dict.fromkeys(plugins, 0)
    high = {plugin: number + 1 for number, plugin in enumerate(plugins)}
    ranking = (
        Ranked(node="x", total=55, scores=high),
        Ranked(node="y", total=0, scores=low),
    )
    explanation = an_explanation(
        why="highest",
        fit_count=2,
        total=55,
        ranking=ranking,
        runner_up=RunnerUp(node="y", total=0, behind=55, difference=high),
    )
    text = shown(monkeypatch, explanation)
    (row,) = [line.split() for line in text.splitlines() if line.startswith("  x ")]
    cells = [int(cell) for cell in row[1:]]
    assert cells[0] == sum(cells[1:]) == 55
    # The columns with the smallest spread are summed: 1 + 2 + ...
    hidden = 10 - (len(cells) - 2)
    assert cells[-1] == hidden * (hidden + 1) // 2
    assert "others: " in text
    assert max(lengths(text)[3:]) <= 80
    assert "others" not in shown(monkeypatch, explanation, wide=True)


def test_output_without_colour_has_the_same_text(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation
) -> None:
    plain, drawn = shown(monkeypatch, placed), shown(monkeypatch, placed, width=80)
    assert ESCAPE.sub("", drawn).split() == plain.split()


@pytest.mark.parametrize("width", [0, 30, 200])
def test_control_characters_in_names_are_escaped(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    bad = "\x1b[2J[red]a\u202e\n\x07"
    change = Change(kind="volume", plugin=bad, text=bad, opens=1, nodes=(bad,))
    rejection = Rejection(plugin="P", code="Error", reasons=(bad,), count=1, nodes=(bad,))
    explanation = an_explanation(
        pod=f"x/{bad}",
        profile=bad,
        node=bad,
        rejections=(rejection,),
        rejected_whole=rejection,
        changes=(change,),
        event=Event(type="Normal", reason="Scheduled", message=bad),
    )
    text = shown(monkeypatch, explanation, width=width)
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "[red]a" in text


@pytest.mark.parametrize("width", [0, 30, 200])
def test_a_stream_of_ascii_gets_escapes(
    monkeypatch: pytest.MonkeyPatch, placed: Explanation, width: int
) -> None:
    explanation = replace(placed, pod="käse/web")
    text = shown(monkeypatch, explanation, width=width, encoding="ascii")
    assert "377" in text


def test_a_choice_without_score_plugins_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = an_explanation(node="a", why="unscored", fit_count=2)
    first = shown(monkeypatch, explanation).splitlines()[0]
    assert (
        first == "shop/web goes to a: one of 2 fitting nodes; "
        "no plugin scores them, so any may be chosen."
    )
