"""Files read with the error texts of Go's os package."""

from __future__ import annotations

from pathlib import Path


def read_file(path: str) -> bytes:
    """Return a file's bytes; raise ValueError with the text of Go's os.ReadFile."""
    try:
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise ValueError(f"read {path}: is a directory") from None
    except (OSError, ValueError) as problem:
        raise ValueError(os_error("open", path, problem)) from None


def os_error(operation: str, path: str, problem: Exception) -> str:
    """Return Go's text for a system error about a file."""
    reason = getattr(problem, "strerror", None) or "invalid argument"
    return f"{operation} {path}: {reason[:1].lower()}{reason[1:]}"
