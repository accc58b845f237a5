"""The value of `--plugin-budget`.

Owns how time budgets of plugins are written. What they mean is `framework.fence`'s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from kubesched.config.gotext import format_duration, parse_duration
from kubesched.framework.fence import Budgets


class PluginBudgetsValue:
    """`[NAME=]DURATION`; every time the flag is given adds to it."""

    __slots__ = ("value",)
    type_name: ClassVar[str] = "[NAME=]DURATION"

    def __init__(self) -> None:
        self.value = Budgets()

    def set(self, text: str) -> None:
        name, is_named, duration = text.rpartition("=")
        seconds = parse_duration(duration) / 1e9
        if seconds < 0:
            raise ValueError("a time budget cannot be less than zero")
        if not is_named:
            self.value = replace(self.value, default_s=seconds)
        elif not name:
            raise ValueError("the name of a plugin is missing before =")
        else:
            self.value = replace(self.value, by_plugin={**self.value.by_plugin, name: seconds})

    def __str__(self) -> str:
        named = [f"{name}={_shown(s)}" for name, s in self.value.by_plugin.items()]
        return ",".join((_shown(self.value.default_s), *named))


def _shown(seconds: float) -> str:
    return format_duration(round(seconds * 1e9))
