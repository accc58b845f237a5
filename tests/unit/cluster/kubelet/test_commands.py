"""Interpretation of container commands."""

from __future__ import annotations

import pytest

from kubesched.cluster.kubelet.commands import FOREVER, outcome_of


@pytest.mark.parametrize(
    ("words", "run_s", "code"),
    [
        pytest.param(["true"], 0, 0, id="it succeeds"),
        pytest.param(["/bin/false"], 0, 1, id="it fails, wherever it is"),
        pytest.param(["sleep", "3"], 3, 0, id="it sleeps"),
        pytest.param(["sleep", "1.5m", "30"], 120, 0, id="it sleeps for units and sums"),
        pytest.param(["sleep", "infinity"], FOREVER, 0, id="it sleeps for ever"),
        pytest.param(["sh", "-c", "sleep 2; exit 3"], 2, 3, id="a script sets the exit code"),
        pytest.param(["/bin/sh", "-c", "exit 3; sleep 9"], 0, 3, id="nothing comes after exit"),
        pytest.param(["sh", "-c", "false; true"], 0, 0, id="the last one counts"),
        pytest.param(["sh", "-c", "false && sleep 5"], 0, 1, id="a failure stops a chain"),
        pytest.param(["sh", "-c", "true && sleep 5"], 5, 0, id="a success does not"),
        pytest.param(["bash", "-c", "while true; do sleep 1; done"], FOREVER, 0, id="a loop"),
        pytest.param(
            ["sh", "-c", "trap 'exit 0' TERM; while true; do wait; done"], FOREVER, 0,
            id="a loop after an unknown command",
        ),
        pytest.param(["tail", "-f", "/dev/null"], FOREVER, 0, id="a file that stays empty"),
        pytest.param(["sh", "-c", "exit 256"], 0, 0, id="codes are bytes"),
    ],
)  # fmt: skip
def test_known(words: list[str], run_s: float, code: int) -> None:
    outcome = outcome_of(words)
    assert outcome is not None
    assert (outcome.run_s, outcome.exit_code) == (run_s, code)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="nothing"),
        pytest.param(["nginx", "-g", "daemon off;"], id="a server"),
        pytest.param(["sleep", "soon"], id="an invalid time"),
        pytest.param(["sleep"], id="no time"),
        pytest.param(["sh", "-c", "echo $HOME"], id="a variable"),
        pytest.param(["sh", "-c", "echo a | wc"], id="a pipe"),
        pytest.param(["sh", "-c", "echo 'open"], id="an open quote"),
        pytest.param(["sh", "-c", "exit $((1 / 2))"], id="arithmetic"),
        pytest.param(["sh", "script.sh"], id="a file"),
    ],
)
def test_unknown(words: list[str]) -> None:
    assert outcome_of(words) is None


def test_output_has_the_time_of_its_command() -> None:
    outcome = outcome_of(["sh", "-c", "echo one two\nsleep 4\necho 'three  four'"])
    assert outcome is not None
    assert outcome.lines == ((0.0, "one two"), (4.0, "three  four"))
