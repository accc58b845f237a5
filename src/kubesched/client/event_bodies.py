"""Events as the API server takes them.

Owns the documents, their names and times. Never sends anything, and never counts: event_recorder
does.
Upstream: staging/src/k8s.io/client-go/tools/events/event_recorder.go makeEvent,
tools/record/event.go makeEvent, tools/record/util/util.go, tools/reference/ref.go
"""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

NOTE_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."
_NAME_CHARS_MAX: Final = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class ObjectReference(NamedTuple):
    """Which object, and which version of it, an event is about."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    field_path: str = ""
    """Which part of it, such as `spec.containers{web}`."""

    @staticmethod
    def of_document(document: Mapping[str, Any], field_path: str = "") -> ObjectReference:
        """Return the reference to an object that is there as JSON has it, or to a part of it."""
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


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str


class _Reference(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class _Series(msgspec.Struct, rename="camel", gc=False):
    count: int
    last_observed_time: str


class _Event(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    api_version: str = ""
    kind: str = ""
    metadata: _Metadata | None = None
    event_time: str = ""
    series: _Series | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: _Reference | None = None
    related: _Reference | None = None
    note: str = ""
    type: str = ""


class _Source(msgspec.Struct, omit_defaults=True, gc=False):
    component: str
    host: str = ""


class _CoreEvent(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    api_version: str = ""
    kind: str = ""
    metadata: _Metadata | None = None
    involved_object: _Reference | None = None
    reason: str = ""
    message: str = ""
    source: _Source | None = None
    first_timestamp: str = ""
    last_timestamp: str = ""
    count: int = 0
    type: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


_encode: Final = msgspec.json.Encoder().encode


class EventFacts(NamedTuple):
    """What one event says, before it is counted."""

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
        """Return where the event belongs."""
        return self.regarding.namespace or "default"


def event_body(name: str, facts: EventFacts, series: tuple[int, int] | None) -> bytes:
    """Return an Event of events.k8s.io/v1; a series is a count and when it was last seen."""
    return _encode(
        _Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=_Metadata(name, facts.namespace),
            event_time=micro_time(facts.at_ns),
            series=None if series is None else _Series(series[0], micro_time(series[1])),
            reporting_controller=facts.controller,
            reporting_instance=facts.instance,
            action=facts.action,
            reason=facts.reason,
            regarding=_wire_reference(facts.regarding),
            related=None if facts.related is None else _wire_reference(facts.related),
            note=facts.note,
            type=facts.type,
        )
    )


def series_patch(series: tuple[int, int]) -> bytes:
    """Return the strategic merge patch that writes a count."""
    return _encode({"series": _Series(series[0], micro_time(series[1]))})


def core_event_body(name: str, facts: EventFacts, series: tuple[int, int] | None) -> bytes:
    """Return an Event of the core group; a series is a count and when it was last seen."""
    count, last_ns = series or (1, facts.at_ns)
    return _encode(
        _CoreEvent(
            api_version="v1",
            kind="Event",
            metadata=_Metadata(name, facts.namespace),
            involved_object=_wire_reference(facts.regarding),
            reason=facts.reason,
            message=facts.note,
            source=_Source(facts.controller, facts.instance),
            first_timestamp=_second_text(facts.at_ns // 1_000_000_000) + "Z",
            last_timestamp=_second_text(last_ns // 1_000_000_000) + "Z",
            count=count,
            type=facts.type,
            reporting_component=facts.controller,
            reporting_instance=facts.instance,
        )
    )


def core_series_patch(series: tuple[int, int], note: str) -> bytes:
    """Return the strategic merge patch that writes the count of a core event."""
    count, last_ns = series
    last = _second_text(last_ns // 1_000_000_000) + "Z"
    return _encode({"count": count, "lastTimestamp": last, "message": note})


def event_name(regarding_name: str, at_ns: int) -> str:
    """Return the name of an event: of its object and the time, or by chance if that is no name."""
    name = f"{regarding_name}.{at_ns:x}"
    if len(name) <= _NAME_CHARS_MAX and _SUBDOMAIN.fullmatch(name):
        return name
    # Not from the seeded generator: another scheduler of the same seed must not meet it.
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def truncated_note(message: str) -> str:
    """Return what of a message fits into a note.

    Parity: pkg/scheduler/schedule_one.go truncateMessage, v1.36. It cuts bytes; a character that is
    cut in two is left out, since JSON could only carry it as a longer one.
    """
    data = message.encode()
    if len(data) <= NOTE_BYTES_MAX:
        return message
    return data[: NOTE_BYTES_MAX - len(_CUT)].decode(errors="ignore") + _CUT.decode()


def micro_time(at_ns: int) -> str:
    """Return a time as metav1.MicroTime is written."""
    second, rest_ns = divmod(at_ns, 1_000_000_000)
    return f"{_second_text(second)}.{rest_ns // 1000:06d}Z"


@lru_cache(maxsize=4)
def _second_text(second: int) -> str:
    # Most events of a burst share a second.
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _wire_reference(reference: ObjectReference) -> _Reference:
    kind, api_version, namespace, name, uid, resource_version, field_path = reference
    return _Reference(kind, namespace, name, uid, api_version, resource_version, field_path)
