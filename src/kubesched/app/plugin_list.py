"""Every plugin a configuration could name: where it is from, what it extends, what it takes.

Owns what is told of a plugin. Nothing is decided here; a factory that does not say what it makes is
asked to make one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kubesched.app.outside_plugins import (
    PluginLoadError,
    found_plugins,
    load_found,
    origin_of,
)
from kubesched.config.defaults import default_args
from kubesched.config.encode import encode_args
from kubesched.config.schema import ARGS, Struct
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.interface import EXTENSION_POINTS, points_of
from kubesched.framework.plugin_args import (
    args_class,
    args_fields,
    decoded_args,
    made_class,
    takes_raw_args,
)
from kubesched.framework.registry import PluginFactory, Registry, check_signatures
from kubesched.plugins.in_tree import in_tree_registry

IN_TREE: Final = "in-tree"
_TYPE_META: Final = ("apiVersion", "kind")


class Field(msgspec.Struct, frozen=True):
    """One field of a plugin's arguments."""

    name: str
    type: str
    required: bool = False
    default: Any = None


class Arguments(msgspec.Struct, frozen=True):
    """What a plugin takes under pluginConfig; without fields, anything."""

    kind: str
    fields: tuple[Field, ...] = ()


class ListedPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """What is told of a plugin."""

    name: str
    origin: str = msgspec.field(name="from")
    extension_points: tuple[str, ...] = ()
    nodes: str = ""
    """Whether it filters and scores `one` node at a time or `all` at once; empty if neither."""
    args: Arguments | None = None
    problem: str = ""
    """Why it cannot be used."""


def listed_plugins(given: Registry | None = None) -> list[ListedPlugin]:
    """Return those that were given, those of installed packages, and our own."""
    ours = in_tree_registry()
    names = {*ours, *(given or ())}
    return [
        *(_outside(name, given[name], given.origin(name)) for name in given or () if given),
        *_found(names),
        *(_in_tree(name, ours[name]) for name in sorted(ours)),
    ]


def _found(taken: Iterable[str]) -> Iterator[ListedPlugin]:
    seen: set[str] = set()
    for entry in found_plugins():
        if entry.name in taken or entry.name in seen:
            problem = "another plugin has this name already"
            yield ListedPlugin(entry.name, origin_of(entry), problem=problem)
            continue
        seen.add(entry.name)
        try:
            found = load_found(entry)
        except PluginLoadError as problem_found:
            text = str(problem_found).removeprefix(f"{origin_of(entry)}: ")
            yield ListedPlugin(entry.name, origin_of(entry), problem=text)
        else:
            yield _outside(found.name, found.factory, found.origin)


def _outside(name: str, factory: PluginFactory, origin: str) -> ListedPlugin:
    try:
        made = made_class(factory) or type(_made(name, factory))
        check_signatures(name, made)
        args = _outside_args(factory)
    except Exception as problem:  # noqa: BLE001 - whatever a user's factory raises is told
        text = " ".join(f"{problem}".split())
        return ListedPlugin(name, origin, problem=text or type(problem).__name__)
    return ListedPlugin(name, origin, _points(made), _nodes(made), args)


def _made(name: str, factory: PluginFactory) -> Any:
    """Return a plugin of a factory that does not say what it makes."""
    registry = Registry({name: factory})
    return registry.make(name, decoded_args(factory, None), OfflineHandle("default-scheduler"))


def _outside_args(factory: PluginFactory) -> Arguments | None:
    if takes_raw_args(factory):
        return Arguments("any")
    struct = args_class(factory)
    if struct is None:
        return None
    fields = (Field(f.name, f.type, f.is_required, f.default) for f in args_fields(struct))
    return Arguments(struct.__name__, tuple(fields))


def _in_tree(name: str, plugin: PluginFactory) -> ListedPlugin:
    kind = f"{name}Args"
    args = Arguments(kind, tuple(_fields(name, ARGS[kind]))) if kind in ARGS else None
    return ListedPlugin(name, IN_TREE, _points(plugin), _nodes(plugin), args)


def _fields(name: str, shape: Struct) -> Iterator[Field]:
    defaults = encode_args(default_args(name, {}))
    for field, described in shape.fields.items():
        if field not in _TYPE_META:
            yield Field(field, described.type.go_type, default=defaults.get(field))


def _points(plugin: object) -> tuple[str, ...]:
    extended = points_of(plugin)
    return tuple(point for point in EXTENSION_POINTS if point in extended)


def _nodes(plugin: object) -> str:
    one = any(hasattr(plugin, method) for method in ("filter", "score"))
    every = any(hasattr(plugin, method) for method in ("filter_nodes", "score_nodes"))
    if one and every:
        return "one, all"
    return "one" if one else "all" if every else ""
