"""A scheduler for a run, from the text of its configuration.

Owns the choice of configuration and seed, and the one-line texts of what is wrong with them. Never
reads a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.app.build import Built, build, config_enabling, never_enabled
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.engine.handle import OfflineHandle
from kubesched.framework.registry import Registry


class ConfiguredError(ValueError):
    """The configuration, or a plugin it names, cannot be used."""


def configured(
    text: bytes | None = None,
    *,
    registry: Registry | None = None,
    seed: int = 0,
    uses_all: bool = True,
) -> Built:
    """Return the profiles of a configuration; without a text, those of the default one.

    Args:
        text: The configuration. Without one, plugins of the registry are enabled at multiPoint of
            the default profile.
        registry: Plugins of the user's own.
        seed: Where chance starts from.
        uses_all: Whether each of these plugins has to be enabled.

    Raises:
        ConfiguredError: In one line, why not.
    """
    try:
        built = build(
            config_enabling(registry) if text is None else load_config(text),
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


def check_use(configurations: Sequence[Built], registry: Registry | None) -> None:
    """Raise ConfiguredError if a plugin is enabled in none of the configurations."""
    unused = [never_enabled(built, registry) for built in configurations]
    for name in unused[0]:
        if all(name in names for names in unused):
            raise ConfiguredError(
                f"no profile enables the plugin {name}; add it under plugins.multiPoint.enabled"
            )
