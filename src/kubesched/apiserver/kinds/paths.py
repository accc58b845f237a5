"""Rules for paths of files inside documents.

Owns what is wrong with a path that must stay below a directory.
Upstream: pkg/apis/core/validation/validation.go validateLocalDescendingPath and beside it
"""

from __future__ import annotations

from kubesched.apiserver.errors import Problem, invalid


def check_no_backsteps(value: str, path: str, out: list[Problem]) -> None:
    """Note a path that climbs."""
    if ".." in value and ".." in value.split("/"):
        out.append(invalid(path, value, "must not contain '..'"))


def check_descending(value: str, path: str, out: list[Problem]) -> None:
    """Note a path that is absolute or climbs."""
    if value.startswith("/"):
        out.append(invalid(path, value, "must be a relative path"))
    check_no_backsteps(value, path, out)


def check_local(value: str, path: str, out: list[Problem]) -> None:
    """Note a path that is absolute, climbs or is reserved."""
    check_descending(value, path, out)
    if value.startswith("..") and not value.startswith("../"):
        out.append(invalid(path, value, "must not start with '..'"))
