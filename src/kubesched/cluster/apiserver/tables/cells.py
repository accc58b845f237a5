"""Formats cells: ages, selectors, truncated lists.

Upstream: pkg/printers/internalversion/printers.go,
staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubesched.api.label_selectors import label_selector
from kubesched.api.meta import LabelSelector
from kubesched.api.times import parse_time
from kubesched.cluster.apiserver.documents import Document

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def human_duration(seconds: float) -> str:
    """Format a duration with at most two units, which are coarser for long durations."""
    # Parity: duration.go HumanDuration, v1.36
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for unit, name, smaller, smaller_name, two_until, until in (
        (_MINUTE, "m", 1, "s", 10 * _MINUTE, 3 * _HOUR),
        (_HOUR, "h", _MINUTE, "m", 8 * _HOUR, 2 * _DAY),
        (_DAY, "d", _HOUR, "h", 8 * _DAY, 2 * _YEAR),
        (_YEAR, "y", _DAY, "d", 8 * _YEAR, 0),
    ):
        if whole < until or not until:
            rest = whole % unit // smaller
            short = f"{whole // unit}{name}"
            return f"{short}{rest}{smaller_name}" if rest and whole < two_until else short
    raise AssertionError


def since(time: str | None, now_s: float) -> str:
    """Format the time since a timestamp."""
    if not time:
        return UNKNOWN
    return human_duration(now_s - parse_time(time))


def age(document: Document, now_s: float) -> str:
    """Format the age of an object."""
    return since((document.get("metadata") or {}).get("creationTimestamp"), now_s)


def labels_text(labels: dict[str, str] | None) -> str:
    """Format labels as `key=value` pairs."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Any, *, empty: str = NONE, broken: str = "<error>") -> str:
    """Format a label selector."""
    if selector is None:
        return empty
    try:
        return str(label_selector(msgspec.convert(selector, LabelSelector))) or empty
    except (ValueError, msgspec.ValidationError):
        return broken


def containers_cells(containers: Sequence[Document] | None) -> list[str]:
    """Return the cells with the names and the images of containers."""
    return [
        ",".join(str(container.get(name) or "") for container in containers or ())
        for name in ("name", "image")
    ]


def shortened(values: Sequence[str], limit: int = 3) -> str:
    """Format the first values and the number of others."""
    text = ",".join(values[:limit])
    if len(values) > limit:
        return f"{text} + {len(values) - limit} more..."
    return text or UNSET


def condition_status(conditions: Sequence[Document] | None, kind: str) -> str | None:
    """Return the status of the first condition of a type, or None."""
    for condition in conditions or ():
        if condition.get("type") == kind:
            return str(condition.get("status") or "")
    return None
