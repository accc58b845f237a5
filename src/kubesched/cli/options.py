"""Options several commands share.

Owns `--plugin` and how a plugin named on the command line is found.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from kubesched.framework.registry import Registry

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def plugin_option(command: CommandT) -> CommandT:
    """Add `--plugin` to a command."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="MODULE:CLASS",
        help="A plugin of your own: import path or file, a colon, its class. May be repeated.",
    )(command)


def registry_of(plugins: Iterable[str]) -> Registry | None:
    """Return a registry of the plugins named on the command line, None if there are none."""
    registry = Registry()
    for text in plugins:
        factory = _load(text)
        try:
            registry.register(str(getattr(factory, "name", factory.__name__)), factory)
        except (TypeError, ValueError) as problem:
            raise click.BadParameter(str(problem), param_hint="--plugin") from None
    return registry if len(registry) else None


def _load(text: str) -> Any:
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise click.BadParameter(f"{text!r} is not MODULE:CLASS", param_hint="--plugin")
    try:
        module = (
            _module_from_file(where) if where.endswith(".py") else importlib.import_module(where)
        )
    except Exception as problem:  # noqa: BLE001 - whatever a user's module does while it is imported
        reason = f"cannot import {where}: {type(problem).__name__}: {problem}"
        raise click.BadParameter(reason, param_hint="--plugin") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise click.BadParameter(f"{where} has no class {name}", param_hint="--plugin")
    return found


def _module_from_file(path: str) -> ModuleType:
    name = f"kubesched_plugin_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
