"""What a reader of a watch has heard.

Owns the record of one change. Never looks into an object.
Upstream: staging/src/k8s.io/client-go/tools/cache/delta_fifo.go
"""

from __future__ import annotations

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
