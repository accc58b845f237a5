"""Durations in query parameters, as Go writes them.

Owns the texts of what is wrong with one.
Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go; Go's time package
"""

from __future__ import annotations

import re
from typing import Final

from kubesched.apiserver.errors import bad_request
from kubesched.objects.field_errors import go_quote

_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_UNITS: Final = {"ns", "us", "µs", "μs", "ms", "s", "m", "h"}


def duration_problem(text: str) -> str:
    """Return what keeps a text from being a duration, empty if nothing does."""
    quoted, rest = go_quote(text), text.lstrip("+-") if text[:1] in {"+", "-"} else text
    if rest == "0":
        return ""
    if not rest:
        return f"time: invalid duration {quoted}"
    while rest:
        found = _PART.match(rest)
        if found is None:
            return f"time: invalid duration {quoted}"
        unit = found[2]
        if not unit:
            return f"time: missing unit in duration {quoted}"
        if unit not in _UNITS:
            return f"time: unknown unit {go_quote(unit)} in duration {quoted}"
        rest = rest[found.end() :]
    return ""


def check_timeout(text: str) -> None:
    """Refuse a timeout of a request that is none."""
    problem = duration_problem(text) if text else ""
    if problem:
        raise bad_request(f"invalid timeout specified in the request URL - {problem}")
