"""Files that are written anew while the server runs.

Owns when they are looked at again. A file that cannot be read, or does not hold what it should,
leaves what was read before in force. Never watches: whoever needs the content looks.
Upstream: staging/src/k8s.io/apiserver/pkg/server/dynamiccertificates/dynamic_cafile_content.go,
dynamic_serving_content.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log

T = TypeVar("T")
_CHECK_S = 1.0


class FollowedFiles(Generic[T]):
    """What some files hold, read again when one of them changes."""

    def __init__(
        self,
        paths: Sequence[str],
        parse: Callable[[list[bytes]], T],
        *,
        clock: Clock,
        log: Log,
        loaded: tuple[str, str],
    ) -> None:
        """Read the files; what goes wrong now is raised.

        Args:
            paths: The files.
            parse: Makes something of their contents; ValueError or OSError if it cannot.
            clock: When it is worth looking again.
            log: Where it is said.
            loaded: What is said after each reading, and the name of what was read.
        """
        self._paths = [Path(one) for one in paths]
        self._parse = parse
        self._clock = clock
        self._log = log
        self._loaded = loaded
        self._stamps = self._look()
        self._contents = self._read()
        self.value = parse(self._contents)
        self._check_s = clock.monotonic_s() + _CHECK_S
        self._say()

    def current(self) -> T:
        """Return what the files hold now."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._check_s:
            self._check_s = now_s + _CHECK_S
            stamps = self._look()
            if stamps != self._stamps:
                self._reload(stamps)
        return self.value

    def _reload(self, stamps: list[tuple[int, int, int]]) -> None:
        try:
            contents = self._read()
            if contents != self._contents:
                self.value = self._parse(contents)
                self._contents = contents
                self._say()
        except (OSError, ValueError) as error:
            # Half written, perhaps. It is looked at again, as the stamps stay the old ones.
            name = self._loaded[1]
            self._log.error("Unhandled Error", err=f"{name} failed with : {error}")
            return
        self._stamps = stamps

    def _read(self) -> list[bytes]:
        return [path.read_bytes() for path in self._paths]

    def _say(self) -> None:
        self._log.info(self._loaded[0], level=2, name=self._loaded[1])

    def _look(self) -> list[tuple[int, int, int]]:
        found = []
        for path in self._paths:
            try:
                status = path.stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_mtime_ns, status.st_ino, status.st_size))
        return found
