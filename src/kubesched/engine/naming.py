"""Names for a user who gave one that nothing has.

Owns which of very many names are worth showing. Never guesses which was meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

LISTED_MAX = 10


def nearest(names: Iterable[str], like: str = "") -> str:
    """Return some of the names as a text, those that begin most alike first.

    Args:
        names: of things that are there, with or without a namespace before them.
        like: the name that was given.
    """
    wanted = like.rpartition("/")[2]

    def differing(name: str) -> tuple[int, str]:
        letters = zip(wanted, name.rpartition("/")[2], strict=False)
        return -sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters)), name

    ordered = sorted(names, key=differing)
    more = len(ordered) - LISTED_MAX
    shown = ", ".join(ordered[:LISTED_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
