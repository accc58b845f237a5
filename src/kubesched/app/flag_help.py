"""Help about flags, as text of a given width.

Owns the layout: groups with a title, names in one column, what they are for in another, wrapped.
Never prints, and never asks a terminal for its width.
Upstream: component-base cli/flag/sectioned.go PrintSections, spf13/pflag FlagUsagesWrapped
"""

from __future__ import annotations

import difflib
import textwrap
from typing import Final

from kubesched.app.flags import Flag, FlagSet

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
    what = flag.shown or _TYPE_NAMES.get(flag.value.type_name, flag.value.type_name)
    name = f"{dashes}--{flag.name} {what}".rstrip()
    usage = flag.usage
    if flag.default not in _ZERO:
        usage += f" (default {flag.default})"
    column = _INDENT + _NAME_WIDTH_MAX + 2
    lines = [
        line
        for paragraph in usage.split("\n")
        for line in textwrap.wrap(
            paragraph, width - column, break_long_words=False, break_on_hyphens=False
        )
    ]
    if len(name) + 2 > column:
        return "".join(f"{line}\n" for line in (name, *(" " * column + one for one in lines)))
    first = name.ljust(column) + lines[0]
    return "".join(f"{line}\n" for line in (first, *(" " * column + one for one in lines[1:])))


def nearest_flag(flags: FlagSet, name: str) -> str | None:
    """Return the flag that a wrong name may have meant."""
    known = [flag.name for flag in flags]
    found = difflib.get_close_matches(name.replace("_", "-"), known, n=1, cutoff=0.75)
    return found[0] if found else None
