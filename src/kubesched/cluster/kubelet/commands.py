"""Interpretation of container commands without running them.

Knows `sleep`, `echo`, `true`, `false` and `exit`, alone or in a shell's `-c`; other commands are
reported as unknown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_SLEEP: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?)([smhd]?)")
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_EXIT_CODE_MAX: Final = 255
_SEPARATOR: Final = re.compile(r"(\n|;|&&)")
# Pipes, redirections and substitutions depend on more than the text.
_UNKNOWN: Final = re.compile(r"[|<>&`$(){}]")
_ENDLESS: Final = re.compile(r"\bwhile (true|:|\[ 1 \])|\bsleep inf|\btail -f ")
FOREVER: Final = float("inf")


@dataclass(slots=True)
class Outcome:
    """The result of a command."""

    run_s: float = 0.0
    """How long it runs; infinity if it never exits."""
    exit_code: int = 0
    lines: tuple[tuple[float, str], ...] = ()
    """Output lines with their offset in seconds."""


def outcome_of(words: Sequence[str]) -> Outcome | None:
    """Return the result of a command line; None if it contains an unknown command."""
    if not words:
        return None
    if _program(words[0]) in _SHELLS and len(words) >= 3 and words[1] == "-c":
        return _script(words[2])
    outcome = Outcome()
    return outcome if _run(words, outcome) is not None else None


def _script(text: str) -> Outcome | None:
    outcome = Outcome()
    separator = ";"
    for part in _SEPARATOR.split(text):
        if _SEPARATOR.fullmatch(part):
            separator = part
            continue
        words = _words(part)
        if words is None:
            return _loop(text)
        if not words or (separator == "&&" and outcome.exit_code):
            continue
        if words[:2] in (["while", "true"], ["while", ":"]):
            outcome.run_s = FOREVER
            return outcome
        continues = _run(words, outcome)
        if not continues:
            return _loop(text) if continues is None else outcome
    return outcome


def _loop(script: str) -> Outcome | None:
    """Return the result of a partly unknown script: it may contain an endless loop."""
    return Outcome(FOREVER) if _ENDLESS.search(script) else None


def _words(statement: str) -> list[str] | None:
    """Return the words of a simple command; None if it is not simple."""
    if _UNKNOWN.search(statement):
        return None
    try:
        return shlex.split(statement)
    except ValueError:
        return None


def _run(words: Sequence[str], outcome: Outcome) -> bool | None:
    """Add one command's result; return whether the script continues, None if unknown."""
    name, arguments = _program(words[0]), words[1:]
    outcome.exit_code = 0
    if name == "sleep":
        slept_s = _slept_s(arguments)
        if slept_s is None:
            return None
        outcome.run_s += slept_s
        return slept_s != FOREVER
    if name == "tail" and "-f" in arguments:
        outcome.run_s = FOREVER
        return False
    if name == "echo":
        outcome.lines += ((outcome.run_s, " ".join(arguments)),)
        return True
    if name in {"true", ":", "false"}:
        outcome.exit_code = int(name == "false")
        return True
    if name == "exit":
        code = arguments[0] if arguments else "0"
        if not code.isdecimal():
            return None
        outcome.exit_code = int(code) & _EXIT_CODE_MAX
        return False
    return None


def _slept_s(arguments: Sequence[str]) -> float | None:
    total_s = 0.0
    for text in arguments:
        if text in {"inf", "infinity"}:
            return FOREVER
        match = _SLEEP.fullmatch(text)
        if match is None:
            return None
        total_s += float(match[1]) * _UNITS_S[match[2]]
    return total_s if arguments else None


def _program(path: str) -> str:
    return path.rpartition("/")[2]
