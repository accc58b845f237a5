"""The plugin registry: maps plugin names to classes or factories, and checks their signatures.

Upstream: pkg/scheduler/framework/runtime/registry.go
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from kubesched.framework import interface
from kubesched.framework.interface import EXTENSION_POINTS, points_of
from kubesched.framework.runtime.plugin_args import parameters, signature

PluginFactory: TypeAlias = Callable[..., Any]
"""A plugin class, or a function `(args, handle) -> plugin`; either parameter may be left out."""

_OPTIONAL_PROTOCOLS = (
    interface.CacheablePlugin,
    interface.EnqueueExtensions,
    interface.PreFilterExtensions,
    interface.ColumnPreFilterExtensions,
    interface.ScoreExtensions,
)
_ALTERNATIVES = (("filter", "filter_nodes"), ("score", "score_nodes"), ("add_pod", "add_pods"))
# Optional methods of an extension point.
_NOT_REQUIRED = frozenset(("unreserve", "pre_bind_pre_flight", "fragment"))
# Methods that may be async; all others run within a decision, which never awaits.
MAY_BE_ASYNC = frozenset(("permit", "pre_bind", "bind", "post_bind"))
MUST_NOT_AWAIT = (
    "this method must not await: fetch external data in the background with handle.start_task()"
)


class DuplicatePluginError(ValueError):
    """Two plugins with the same name."""


class SignatureError(TypeError):
    """The signature of a plugin's method does not match its extension point."""


class Registry(dict[str, PluginFactory]):
    """Plugin factories by name."""

    def __init__(self, factories: Mapping[str, PluginFactory] | None = None) -> None:
        super().__init__()
        self._origins: dict[str, str] = {}
        self._offers: set[str] = set()
        for name, factory in (factories or {}).items():
            self.register(name, factory)

    def register(
        self, name: str, factory: PluginFactory, *, origin: str = "", is_offer: bool = False
    ) -> None:
        """Add a plugin under a name; raises if the name is taken or a signature is wrong.

        Args:
            name: Its name in configurations.
            factory: A class, or a function that creates the plugin.
            origin: Where it comes from, for messages.
            is_offer: Whether a configuration may omit it: a program offers its plugins, while a
                plugin on the command line must be enabled.
        """
        if name in self:
            raise DuplicatePluginError(f"a plugin named {name} already exists")
        if inspect.isclass(factory):
            check_signatures(name, factory)
        self[name] = factory
        self._origins[name] = origin
        if is_offer:
            self._offers.add(name)

    def origin(self, name: str) -> str:
        """Return where a plugin comes from; empty if that is unknown."""
        return self._origins[name]

    def is_offer(self, name: str) -> bool:
        """Return whether a configuration may omit a plugin."""
        return name in self._offers

    def merge(self, other: Registry) -> Registry:
        """Return a registry with the plugins of both."""
        merged = Registry()
        for registry in (self, other):
            for name, factory in registry.items():
                origin, is_offer = registry.origin(name), registry.is_offer(name)
                merged.register(name, factory, origin=origin, is_offer=is_offer)
        return merged

    def make(self, name: str, args: object, handle: object) -> Any:
        """Create a plugin; `args` and `handle` are passed if its factory takes them."""
        factory = self[name]
        arguments = {"args": args, "handle": handle}
        accepted = parameters(factory)
        if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
            arguments = {key: value for key, value in arguments.items() if key in accepted}
        plugin = factory(**arguments)
        if getattr(plugin, "name", None) != name:
            _rename(plugin, name)
        if not inspect.isclass(factory):
            check_signatures(name, type(plugin))
        return plugin


def _rename(plugin: Any, name: str) -> None:
    """Give a plugin the name under which it is registered."""
    try:
        plugin.name = name
    except AttributeError as problem:
        own = getattr(plugin, "name", type(plugin).__name__)
        raise SignatureError(
            f"plugin {name}: {type(plugin).__name__} is called {own} and cannot be renamed "
            f"({problem})"
        ) from None


def check_signatures(name: str, plugin: type) -> None:
    """Raise `SignatureError` if a method does not match its extension point."""
    for one, many in _ALTERNATIVES:
        if _has(plugin, one) and _has(plugin, many):
            raise SignatureError(f"plugin {name}: has both {one}() and {many}(); keep one of them")
    if not points_of(plugin):
        methods = ", ".join(f"{m}()" for p in EXTENSION_POINTS.values() for m in p.methods)
        raise SignatureError(
            f"plugin {name}: {plugin.__name__} extends no extension point; give it one of {methods}"
        )
    protocols = [p for point in EXTENSION_POINTS.values() for p in point.protocols]
    for protocol in (*protocols, *_OPTIONAL_PROTOCOLS):
        signatures = protocol_methods(protocol)
        if any(_has(plugin, method) for method in signatures):
            for method, expected in signatures.items():
                _check_method(name, plugin, method, expected)


@cache
def protocol_methods(protocol: type) -> dict[str, inspect.Signature]:
    """Return the methods that a protocol defines itself, with their signatures."""
    return {
        method: inspect.signature(function)
        for method, function in vars(protocol).items()
        if inspect.isfunction(function) and not method.startswith("_")
    }


def _check_method(name: str, plugin: type, method: str, expected: inspect.Signature) -> None:
    shown = f"def {method}{expected}".replace("'", "")
    if not _has(plugin, method):
        if method in _NOT_REQUIRED:
            return
        raise SignatureError(f"plugin {name}: {method}() is missing; expected: {shown}")
    function = getattr(plugin, method)
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if is_async and method not in MAY_BE_ASYNC:
        raise SignatureError(f"plugin {name}: {method}() is async, but {MUST_NOT_AWAIT}")
    actual = signature(function)
    is_bound = isinstance(inspect.getattr_static(plugin, method), (staticmethod, classmethod))
    try:
        actual.bind(*list(expected.parameters)[is_bound:])
    except TypeError as problem:
        raise SignatureError(
            f"plugin {name}: {method}{actual} cannot be called as the framework does ({problem}); "
            f"expected: {shown}"
        ) from None


def _has(plugin: type, method: str) -> bool:
    return callable(getattr(plugin, method, None))
