"""Plugin names and what makes them.

Owns the map from a name to a class or factory, merging, and the check of signatures, done once.
Upstream: pkg/scheduler/framework/runtime/registry.go
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from kubesched.framework import interface
from kubesched.framework.interface import EXTENSION_POINTS
from kubesched.framework.plugin_args import parameters, signature

PluginFactory: TypeAlias = Callable[..., Any]
"""A plugin class, or a function `(args, handle) -> plugin`; either parameter may be left out."""

_OPTIONAL_PROTOCOLS = (
    interface.CacheablePlugin,
    interface.EnqueueExtensions,
    interface.PreFilterExtensions,
    interface.ColumnPreFilterExtensions,
    interface.ScoreExtensions,
    interface.SignPlugin,
)
_ALTERNATIVES = (("filter", "filter_nodes"), ("score", "score_nodes"), ("add_pod", "add_pods"))
# Methods a plugin may leave out although its point has them.
_NOT_REQUIRED = frozenset(("unreserve", "pre_bind_pre_flight", "fragment"))
# Methods that are waited for; all others decide at once, and no await can be part of a decision.
MAY_BE_ASYNC = frozenset(("permit", "pre_bind", "bind", "post_bind"))
AT_ONCE = (
    "it decides at once and never awaits: have data from outside fetched in the background, with "
    "handle.start_task()"
)


class DuplicatePluginError(ValueError):
    """Two plugins of one name."""


class SignatureError(TypeError):
    """A plugin's method cannot be called as its extension point calls it."""


class Registry:
    """Names to factories."""

    def __init__(self, factories: Mapping[str, PluginFactory] | None = None) -> None:
        self._factories: dict[str, PluginFactory] = {}
        self._origins: dict[str, str] = {}
        self._offers: set[str] = set()
        for name, factory in (factories or {}).items():
            self.register(name, factory)

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def __getitem__(self, name: str) -> PluginFactory:
        return self._factories[name]

    def __repr__(self) -> str:
        return f"<Registry of {len(self)} plugins>"

    def register(
        self, name: str, factory: PluginFactory, *, origin: str = "", is_offer: bool = False
    ) -> None:
        """Add a plugin under a name; refuse a name that is taken and methods of a wrong shape.

        Args:
            name: What configurations call it.
            factory: A class, or a function that makes the plugin.
            origin: Where it comes from, for people.
            is_offer: Whether a configuration may leave it out: a program offers its plugins, while
                one that was asked for on a command line is meant to run.
        """
        if name in self._factories:
            raise DuplicatePluginError(f"a plugin named {name} already exists")
        if inspect.isclass(factory):
            check_signatures(name, factory)
        self._factories[name] = factory
        self._origins[name] = origin
        if is_offer:
            self._offers.add(name)

    def origin(self, name: str) -> str:
        """Return where a plugin comes from; empty if nobody said."""
        return self._origins[name]

    def is_offer(self, name: str) -> bool:
        """Return whether a configuration may leave a plugin out."""
        return name in self._offers

    def merge(self, other: Registry) -> Registry:
        """Return a registry with the plugins of both."""
        merged = Registry()
        for registry in (self, other):
            for name in registry:
                merged.register(
                    name,
                    registry[name],
                    origin=registry.origin(name),
                    is_offer=registry.is_offer(name),
                )
        return merged

    def make(self, name: str, args: object, handle: object) -> Any:
        """Return a new plugin, given its args and a handle as far as it asks for them."""
        factory = self._factories[name]
        offered = {"args": args, "handle": handle}
        plugin = factory(**_wanted(factory, offered))
        if getattr(plugin, "name", None) != name:
            _give_name(plugin, name)
        if not inspect.isclass(factory):
            check_signatures(name, type(plugin))
        return plugin


def _give_name(plugin: Any, name: str) -> None:
    """Have a plugin answer to the name it was registered by: any may be given to a class."""
    try:
        plugin.name = name
    except AttributeError as problem:
        own = getattr(plugin, "name", type(plugin).__name__)
        raise SignatureError(
            f"plugin {name}: {type(plugin).__name__} is called {own} and does not let itself be "
            f"renamed ({problem})"
        ) from None


def check_signatures(name: str, plugin: type) -> None:
    """Raise `SignatureError` if a method of the plugin does not take what it will be given."""
    for one, many in _ALTERNATIVES:
        if _has(plugin, one) and _has(plugin, many):
            raise SignatureError(
                f"plugin {name}: has both {one}() and {many}(); give one of the two, not both"
            )
    if not any(_has(plugin, m) for point in EXTENSION_POINTS.values() for m in point.methods):
        raise SignatureError(
            f"plugin {name}: {plugin.__name__} extends no extension point; give it one of "
            + ", ".join(f"{m}()" for p in EXTENSION_POINTS.values() for m in p.methods)
        )
    protocols = [p for point in EXTENSION_POINTS.values() for p in point.protocols]
    for protocol in (*protocols, *_OPTIONAL_PROTOCOLS):
        methods = protocol_methods(protocol)
        if any(_has(plugin, method) for method in methods):
            for method, expected in methods.items():
                _check_method(name, plugin, method, expected)


@cache
def protocol_methods(protocol: type) -> dict[str, inspect.Signature]:
    """Return the methods a protocol itself names, with their signatures."""
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
    if method not in MAY_BE_ASYNC and _is_async(function):
        raise SignatureError(f"plugin {name}: {method}() is async, but {AT_ONCE}")
    actual = signature(function)
    is_bound = isinstance(inspect.getattr_static(plugin, method), (staticmethod, classmethod))
    try:
        actual.bind(*list(expected.parameters)[is_bound:])
    except TypeError as problem:
        raise SignatureError(
            f"plugin {name}: {method}{actual} cannot be called as it will be ({problem}); "
            f"expected: {shown}"
        ) from None


def _has(plugin: type, method: str) -> bool:
    return callable(getattr(plugin, method, None))


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _wanted(factory: PluginFactory, offered: Mapping[str, object]) -> dict[str, object]:
    known = parameters(factory)
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in known}
