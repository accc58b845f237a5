"""Where the real programs are: what `make control-plane` built.

Owns the place of the cache and the message for when a program is missing. Never builds anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.4"


class MissingProgramError(RuntimeError):
    """A program that a cluster is made of has not been built."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with the programs and KWOK's stages."""

    root: Path

    @classmethod
    def built(cls) -> Programs:
        """Return the programs in the user's cache."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        return cls(Path(cache) / "kubesched" / "control-plane" / KUBERNETES_VERSION)

    def path(self, name: str) -> Path:
        """Return the path of a program; MissingProgramError says how to build it."""
        found = self.root / "bin" / name
        if not found.is_file():
            raise MissingProgramError(
                f"{name} is not built: there is no {found}. "
                "`make control-plane` builds it (it needs Go 1.26, 9 GB of disk and 20 minutes)"
            )
        return found

    def check(self, names: Iterable[str]) -> None:
        """Raise MissingProgramError unless all of some programs are there."""
        for name in names:
            self.path(name)

    def stages(self) -> list[Path]:
        """Return KWOK's descriptions of how nodes and pods come to life."""
        found = sorted((self.root / "stages").glob("*.yaml"))
        if not found:
            raise MissingProgramError(
                f"there are no KWOK stages in {self.root / 'stages'}: "
                "`make control-plane` copies them"
            )
        return found
