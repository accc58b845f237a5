"""A scheduler for a run, from its configuration.

Owns the choice of configuration and seed, and the one-line texts of what is wrong with them. Never
reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.app.build import Built, build, config_enabling, never_enabled
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config, load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.registry import Registry


class ConfiguredError(ValueError):
    """The configuration, or a plugin it names, cannot be used."""


def configured(
    config: bytes | Mapping[str, Any] | None = None,
    *,
    registry: Registry | None = None,
    seed: int = 0,
    uses_all: bool = True,
) -> Built:
    """Return the profiles of a configuration; without one, those of the default one.

    Args:
        config: The configuration, its text or what that says. Without one, plugins of the
            registry are enabled at multiPoint of the default profile.
        registry: Plugins of the user's own.
        seed: Where chance starts from.
        uses_all: Whether each of these plugins has to be enabled.

    Raises:
        ConfiguredError: In one line, why not.
    """
    try:
        built = build(
            _loaded(config, registry),
            out_of_tree=registry,
            make_handle=lambda name: OfflineHandle(name, seed),
        )
        if uses_all:
            check_use([built], registry)
        return built
    except (ConfigError, ValueError) as problem:
        raise ConfiguredError(" ".join(str(problem).split())) from None
    except Exception as problem:
        if registry is None:
            raise
        # A plugin's own constructor can raise anything.
        raise ConfiguredError(
            f"cannot make the plugins: {type(problem).__name__}: {problem}"
        ) from None


def _loaded(
    config: bytes | Mapping[str, Any] | None, registry: Registry | None
) -> KubeSchedulerConfiguration:
    if config is None:
        return config_enabling(registry)
    return load_config(config) if isinstance(config, bytes) else load_config_object(config)


def check_use(configurations: Sequence[Built], registry: Registry | None) -> None:
    """Raise ConfiguredError if a plugin is enabled in none of the configurations."""
    unused = [never_enabled(built, registry) for built in configurations]
    for name in unused[0]:
        if all(name in names for names in unused):
            raise ConfiguredError(
                f"no profile enables the plugin {name}; add it under plugins.multiPoint.enabled"
            )
