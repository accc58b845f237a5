"""Event objects of events.k8s.io/v1 and of the core group.

Owns the documents, their names and timestamps. Never sends anything, and never counts: recorder
does.
Upstream: staging/src/k8s.io/client-go/tools/events/event_recorder.go makeEvent,
tools/record/event.go makeEvent, tools/record/util/util.go, tools/reference/ref.go
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api.meta import ObjectReference
from kubesched.api.times import time_text

NOTE_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."
_NAME_CHARS_MAX: Final = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def reference_of(document: Mapping[str, Any], field_path: str = "") -> ObjectReference:
    """Return the reference to a decoded object, or to a field such as `spec.containers{web}`."""
    metadata = document.get("metadata") or {}
    return ObjectReference(
        kind=document.get("kind", ""),
        api_version=document.get("apiVersion", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        field_path=field_path,
    )


class EventFacts(NamedTuple):
    """The content of an event."""

    regarding: ObjectReference
    related: ObjectReference | None
    type: str
    reason: str
    action: str
    note: str
    controller: str
    instance: str
    at_ns: int

    @property
    def namespace(self) -> str:
        """Return the namespace of the event."""
        return self.regarding.namespace or "default"


def event_body(name: str, facts: EventFacts, series: tuple[int, int] | None) -> bytes:
    """Return an Event of events.k8s.io/v1; a series is a count with the last time."""
    return _encode(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": facts.namespace},
            "eventTime": micro_time(facts.at_ns),
            "series": series and _series(series),
            "reportingController": facts.controller,
            "reportingInstance": facts.instance,
            "action": facts.action,
            "reason": facts.reason,
            "regarding": facts.regarding,
            "related": facts.related,
            "note": facts.note,
            "type": facts.type,
        }
    )


def series_patch(series: tuple[int, int]) -> bytes:
    """Return the strategic merge patch of a series."""
    return _encode({"series": _series(series)})


def core_event_body(name: str, facts: EventFacts, series: tuple[int, int] | None) -> bytes:
    """Return an Event of the core group; a series is a count with the last time."""
    count, last_ns = series or (1, facts.at_ns)
    source = {"component": facts.controller}
    if facts.instance:
        source["host"] = facts.instance
    return _encode(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": facts.namespace},
            "involvedObject": facts.regarding,
            "reason": facts.reason,
            "message": facts.note,
            "source": source,
            "firstTimestamp": time_text(facts.at_ns // 1_000_000_000),
            "lastTimestamp": time_text(last_ns // 1_000_000_000),
            "count": count,
            "type": facts.type,
            "reportingComponent": facts.controller,
            "reportingInstance": facts.instance,
        }
    )


def core_series_patch(series: tuple[int, int], note: str) -> bytes:
    """Return the strategic merge patch of the count of a core event."""
    count, last_ns = series
    last = time_text(last_ns // 1_000_000_000)
    return msgspec.json.encode({"count": count, "lastTimestamp": last, "message": note})


def _encode(fields: dict[str, Any]) -> bytes:
    """Encode an object without its empty fields."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value})


def _series(series: tuple[int, int]) -> dict[str, Any]:
    count, last_ns = series
    return {"count": count, "lastObservedTime": micro_time(last_ns)}


def event_name(regarding_name: str, at_ns: int) -> str:
    """Return the name of an event: object and time, or random if that is invalid."""
    name = f"{regarding_name}.{at_ns:x}"
    if len(name) <= _NAME_CHARS_MAX and _SUBDOMAIN.fullmatch(name):
        return name
    # Not from the seeded generator: schedulers with the same seed must not collide.
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def truncated_note(message: str) -> str:
    """Truncate a message to the size of a note.

    Parity: pkg/scheduler/schedule_one.go truncateMessage, v1.36. It cuts bytes; a character that is
    cut in two is left out, since JSON could only carry it as a longer one.
    """
    data = message.encode()
    if len(data) <= NOTE_BYTES_MAX:
        return message
    return data[: NOTE_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT.decode()


def micro_time(at_ns: int) -> str:
    """Format a time as metav1.MicroTime."""
    second, rest_ns = divmod(at_ns, 1_000_000_000)
    return f"{time_text(second).removesuffix('Z')}.{rest_ns // 1000:06d}Z"
