"""Load out-of-tree plugins from a file, a module, an installed package or the calling program.

Owns the syntax `[NAME=]MODULE:CLASS`, the import of plugin modules, their errors, and which modules
are imported again on reload. Entry points are searched only for unknown names, and only the
matching one is imported: a broken package does not affect users of other plugins.
Upstream: cmd/kube-scheduler/app/server.go WithPlugin
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kubesched.framework.interface import points_of
from kubesched.framework.runtime.plugin_args import ArgsError, args_type
from kubesched.framework.runtime.registry import PluginFactory, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP: Final = "kubesched.plugins"
"""The entry-point group of other packages."""
PROGRAM: Final = "this program"

ExtraPlugins: TypeAlias = "Mapping[str, PluginFactory] | Iterable[Any]"
"""By name; or each a class, a factory, a pair of name and factory, or `[NAME=]module:Class`."""

_NAMED: Final = re.compile(r"^([^=:/\\]+)=(.+)$")


class PluginLoadError(ValueError):
    """A plugin cannot be loaded; the message is one line."""


@dataclass(frozen=True, slots=True)
class OutOfTreePlugin:
    """An out-of-tree plugin."""

    name: str
    factory: PluginFactory
    origin: str
    """A description of where it comes from."""


# -- by name of a module or file ------------------------------------------------------------------


def load_plugin(text: str) -> OutOfTreePlugin:
    """Return the plugin of `[NAME=]module:Class` or `[NAME=]path/file.py:Class`.

    The class may also be a factory.

    Raises:
        PluginLoadError: There is no such class, or its module cannot be imported.
    """
    named = _NAMED.match(text)
    alias, origin = (named[1], named[2]) if named else ("", text)
    source, _, attribute = origin.rpartition(":")
    if not source or not attribute:
        raise PluginLoadError(f"{text!r} is not MODULE:CLASS")
    try:
        if source.endswith(".py") or "/" in source:
            module = _import_file(Path(source))
        else:
            _add_to_path(Path.cwd())
            module = importlib.import_module(source)
    except Exception as problem:  # noqa: BLE001 - a user's module may raise anything
        raise PluginLoadError(f"cannot import {source}: {_problem_text(problem)}") from None
    factory = _factory(module, source, attribute)
    return OutOfTreePlugin(alias or name_of(factory), factory, origin)


def name_of(factory: PluginFactory) -> str:
    """Return the default name of a class or factory."""
    name = getattr(factory, "name", None)
    return name if isinstance(name, str) else getattr(factory, "__name__", type(factory).__name__)


def _add_to_path(directory: Path) -> None:
    """Append a directory to the module search path."""
    # A Python script can import its neighbors; `kubesched` is started elsewhere.
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _import_file(file: Path) -> ModuleType:
    # Links are not followed: a mounted ConfigMap swaps a link to a new directory with the same
    # modules, and the old directory would come first in the search path.
    path = Path(os.path.abspath(file))  # noqa: PTH100  # resolve() follows links.
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    _add_to_path(path.parent)
    name = _module_name(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_name(path: Path) -> str:
    """Return a module name that no other file has."""
    base, file = f"kubesched_plugin_{path.stem}", str(path)
    names = chain([base], (f"{base}_{number}" for number in count(1)))
    return next(name for name in names if getattr(sys.modules.get(name), "__file__", file) == file)


def _factory(module: ModuleType, source: str, name: str) -> PluginFactory:
    factory: Any = module
    for part in name.split("."):
        factory = getattr(factory, part, None)
    if callable(factory):
        return factory
    classes = [
        value.__name__
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and points_of(value)
    ]
    has = f"; it has {', '.join(classes)}" if classes else ""
    raise PluginLoadError(f"{source} has no class {name}{has}")


def _problem_text(problem: Exception) -> str:
    """Return an exception in one line, with the location in the user's file."""
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    if isinstance(problem, SyntaxError):
        return text
    for frame in reversed(traceback.extract_tb(problem.__traceback__)):
        if "importlib" not in frame.filename and frame.filename != __file__:
            return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"
    return text


# -- registries -----------------------------------------------------------------------------------


def registry_with(
    plugins: ExtraPlugins, *, origin: str = PROGRAM, is_offer: bool = False
) -> Registry:
    """Return a registry of the plugins of a program or a command line.

    Raises:
        ValueError: A plugin cannot be loaded or is invalid, or two have the same name.
        TypeError: A method has a wrong signature, or an item is not a plugin.
    """
    registry = Registry()
    for plugin in _each(plugins, origin):
        registry.register(plugin.name, plugin.factory, origin=plugin.origin, is_offer=is_offer)
        try:
            args_type(plugin.factory)
        except ArgsError as problem:
            raise PluginLoadError(f"plugin {plugin.name}: {problem}") from None
    return registry


def text_of(name: str, factory: PluginFactory) -> str:
    """Return the `--plugin` argument with which another process can load a plugin.

    Raises:
        PluginLoadError: It is not an attribute of a module, such as a lambda.
    """
    module = sys.modules.get(factory.__module__)
    attribute = getattr(factory, "__qualname__", "")
    if module is None or not attribute or "<" in attribute:
        raise PluginLoadError(
            f"plugin {name} is not a named attribute of a module, so another process cannot load it"
        )
    if "." in module.__name__ or not getattr(module, "__file__", None):
        return f"{name}={module.__name__}:{attribute}"
    return f"{name}={module.__file__}:{attribute}"


def _each(plugins: ExtraPlugins, origin: str) -> Iterator[OutOfTreePlugin]:
    if isinstance(plugins, str):
        raise TypeError(f"plugins is a list, not the text {plugins!r}")
    pairs = plugins.items() if isinstance(plugins, Mapping) else plugins
    for item in pairs:
        if isinstance(item, str):
            yield load_plugin(item)
            continue
        name, factory = item if isinstance(item, tuple) else ("", item)
        if not callable(factory):
            raise TypeError(f"{factory!r} is not a plugin: expected a class or a factory")
        yield OutOfTreePlugin(name or name_of(factory), factory, origin)


# -- entry points ---------------------------------------------------------------------------------


def installed_plugins() -> list[EntryPoint]:
    """Return the entry points of installed packages, without importing them."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # Seldom needed, and slow.

    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, origin_of(entry)))


def find_installed(name: str) -> OutOfTreePlugin | None:
    """Return the plugin of an installed package by its name; None if there is none.

    Raises:
        PluginLoadError: It cannot be imported, or several packages declare it.
    """
    entries = [entry for entry in installed_plugins() if entry.name == name]
    if len(entries) > 1:
        origins = ", ".join(map(origin_of, entries))
        raise PluginLoadError(f"several packages declare this plugin: {origins}")
    return load_entry_point(entries[0]) if entries else None


def load_entry_point(entry: EntryPoint) -> OutOfTreePlugin:
    """Import an entry point; PluginLoadError names its package."""
    origin = origin_of(entry)
    try:
        factory = entry.load()
    except Exception as problem:  # noqa: BLE001 - a package may raise anything
        text = _problem_text(problem)
        raise PluginLoadError(f"{origin}: cannot load {entry.value}: {text}") from None
    if not callable(factory):
        raise PluginLoadError(f"{origin}: {entry.value} is neither a class nor a factory")
    return OutOfTreePlugin(entry.name, factory, origin)


def origin_of(entry: EntryPoint) -> str:
    """Return a description of an entry point's package."""
    dist = entry.dist
    return "package unknown" if dist is None else f"package {dist.name} {dist.version}"


# -- reload ---------------------------------------------------------------------------------------

_SHARED: Final = frozenset(map(Path, sysconfig.get_paths().values()))
"""Directories of unrelated modules."""


def modules_of(factories: Iterable[Any], sources: Iterable[Path | str]) -> dict[str, ModuleType]:
    """Return the modules of plugins by name, without modules of kubesched.

    Args:
        factories: Plugin classes or factories.
        sources: Module names and files from the command line, which may re-export the plugins.
    """
    names = dict.fromkeys(
        getattr(factory, "__module__", None) or type(factory).__module__ for factory in factories
    )
    listed = frozenset(map(str, sources))
    loaded = _foreign_modules()
    for name, module in loaded.items():
        if name in listed or getattr(module, "__file__", None) in listed:
            names[name] = None
    modules: dict[str, ModuleType] = {}
    for name in names:
        if name in loaded:
            modules.update(_related(name, loaded))
    return modules


def _foreign_modules() -> dict[str, ModuleType]:
    """Return the imported modules that do not belong to kubesched."""
    ours = ("__main__", __name__.partition(".")[0])
    return {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] not in ours and isinstance(module, ModuleType)
    }


def _related(name: str, modules: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """Return a module, its package, and modules of the same directory."""
    package, directory = name.partition(".")[0], _directory(modules[name])
    related = {name: modules[name]}
    for other, module in modules.items():
        is_near = "." not in other and directory is not None and _directory(module) == directory
        if (other.partition(".")[0] == package or is_near) and not _is_compiled(module):
            related[other] = module
    return related


def _directory(module: ModuleType) -> Path | None:
    """Return the directory of a module; None if its neighbors are unrelated."""
    file = getattr(module, "__file__", None)
    directory = None if file is None else Path(file).parent
    return None if directory in _SHARED else directory


def _is_compiled(module: ModuleType) -> bool:
    """Return whether a module is an extension module, which often cannot be loaded twice."""
    file = getattr(module, "__file__", None)
    return file is not None and not file.endswith(".py")


def files_of(modules: Iterable[ModuleType]) -> list[Path]:
    """Return the files of modules."""
    files = (getattr(module, "__file__", None) for module in modules)
    return sorted({Path(file) for file in files if file})


class Forgotten:
    """Modules that the next import loads again."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        """Remove modules from sys.modules."""
        self._modules = modules
        for name in modules:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        linecache.checkcache()

    def restore(self) -> None:
        """Restore the modules, replacing those imported since."""
        sys.modules.update(self._modules)
