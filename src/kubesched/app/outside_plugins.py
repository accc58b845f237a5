"""Plugins from outside: from a file, a module, another package, or the program that runs us.

Owns the words by which a plugin is named (`NAME=module:Class`), how its module is imported, and the
texts of what goes wrong on the way. Entry points are only looked at for a name that nobody else
has, and only that one is imported: a broken package does not stop who does not use it.
Upstream: cmd/kube-scheduler/app/server.go WithPlugin
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kubesched.framework.interface import points_of
from kubesched.framework.plugin_args import ArgsError, args_class
from kubesched.framework.registry import PluginFactory, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "kubesched.plugins"
"""The entry-point group of other packages."""
PROGRAM: Final = "this program"

GivenPlugins: TypeAlias = "Mapping[str, PluginFactory] | Iterable[Any]"
"""By name; or each a class, a factory, a pair of name and factory, or `[NAME=]module:Class`."""

_NAMED: Final = re.compile(r"^([^=:/\\]+)=(.+)$")


class PluginLoadError(ValueError):
    """A plugin that cannot be had, and why, in one line."""


@dataclass(frozen=True, slots=True)
class OutsidePlugin:
    """A plugin that is not ours."""

    name: str
    factory: PluginFactory
    origin: str
    """Where it comes from, for people."""
    file: Path | None = None
    """The file it was loaded from, if it was named by its file."""


# -- by name of a module or file ------------------------------------------------------------------


def load_plugin(text: str, *, fresh: bool = False) -> OutsidePlugin:
    """Return the plugin of `[NAME=]module:Class` or `[NAME=]path/file.py:Class`.

    Args:
        text: As on the command line. In place of a class there may be a factory.
        fresh: Have a file executed again although it was before.

    Raises:
        PluginLoadError: There is no such thing, or its module cannot be imported.
    """
    named = _NAMED.match(text)
    given, place = (named[1], named[2]) if named else ("", text)
    where, _, attribute = place.rpartition(":")
    if not where or not attribute:
        raise PluginLoadError(f"{text!r} is not MODULE:CLASS")
    is_file = where.endswith(".py") or "/" in where
    try:
        module = _module_of_file(Path(where), fresh=fresh) if is_file else _imported(where)
    except Exception as problem:  # noqa: BLE001 - whatever a user's module does while it is imported
        raise PluginLoadError(f"cannot import {where}: {_told(problem, where)}") from None
    factory = _attribute(module, where, attribute)
    return OutsidePlugin(
        given or name_of(factory), factory, place, Path(where).resolve() if is_file else None
    )


def name_of(factory: PluginFactory) -> str:
    """Return what a class or factory is called unless somebody gives it another name."""
    name = getattr(factory, "name", None)
    return name if isinstance(name, str) else getattr(factory, "__name__", type(factory).__name__)


def _imported(name: str) -> ModuleType:
    _see(Path.cwd())
    return importlib.import_module(name)


def _see(directory: Path) -> None:
    """Have modules of a directory found, after all others."""
    # A script of Python sees its neighbours; `kubesched` starts elsewhere.
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _module_of_file(file: Path, *, fresh: bool) -> ModuleType:
    # Links are not followed: behind one that is swapped, as a mounted ConfigMap's is, the same
    # modules lie in another directory, and of two directories the former would be seen first.
    path = Path(os.path.abspath(file))  # noqa: PTH100  # resolve() follows links.
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    _see(path.parent)
    name = _module_name(path)
    if name in sys.modules and not fresh:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
    return module


def _module_name(path: Path) -> str:
    """Return a name that no other file has."""
    wanted = f"kubesched_plugin_{path.stem}"
    for number in range(len(sys.modules)):
        name = f"{wanted}_{number}" if number else wanted
        known = sys.modules.get(name)
        if known is None or getattr(known, "__file__", None) == str(path):
            return name
    raise AssertionError("more names than modules")


def _attribute(module: ModuleType, where: str, name: str) -> PluginFactory:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found
    known = [one.__name__ for one in _plugin_classes(module)]
    has = f"; it has {', '.join(known)}" if known else ""
    raise PluginLoadError(f"{where} has no class {name}{has}")


def _plugin_classes(module: ModuleType) -> Iterator[type]:
    for found in vars(module).values():
        if inspect.isclass(found) and found.__module__ == module.__name__ and points_of(found):
            yield found


def _told(problem: Exception, where: str) -> str:
    """Return an exception in one line, with the place in the user's file."""
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    if isinstance(problem, SyntaxError):
        return text
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if "importlib" not in frame.filename and frame.filename != __file__:
            return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"
    return text


# -- all that was given ---------------------------------------------------------------------------


def registry_given(
    plugins: GivenPlugins, *, origin: str = PROGRAM, is_offer: bool = False
) -> Registry:
    """Return a registry of plugins that a program or a command line gives.

    Raises:
        ValueError: One cannot be had, two have one name, or its methods or args are wrong.
        TypeError: The same of its methods' signatures, or something is no plugin at all.
    """
    registry = Registry()
    for plugin in _each(plugins, origin):
        registry.register(plugin.name, plugin.factory, origin=plugin.origin, is_offer=is_offer)
        try:
            args_class(plugin.factory)
        except ArgsError as problem:
            raise PluginLoadError(f"plugin {plugin.name}: {problem}") from None
    return registry


def text_of(name: str, factory: PluginFactory) -> str:
    """Return the words by which another process finds a plugin that this one has.

    Raises:
        PluginLoadError: It has no name of its own, such as a lambda.
    """
    module = sys.modules.get(factory.__module__)
    attribute = getattr(factory, "__qualname__", "")
    if module is None or not attribute or "<" in attribute:
        raise PluginLoadError(
            f"plugin {name} is not in a module under a name of its own, so no other process can "
            "have it"
        )
    if "." in module.__name__ or not getattr(module, "__file__", None):
        return f"{name}={module.__name__}:{attribute}"
    return f"{name}={module.__file__}:{attribute}"


def _each(plugins: GivenPlugins, origin: str) -> Iterator[OutsidePlugin]:
    if isinstance(plugins, str):
        raise TypeError(f"plugins is a list, not the text {plugins!r}")
    pairs = plugins.items() if isinstance(plugins, Mapping) else plugins
    for given in pairs:
        if isinstance(given, str):
            yield load_plugin(given)
            continue
        name, factory = given if isinstance(given, tuple) else ("", given)
        if not callable(factory):
            raise TypeError(f"{factory!r} is no plugin: expected a class or a factory")
        yield OutsidePlugin(name or name_of(factory), factory, origin)


# -- entry points ---------------------------------------------------------------------------------


def found_plugins() -> Iterator[EntryPoint]:
    """Yield what installed packages declare, without importing any of it."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # Seldom needed, and slow.

    yield from sorted(entry_points(group=GROUP), key=lambda one: (one.name, _package(one)))


def found_plugin(name: str) -> OutsidePlugin | None:
    """Return the plugin that an installed package declares under a name, None if there is none.

    Raises:
        PluginLoadError: It cannot be imported, or several packages declare it.
    """
    found = [one for one in found_plugins() if one.name == name]
    if not found:
        return None
    if len(found) > 1:
        raise PluginLoadError(
            f"several packages have a plugin of this name: {', '.join(map(origin_of, found))}"
        )
    return load_found(found[0])


def load_found(entry: EntryPoint) -> OutsidePlugin:
    """Import what an entry point declares; PluginLoadError names the entry point."""
    origin = origin_of(entry)
    try:
        factory = entry.load()
    except Exception as problem:  # noqa: BLE001 - whatever a package does while it is imported
        text = _told(problem, entry.module)
        raise PluginLoadError(f"{origin}: cannot load {entry.value}: {text}") from None
    if not callable(factory):
        raise PluginLoadError(f"{origin}: {entry.value} is neither a class nor a factory")
    return OutsidePlugin(entry.name, factory, origin)


def origin_of(entry: EntryPoint) -> str:
    """Return where an entry point comes from, for people."""
    return f"package {_package(entry)}"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"
