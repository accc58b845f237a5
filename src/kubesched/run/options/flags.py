"""Command-line flags, parsed and listed as Kubernetes' components do.

Owns the syntax (`--name value`, `--name=value`, `-v3`, `-v 3`, flags without a value, underscores
for hyphens), syntax errors and the layout of help. The effects of flags are in parse.
Upstream: spf13/pflag flag.go, errors.go; component-base cli/flag/{flags,sectioned}.go
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.golang.strconv import go_quote
from kubesched.run.options.flag_types import FlagType
from kubesched.run.options.values import OptionsError

_WIDTH_MIN: Final = 80
_NAME_WIDTH_MAX: Final = 30
_INDENT: Final = 6
_TYPE_NAMES: Final = {
    "bool": "",
    "stringSlice": "strings",
    "stringArray": "string",
    "int32Slice": "ints",
    "int32": "int",
    "float32": "float",
    "Level": "level",
    "namedCertKey": "cert,key",
}
_ZERO: Final = frozenset(("", "0", "0s", "false", "[]"))


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: its name, type and help text."""

    name: str
    type: FlagType
    usage: str
    shorthand: str = ""
    shown: str = ""
    """The name of the value in help."""
    default: str = ""
    """The default in help; that of the type if empty."""

    @property
    def title(self) -> str:
        """Return the name of the flag in messages."""
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"


class FlagSet:
    """All flags of a command, in groups, and their values: `flags[name]`."""

    def __init__(self, groups: Mapping[str, Sequence[Flag]]) -> None:
        self.groups: dict[str, Sequence[Flag]] = {}
        self.used: set[str] = set()
        """The names of the flags on the command line."""
        self._flags: dict[str, Flag] = {}
        self._shorthands: dict[str, Flag] = {}
        self._values: dict[str, Any] = {}
        for group, flags in groups.items():
            self.add(group, flags)

    def add(self, group: str, flags: Sequence[Flag]) -> None:
        """Add a group of flags."""
        self.groups[group] = flags
        self._flags.update((flag.name, flag) for flag in flags)
        self._shorthands.update((flag.shorthand, flag) for flag in flags if flag.shorthand)
        self._values.update((flag.name, flag.type.default) for flag in flags)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def flag(self, name: str) -> Flag:
        """Return the definition of a flag."""
        return self._flags[name]

    def text(self, name: str) -> str:
        """Return the value of a flag as text."""
        return self._flags[name].type.format(self._values[name])

    def __contains__(self, name: object) -> bool:
        return name in self._flags

    def __iter__(self) -> Iterator[Flag]:
        """Iterate over the flags in name order."""
        return (self._flags[name] for name in sorted(self._flags))

    def parse(self, arguments: Sequence[str]) -> list[str]:
        """Set the flags; return the positional arguments.

        Raises:
            OptionsError: At stage "usage", for the first malformed argument.
        """
        # Parity: pflag flag.go parseArgs, v1.0.9
        left = list(reversed(arguments))
        positional: list[str] = []
        while left:
            argument = left.pop()
            if argument == "--":
                positional += reversed(left)
                break
            if argument.startswith("--"):
                self._long(argument, left)
            elif argument.startswith("-") and len(argument) > 1:
                self._short(argument, left)
            else:
                positional.append(argument)
        return positional

    def _long(self, argument: str, left: list[str]) -> None:
        name, has_value, value = argument[2:].partition("=")
        if not name or name.startswith("-"):
            raise OptionsError(f"bad flag syntax: {argument}", "usage")
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise OptionsError(f"unknown flag: --{name}", "usage", name)
        if not has_value:
            value = flag.type.alone
            if not value:
                if not left:
                    raise OptionsError(f"flag needs an argument: --{name}", "usage", name)
                value = left.pop()
        self._set(flag, value)

    def _short(self, argument: str, left: list[str]) -> None:
        # Shorthands can be combined; the first that needs a value takes the rest.
        letters = argument[1:]
        while letters:
            flag = self._shorthands.get(letters[0])
            where = f"{_go_rune(letters[0])} in -{letters}"
            if flag is None:
                raise OptionsError(f"unknown shorthand flag: {where}", "usage")
            if len(letters) > 2 and letters[1] == "=":
                value, letters = letters[2:], ""
            elif flag.type.alone:
                value, letters = flag.type.alone, letters[1:]
            elif len(letters) > 1:
                value, letters = letters[1:], ""
            elif left:
                value, letters = left.pop(), ""
            else:
                raise OptionsError(f"flag needs an argument: {where}", "usage")
            self._set(flag, value)

    def _set(self, flag: Flag, value: str) -> None:
        try:
            self.set(flag.name, value)
        except ValueError as problem:
            shown = f"{go_quote(value)} for {go_quote(flag.title)} flag"
            text = f"invalid argument {shown}: {problem}"
            raise OptionsError(text, "usage", flag.name) from None

    def set(self, name: str, text: str) -> None:
        """Use a flag once; raise ValueError with upstream's text."""
        kind = self._flags[name].type
        is_first = kind.replaces_default and name not in self.used
        self._values[name] = kind.parse(text, () if is_first else self._values[name])
        self.used.add(name)


def _go_rune(char: str) -> str:
    """Return a shorthand as pflag quotes it: it takes bytes for characters, twice."""
    if not char.isascii():
        return "'Ã'"
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"


def flag_help(flags: FlagSet, width: int) -> str:
    """Return the help of every group, each with a title."""
    return "\n".join(
        f"{group[:1].upper()}{group[1:]} flags:\n"
        + "".join(one_flag(flag, width) for flag in listed)
        for group, listed in flags.groups.items()
    )


def one_flag(flag: Flag, width: int) -> str:
    """Return the help of one flag."""
    width = max(width, _WIDTH_MIN)
    dashes = f"  -{flag.shorthand}, " if flag.shorthand else " " * _INDENT
    value_name = flag.shown or _TYPE_NAMES.get(flag.type.name, flag.type.name)
    name = f"{dashes}--{flag.name} {value_name}".rstrip()
    usage = flag.usage
    default = flag.default or flag.type.format(flag.type.default)
    if default not in _ZERO:
        usage += f" (default {default})"
    column = _INDENT + _NAME_WIDTH_MAX + 2
    lines = [
        line
        for paragraph in usage.split("\n")
        for line in textwrap.wrap(
            paragraph, width - column, break_long_words=False, break_on_hyphens=False
        )
    ]
    text = textwrap.indent("\n".join(lines), " " * column) + "\n"
    return f"{name}\n{text}" if len(name) + 2 > column else name.ljust(column) + text[column:]


def nearest_flag(flags: FlagSet, name: str) -> str | None:
    """Return the known flag most similar to a wrong name."""
    names = [flag.name for flag in flags]
    matches = difflib.get_close_matches(name.replace("_", "-"), names, n=1, cutoff=0.75)
    return matches[0] if matches else None
