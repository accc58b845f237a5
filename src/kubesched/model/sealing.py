"""Objects that refuse to be changed.

Owns the refusal, to be mixed into the class of an object that is complete. Names that begin with an
underscore are not guarded: what is worked out late is kept there.
"""

from __future__ import annotations


class ReadOnlyError(AttributeError):
    """A plugin tried to change what it was handed."""


class Sealed:
    """Refuses every change of a name without an underscore."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        """Set a name of our own."""
        if not name.startswith("_"):
            raise ReadOnlyError(f"{name} cannot be changed: what a plugin is handed is read-only")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Refuse."""
        raise ReadOnlyError(f"{name} cannot be removed: what a plugin is handed is read-only")
