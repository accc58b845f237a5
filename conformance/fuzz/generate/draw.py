"""The only source of randomness of a case.

Owns the seeded generator. Never shares it between cases, so that each case is reproducible alone.
Upstream: none.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Obj = dict[str, Any]


class Draw:
    """Random choices of one case, fixed by seed and index."""

    def __init__(self, seed: int, index: int) -> None:
        # A string seed is hashed with SHA-512, hence independent of PYTHONHASHSEED.
        self._rng = random.Random(f"kubesched:{seed}:{index}")

    def chance(self, probability: float) -> bool:
        """Return True that often."""
        return self._rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, all equally likely."""
        return options[self._rng.randrange(len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """Return one of the options, each as likely as its weight."""
        point = self._rng.random() * sum(weight for _, weight in options)
        for option, weight in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][0]

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """Return between least and most different options, in random order."""
        count = min(len(options), self.number(least, most))
        return self._rng.sample(list(options), count)

    def subset(self, options: Sequence[T], probability: float) -> list[T]:
        """Return each option with this probability, in order."""
        return [option for option in options if self.chance(probability)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all options in random order."""
        return self._rng.sample(list(options), len(options))

    def number(self, least: int, most: int) -> int:
        """Return an integer of the closed range."""
        return self._rng.randint(least, most)

    def uid(self) -> str:
        """Return a random UUID, version 4."""
        digits = f"{self._rng.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) % 4]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def timestamp(self) -> str:
        """Return a moment of May 2024, to the second."""
        day, second = self.number(1, 20), self.number(0, 86399)
        return f"2024-05-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
