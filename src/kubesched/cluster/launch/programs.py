"""Paths of the real Kubernetes programs that `make control-plane` builds.

Owns the cache directory and the error for a missing program. Never builds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.4"


class MissingProgramError(RuntimeError):
    """A program has not been built."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The directory of programs and KWOK stages."""

    root: Path

    @classmethod
    def built(cls) -> Programs:
        """Return the programs in the user's cache."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        return cls(Path(cache) / "kubesched" / "control-plane" / KUBERNETES_VERSION)

    def path(self, name: str) -> Path:
        """Return the path of a program; MissingProgramError says how to build it."""
        program = self.root / "bin" / name
        if not program.is_file():
            raise MissingProgramError(
                f"{name} is not built: there is no {program}. "
                "Run `make control-plane` (needs Go 1.26, 9 GB of disk and 20 minutes)"
            )
        return program

    def check(self, names: Iterable[str]) -> None:
        """Raise MissingProgramError unless all programs exist."""
        for name in names:
            self.path(name)

    def stages(self) -> list[Path]:
        """Return the KWOK stages of nodes and pods."""
        program = sorted((self.root / "stages").glob("*.yaml"))
        if not program:
            raise MissingProgramError(
                f"no KWOK stages in {self.root / 'stages'}: run `make control-plane`"
            )
        return program
