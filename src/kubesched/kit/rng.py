"""Random numbers: one seed, one named stream for each use.

Owns the only generator. Runs with the same seed are equal.
"""

from __future__ import annotations

import random
import zlib


class RandomStream:
    """A seeded stream of integers."""

    def __init__(self, seed: int, stream: str) -> None:
        self._random = random.Random(f"{seed}:{zlib.crc32(stream.encode())}")

    def below(self, bound: int) -> int:
        """Return an integer from 0 up to, not including, the bound."""
        return self._random.randrange(bound)
