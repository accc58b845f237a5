"""A run: decisions of both sides, and differences by class, counted and shrunk."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.fuzz import verdict as verdicts_module
from conformance.fuzz.coverage import outcome_keys
from conformance.fuzz.runner import (
    Options,
    generated,
    read_lines,
    repeat_command,
    replay,
    run_decisions,
    save,
)
from conformance.fuzz.sides import Oracle

Obj = dict[str, Any]


def decision(best: list[str], **fields: Any) -> Obj:
    return {
        "profile": "default-scheduler",
        "feasible": best,
        "rejected": {},
        "preFilterRejected": None,
        "scores": {},
        "best": best,
        "message": None,
        "messageAfterPostFilter": None,
        "preemption": None,
        "error": None,
        **fields,
    }


def nodes_of(case: Obj) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in case["objects"] if obj["kind"] == "Node")


class FakeOracle(Oracle):
    """Finds every node feasible; stores cases as they are."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))

    def _ask(self, command: list[str], cases: Any) -> list[Obj]:
        if command[0] == "stored":
            return list(cases)
        return [{"id": case["id"], "decision": decision(nodes_of(case))} for case in cases]


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(verdicts_module, "our_decision", answer)


def test_a_run_without_differences_succeeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_with(monkeypatch, lambda case: {"decision": decision(nodes_of(case))})
    assert run_decisions(FakeOracle(), Options(cases=24)) == 0
    assert "differ" not in capsys.readouterr().out


def test_a_difference_is_shrunk_and_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def wrong_about_services(case: Obj) -> Obj:
        wrong = any(obj["kind"] == "Service" for obj in case["objects"])
        best = nodes_of(case)
        return {"decision": decision(best, profile="other" if wrong else "default-scheduler")}

    answer_with(monkeypatch, wrong_about_services)
    options = Options(cases=60, keep=tmp_path)
    assert run_decisions(FakeOracle(), options) == 1
    (kept,) = tmp_path.iterdir()
    (obj,) = json.loads(kept.read_text())["objects"]
    assert obj["kind"] == "Service"
    printed = capsys.readouterr().out
    assert "--seed 1 --only " in printed
    assert "profile" in printed


class WaveringOracle(FakeOracle):
    """Decides differently the second time, as upstream does where the order of a map matters."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def _ask(self, command: list[str], cases: Any) -> list[Obj]:
        if command[0] == "stored":
            return list(cases)
        self.calls += 1
        best = ["first"] if self.calls == 1 else ["second"]
        return [{"id": case["id"], "decision": decision(best)} for case in cases]


def test_a_second_decision_of_the_oracle_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = list(generated(Options(only=(3,))))
    answer_with(monkeypatch, lambda case: {"decision": decision(["second"])})
    (verdict,) = verdicts_module.judge(WaveringOracle(), cases)
    assert verdict.again
    assert not verdict.differs
    answer_with(monkeypatch, lambda case: {"decision": decision(["third"])})
    assert verdicts_module.judge(WaveringOracle(), cases)[0].signature == ("feasible",)


def test_a_crash_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, lambda case: {"crash": "KeyError: 'x' (y.py:1)"})
    (verdict,) = verdicts_module.judge(FakeOracle(), list(generated(Options(only=(3,)))))
    assert verdict.signature == ("decision", "KeyError")


def test_replay_checks_the_oracle_against_the_record(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer_with(monkeypatch, lambda case: {"decision": decision(nodes_of(case))})
    cases = list(generated(Options(cases=2)))
    right = {**cases[0], "decision": decision(nodes_of(cases[0]))}
    wrong = {**cases[1], "decision": decision(["nobody"])}
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(obj) + "\n" for obj in (right, wrong)))
    assert replay(FakeOracle(), path, Options(shrink=False)) == 1
    assert "oracle: 1 of 2 recorded decisions reproduced" in capsys.readouterr().out


def test_save_writes_cases_and_decisions(tmp_path: Path) -> None:
    assert save(FakeOracle(), Options(cases=5, seed=9), tmp_path) == 0
    cases = read_lines(tmp_path / "cases-9.jsonl")
    answers = read_lines(tmp_path / "decisions-9.jsonl")
    assert [case["id"] for case in cases] == [answer["id"] for answer in answers]
    assert answers[0]["decision"]["feasible"] == nodes_of(cases[0])


def test_an_index_names_one_case_in_any_selection_of_families() -> None:
    volumes = list(generated(Options(cases=24, families=("volumes",))))
    assert [volume["id"] for volume in volumes] == ["fuzz-volumes-1:7", "fuzz-volumes-1:19"]
    assert volumes[0] == next(iter(generated(Options(only=(7,)))))


def test_the_command_repeats_one_case() -> None:
    command = repeat_command("fuzz-ports-77:1234", Options())
    assert command == "python conformance/fuzz_parity.py --seed 77 --only 1234"


def test_outcomes_of_a_decision() -> None:
    keys = outcome_keys(
        decision(
            [],
            rejected={
                "n": {"plugin": "X", "code": "Unschedulable", "reasons": ['claim "c-1" gone']}
            },
            message="0/3 nodes are available: x.",
            messageAfterPostFilter=(
                "0/3 nodes are available: x. no new claims to deallocate, preemption: "
                "0/3 nodes are available: 2 No preemption victims found for incoming pod, 1 y."
            ),
        )
    )
    assert keys == {
        "feasible 0",
        'reject X U claim "…" gone',
        "after No preemption victims found for incoming pod",
        "after y",
    }
