"""Validates object names.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go,
staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go
"""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_PATTERN = re.compile(_LABEL)
_SUBDOMAIN_PATTERN = re.compile(_SUBDOMAIN)
_DNS_1035_PATTERN = re.compile(_DNS_1035)


def _too_long(name: str, limit: int) -> list[str]:
    if len(name.encode("utf-8", "surrogatepass")) > limit:
        return [f"must be no more than {limit} characters"]
    return []


def _masked(name: str, *, is_prefix: bool) -> str:
    """Replace the end of a generateName by a placeholder for the generated suffix."""
    # Parity: generic.go maskTrailingDash, v1.36: it replaces the character before the dash, too.
    return name[:-2] + "a" if is_prefix and name.endswith("-") and len(name) > 1 else name


def subdomain_problems(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return why a name is not a valid RFC 1123 subdomain."""
    name = _masked(name, is_prefix=is_prefix)
    problems = _too_long(name, 253)
    if not _SUBDOMAIN_PATTERN.fullmatch(name):
        problems.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )
    return problems


def label_problems(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return why a name is not a valid RFC 1123 label."""
    name = _masked(name, is_prefix=is_prefix)
    problems = _too_long(name, 63)
    if _LABEL_PATTERN.fullmatch(name):
        return problems
    if _SUBDOMAIN_PATTERN.fullmatch(name):
        problems.append("must not contain dots")
    else:
        problems.append(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
            "'-', and must start and end with an alphanumeric character "
            f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
        )
    return problems


def dns_1035_problems(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return why a name is not a valid RFC 1035 label (services)."""
    name = _masked(name, is_prefix=is_prefix)
    problems = _too_long(name, 63)
    if not _DNS_1035_PATTERN.fullmatch(name):
        problems.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character "
            f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS_1035}')"
        )
    return problems


def path_segment_problems(name: str, *, is_prefix: bool = False) -> list[str]:
    """Return why a name is not a valid path segment (RBAC kinds)."""
    if not is_prefix and name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]
