"""Modules of plugins, imported anew in a running process.

Owns which modules belong to a plugin (its own, those of its package, its neighbours in the same
directory) and how they are forgotten, and remembered again if the new ones are refused. Classes
that are in use live on. Never imports anything itself.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_OURS: Final = __name__.partition(".")[0]
_SHARED: Final = frozenset(map(Path, sysconfig.get_paths().values()))
"""Where modules lie side by side that have nothing to do with each other."""


def modules_of(factories: Iterable[Any], places: Iterable[Path | str]) -> dict[str, ModuleType]:
    """Return the modules that plugins consist of, by name; none of ours.

    Args:
        factories: Classes or functions that make plugins.
        places: Where a user says that plugins are, which may be other modules than those that
            define them: names of modules, and files.
    """
    names = dict.fromkeys(
        getattr(factory, "__module__", None) or type(factory).__module__ for factory in factories
    )
    wanted = frozenset(map(str, places))
    for name, module in list(sys.modules.items()):
        if name in wanted or getattr(module, "__file__", None) in wanted:
            names[name] = None
    found: dict[str, ModuleType] = {}
    for name in names:
        there = sys.modules.get(name)
        if there is not None and name != "__main__" and not _is_ours(name):
            found.update(_beside(name, there))
    return found


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == _OURS


def _beside(name: str, module: ModuleType) -> dict[str, ModuleType]:
    """Return a module, its package, and what was imported from the directory it lies in."""
    package, directory = name.partition(".")[0], _directory(module)
    found = {name: module}
    for other, there in list(sys.modules.items()):
        if other == "__main__" or _is_ours(other) or not isinstance(there, ModuleType):
            continue
        is_near = "." not in other and directory is not None and _directory(there) == directory
        if (other.partition(".")[0] == package or is_near) and not _is_compiled(there):
            found[other] = there
    return found


def _directory(module: ModuleType) -> Path | None:
    """Return where the neighbours of a module lie; None if it has none."""
    file = getattr(module, "__file__", None)
    directory = None if file is None else Path(file).parent
    return None if directory in _SHARED else directory


def _is_compiled(module: ModuleType) -> bool:
    """Return whether a module is of machine code, which many can be loaded only once."""
    file = getattr(module, "__file__", None)
    return file is not None and not file.endswith(".py")


def files_of(modules: Iterable[ModuleType]) -> list[Path]:
    """Return the files of modules."""
    files = (getattr(module, "__file__", None) for module in modules)
    return sorted({Path(file) for file in files if file})


class Forgotten:
    """Modules that the next import is to read again."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        """Forget modules from now on."""
        self._modules = modules
        for name in modules:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        linecache.checkcache()

    def restore(self) -> None:
        """Have the modules back as they were, in place of what was imported since."""
        sys.modules.update(self._modules)
