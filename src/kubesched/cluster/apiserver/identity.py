"""UIDs and generated names, from one seeded generator.

Upstream: staging/src/k8s.io/apiserver/pkg/storage/names/generate.go
"""

from __future__ import annotations

from typing import Final

from kubesched.kit.rng import RandomStream

# No vowels, to avoid words; no 0, 1 and 3, which look like letters.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_NAME_LENGTH_MAX: Final = 63
_BASE_LENGTH_MAX: Final = _NAME_LENGTH_MAX - _SUFFIX_LENGTH


class Identities:
    """Generates UIDs and name suffixes."""

    def __init__(self, seed: int) -> None:
        self._uids = RandomStream(seed, "uids")
        self._names = RandomStream(seed, "names")

    def uid(self) -> str:
        """Return a version 4 UUID."""
        bits = self._uids.below(1 << 128)
        bits = bits & ~(0xF << 76) | 4 << 76
        bits = bits & ~(0x3 << 62) | 2 << 62
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def name(self, base: str) -> str:
        """Return a generated name with a base, which is truncated if the name gets too long."""
        number = self._names.below(len(_ALPHABET) ** _SUFFIX_LENGTH)
        suffix = ""
        for _ in range(_SUFFIX_LENGTH):
            number, digit = divmod(number, len(_ALPHABET))
            suffix += _ALPHABET[digit]
        return base[:_BASE_LENGTH_MAX] + suffix

    def below(self, bound: int) -> int:
        """Return a random integer in [0, bound)."""
        return self._names.below(bound)
