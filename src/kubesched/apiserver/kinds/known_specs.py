"""Specs of pods that were looked at before.

Owns the memory of verdicts that came out clean: the pods of one controller have the same spec, and
what is wrong with it is the same for each. Never remembers a complaint, and never answers for a
pod whose name or annotations its rules look at too.
Upstream: none; this is only about time.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.apiserver.documents import Document

_COUNT_MAX: Final = 1024
_BYTES_MAX: Final = 16_384
_encode: Final = msgspec.json.Encoder().encode


class KnownSpecs:
    """What was found to be in order."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def has(self, key: bytes) -> bool:
        """Tell whether a spec is known to be in order; an empty key is of none that can be."""
        return key in self._known

    def add(self, key: bytes) -> None:
        """Remember that a spec is in order."""
        if not key or len(key) > _BYTES_MAX:
            return
        if len(self._known) >= _COUNT_MAX:
            self._known.clear()
        self._known[key] = None


def spec_key(pod: Document) -> bytes:
    """Return what equal specs have in common, empty if the rest of the pod matters as well."""
    spec = pod["spec"]
    # Volumes and claims are checked together with the pod's name and annotations.
    if pod["metadata"].get("annotations") or spec.get("volumes") or spec.get("resourceClaims"):
        return b""
    return _encode(spec)
