"""A command line taken apart as Kubernetes' components do it.

Owns the syntax: `--name value`, `--name=value`, `-v3`, `-v 3`, flags that need no value, flags in
groups, underscores that mean hyphens, and the words of every refusal. Never knows what a flag does.
Upstream: spf13/pflag flag.go, errors.go; component-base cli/flag/flags.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubesched.app.flag_values import Value
from kubesched.objects.field_errors import go_quote


class FlagError(ValueError):
    """A command line that cannot be read; `str()` is upstream's text.

    `flag` is the name that was given, if there is one.
    """

    def __init__(self, text: str, flag: str = "") -> None:
        super().__init__(text)
        self.flag = flag


@dataclass(slots=True)
class Flag:
    """A flag: its name, what it holds, and what it is for."""

    name: str
    value: Value
    usage: str
    shorthand: str = ""
    alone: str = ""
    """What the flag means when it stands alone; empty if it needs a value."""
    shown: str = ""
    """What help calls the value."""
    default: str = ""
    """What help tells about the default; the value's own text if empty."""
    is_set: bool = False

    def __post_init__(self) -> None:
        if self.value.type_name == "bool":
            self.alone = "true"
        self.default = self.default or str(self.value)

    @property
    def title(self) -> str:
        """Return how messages call the flag."""
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"


class FlagSet:
    """All flags of a command, in groups."""

    def __init__(self) -> None:
        self.groups: dict[str, list[Flag]] = {}
        self._flags: dict[str, Flag] = {}
        self._shorthands: dict[str, Flag] = {}

    def add(self, group: str, flags: Sequence[Flag]) -> None:
        """Add a group of flags."""
        self.groups[group] = list(flags)
        for flag in flags:
            assert flag.name not in self._flags
            self._flags[flag.name] = flag
            if flag.shorthand:
                self._shorthands[flag.shorthand] = flag

    def __getitem__(self, name: str) -> Flag:
        return self._flags[name]

    def __contains__(self, name: object) -> bool:
        return name in self._flags

    def __iter__(self) -> Iterator[Flag]:
        """Go through the flags in name order."""
        return (self._flags[name] for name in sorted(self._flags))

    def parse(self, arguments: Sequence[str]) -> list[str]:
        """Set the flags; return the arguments that are none.

        Raises:
            FlagError: At the first argument that cannot be read.
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
            raise FlagError(f"bad flag syntax: {argument}")
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}", name)
        if not has_value:
            value = flag.alone
            if not value:
                if not left:
                    raise FlagError(f"flag needs an argument: --{name}", name)
                value = left.pop()
        self._set(flag, value)

    def _short(self, argument: str, left: list[str]) -> None:
        # Several letters may stand together; the first that takes a value takes the rest.
        letters = argument[1:]
        while letters:
            flag = self._shorthands.get(letters[0])
            where = f"{_go_rune(letters[0])} in -{letters}"
            if flag is None:
                raise FlagError(f"unknown shorthand flag: {where}")
            if len(letters) > 2 and letters[1] == "=":
                value, letters = letters[2:], ""
            elif flag.alone:
                value, letters = flag.alone, letters[1:]
            elif len(letters) > 1:
                value, letters = letters[1:], ""
            elif left:
                value, letters = left.pop(), ""
            else:
                raise FlagError(f"flag needs an argument: {where}")
            self._set(flag, value)

    def _set(self, flag: Flag, value: str) -> None:
        try:
            flag.value.set(value)
        except ValueError as problem:
            raise FlagError(
                f"invalid argument {go_quote(value)} for {go_quote(flag.title)} flag: {problem}",
                flag.name,
            ) from None
        flag.is_set = True


def _go_rune(char: str) -> str:
    """Return a shorthand as Go quotes it: it takes bytes for characters, twice."""
    if not char.isascii():
        return "'Ã'"
    return {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{go_quote(char)[1:-1]}'"
