"""What the readers of watches have heard and nobody has looked at yet.

Owns the record of one change and the box in which changes wait, in the order in which they came.
Never looks into an object, and knows of no event loop: whoever empties the box is told when
something lies in it.
Upstream: staging/src/k8s.io/client-go/tools/cache/the_real_fifo.go
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.client.resources import Resource


@dataclass(slots=True)
class Change:
    """One object that came, changed or went."""

    resource: Resource
    type: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    key: str
    uid: str
    object: Any
    """What it is now, or was last: a struct of kubesched.objects, or a dict of a kind that has
    none. None for a deletion that a list told of by silence."""
    raw: bytes = b""
    """The JSON of the object, where the reader was asked to keep it."""
    initial: bool = False
    """Whether it was there before the reader had seen everything for the first time."""


class Inbox:
    """Changes in the order in which they came."""

    __slots__ = ("_changes", "on_arrival")

    def __init__(self, on_arrival: Callable[[], None] | None = None) -> None:
        self._changes: list[Change] = []
        self.on_arrival = on_arrival
        """Called when the first change falls into the empty box; not again before it is taken."""

    def append(self, change: Change) -> None:
        """Put a change in."""
        changes = self._changes
        changes.append(change)
        if len(changes) == 1 and self.on_arrival is not None:
            self.on_arrival()

    def take(self) -> list[Change]:
        """Take everything out."""
        changes, self._changes = self._changes, []
        return changes

    def __len__(self) -> int:
        return len(self._changes)
