"""A mixin for objects that plugins must not change.

Attributes whose names begin with an underscore stay writable: lazily computed values are kept
there.
"""

from __future__ import annotations


class ReadOnlyError(AttributeError):
    """A plugin tried to change a read-only object."""


class ReadOnly:
    """Rejects changes of attributes without a leading underscore."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise ReadOnlyError(
                f"{name} cannot be changed: objects passed to plugins are read-only"
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise ReadOnlyError(f"{name} cannot be removed: objects passed to plugins are read-only")
