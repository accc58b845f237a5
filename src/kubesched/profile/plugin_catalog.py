"""Catalog of available plugins: origin, extension points and arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubesched.config.defaults import default_args
from kubesched.config.encode import encode_args
from kubesched.config.schema import ARGS, Struct
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EXTENSION_POINTS, points_of
from kubesched.framework.runtime.plugin_args import (
    ArgsField,
    args_fields,
    args_type,
    decode_args,
    made_class,
)
from kubesched.framework.runtime.registry import PluginFactory, Registry, check_signatures
from kubesched.plugins.in_tree import IN_TREE
from kubesched.plugins.record import InTreePlugin
from kubesched.profile.plugin_loading import (
    PluginLoadError,
    installed_plugins,
    load_entry_point,
    origin_of,
)

_TYPE_META: Final = ("apiVersion", "kind")


class Arguments(msgspec.Struct, frozen=True):
    """A plugin's arguments under pluginConfig; no fields means any."""

    kind: str
    fields: tuple[ArgsField, ...] = ()


class ListedPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """The description of a plugin."""

    name: str
    origin: str = msgspec.field(name="from")
    extension_points: tuple[str, ...] = ()
    nodes: str = ""
    """Whether it evaluates `one` node at a time or `all` at once; empty if it does neither."""
    args: Arguments | None = None
    problem: str = ""
    """Why it cannot be used."""


def listed_plugins(registry: Registry | None = None) -> list[ListedPlugin]:
    """Return the plugins of a registry, of installed packages, and in-tree."""
    loaded = registry or Registry()
    return [
        *(_out_of_tree(name, loaded[name], loaded.origin(name)) for name in loaded),
        *_installed({*IN_TREE, *loaded}),
        *(_in_tree(IN_TREE[name]) for name in sorted(IN_TREE)),
    ]


def _installed(taken: Iterable[str]) -> Iterator[ListedPlugin]:
    seen: set[str] = set()
    for entry in installed_plugins():
        if entry.name in taken or entry.name in seen:
            problem = "another plugin has this name already"
            yield ListedPlugin(entry.name, origin_of(entry), problem=problem)
            continue
        seen.add(entry.name)
        try:
            plugin = load_entry_point(entry)
        except PluginLoadError as load_error:
            problem = str(load_error).removeprefix(f"{origin_of(entry)}: ")
            yield ListedPlugin(entry.name, origin_of(entry), problem=problem)
        else:
            yield _out_of_tree(plugin.name, plugin.factory, plugin.origin)


def _out_of_tree(name: str, factory: PluginFactory, origin: str) -> ListedPlugin:
    try:
        # A factory without a return annotation is called.
        cls = made_class(factory) or type(
            Registry({name: factory}).make(
                name, decode_args(factory, None), Handle("default-scheduler")
            )
        )
        check_signatures(name, cls)
        args = _declared_args(factory)
    except Exception as problem:  # noqa: BLE001 - a user's factory may raise anything
        text = " ".join(f"{problem}".split())
        return ListedPlugin(name, origin, problem=text or type(problem).__name__)
    return ListedPlugin(name, origin, _points(cls), _nodes(cls), args)


def _declared_args(factory: PluginFactory) -> Arguments | None:
    struct, is_raw, _ = args_type(factory)
    if is_raw:
        return Arguments("any")
    return None if struct is None else Arguments(struct.__name__, tuple(args_fields(struct)))


def _in_tree(record: InTreePlugin) -> ListedPlugin:
    name, plugin, kind = record.name, record.plugin, f"{record.name}Args"
    args = _declared_args(plugin) if record.args is not None else None
    if kind in ARGS:
        args = Arguments(kind, tuple(_fields(name, ARGS[kind])))
    return ListedPlugin(name, "in-tree", _points(plugin), _nodes(plugin), args)


def _fields(name: str, schema: Struct) -> Iterator[ArgsField]:
    defaults = encode_args(default_args(name, {}))
    for field, described in schema.fields.items():
        if field not in _TYPE_META:
            yield ArgsField(field, described.type.go_type, default=defaults.get(field))


def _points(plugin: object) -> tuple[str, ...]:
    extended = points_of(plugin)
    return tuple(point for point in EXTENSION_POINTS if point in extended)


def _nodes(plugin: object) -> str:
    methods = {"one": ("filter", "score"), "all": ("filter_nodes", "score_nodes")}
    return ", ".join(
        nodes for nodes, names in methods.items() if any(hasattr(plugin, n) for n in names)
    )
