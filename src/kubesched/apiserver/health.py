"""Whether the server lives and is ready.

Owns the texts of /healthz, /livez and /readyz.
Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

_PATHS: Final = ("healthz", "livez", "readyz")
Check = Callable[[], bool]


class Health:
    """Named checks, in order."""

    def __init__(self, is_ready: Check) -> None:
        self._checks: dict[str, dict[str, Check]] = {
            "healthz": {"ping": _fine, "log": _fine, "etcd": _fine},
            "livez": {"ping": _fine, "log": _fine, "etcd": _fine},
            "readyz": {
                "ping": _fine,
                "log": _fine,
                "etcd": _fine,
                "informer-sync": _fine,
                "shutdown": is_ready,
            },
        }

    def answer(
        self, parts: Sequence[str], *, is_verbose: bool, excluded: Sequence[str]
    ) -> tuple[int, str] | None:
        """Return status and text of a path, None if there is no such check."""
        if parts[0] not in _PATHS or len(parts) > 2:
            return None
        checks = self._checks[parts[0]]
        if len(parts) == 2:
            if parts[1] not in checks:
                return None
            return (200, "ok") if checks[parts[1]]() else (500, "internal server error: not ok")
        return _all(parts[0], checks, is_verbose=is_verbose, excluded=excluded)


def _all(
    name: str, checks: dict[str, Check], *, is_verbose: bool, excluded: Sequence[str]
) -> tuple[int, str]:
    lines: list[str] = []
    is_fine = True
    for check, holds in checks.items():
        if check in excluded:
            lines.append(f"[+]{check} excluded: ok")
        elif holds():
            lines.append(f"[+]{check} ok")
        else:
            lines.append(f"[-]{check} failed: reason withheld")
            is_fine = False
    unknown = [one for one in excluded if one not in checks]
    if unknown:
        listed = ", ".join(f'"{one}"' for one in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
    text = "\n".join(lines)
    if not is_fine:
        return 500, f"{text}\n{name} check failed\n"
    return 200, f"{text}\n{name} check passed\n" if is_verbose else "ok"


def _fine() -> bool:
    return True
