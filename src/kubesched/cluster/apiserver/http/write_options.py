"""Parses and validates create, update, patch and delete options.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go managerOrUserAgent
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from multidict import MultiMapping

from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    invalid_object,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.http.request_info import is_true
from kubesched.cluster.apiserver.verbs.context import WriteOptions

_MANAGER_LENGTH_MAX: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")


Query: TypeAlias = MultiMapping[str]
"""Query parameters; a name may occur several times."""


def write_options(
    query: Query, kind: str, user_agent: str, *, is_apply: bool = False
) -> WriteOptions:
    """Parse and validate the options of a write.

    Args:
        query: the query parameters.
        kind: CreateOptions, UpdateOptions or PatchOptions, for error messages.
        user_agent: the User-Agent, from which the default field manager is derived.
        is_apply: whether a configuration is applied, which needs a manager and may use force.
    """
    dry_run = query.getall("dryRun", [])
    manager = query.get("fieldManager", "")
    validation = query.get("fieldValidation", "")
    force = query.get("force", "")
    problems: list[Problem] = []
    if kind == "PatchOptions":
        problems += _apply_problems(manager, force, is_apply=is_apply)
    problems += _manager_problems(manager)
    if any(one != "All" for one in dry_run):
        problems.append(not_supported("dryRun", dry_run, ("All",)))
    if validation not in _VALIDATIONS:
        problems.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if problems:
        raise invalid_object("meta.k8s.io", kind, "", problems)
    return WriteOptions(
        is_dry_run=bool(dry_run),
        field_manager=manager or manager_from_user_agent(user_agent),
        field_validation=validation or "Warn",
        force=is_true(force) if force else None,
    )


def _apply_problems(manager: str, force: str, *, is_apply: bool) -> list[Problem]:
    if is_apply:
        return [] if manager else [required("fieldManager", "is required for apply patch")]
    return [forbidden_field("force", "may not be specified for non-apply patch")] if force else []


def _manager_problems(manager: str) -> list[Problem]:
    problems: list[Problem] = []
    if len(manager.encode()) > _MANAGER_LENGTH_MAX:
        problems.append(too_long("fieldManager", _MANAGER_LENGTH_MAX))
    at = 0
    for char in manager:
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {at})"
            problems.append(invalid("fieldManager", manager, text))
        at += len(char.encode("utf-8", "surrogatepass"))
    return problems


@lru_cache(maxsize=1024)
def manager_from_user_agent(user_agent: str) -> str:
    """Return the part of a User-Agent before the version: printable and truncated."""
    # Parity: handlers/create.go prefixFromUserAgent, v1.36
    kept, size = "", 0
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        size += len(char.encode("utf-8", "surrogatepass"))
        if size > _MANAGER_LENGTH_MAX:
            break
        kept += char
    return kept
