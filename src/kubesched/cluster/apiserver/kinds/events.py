"""Strategies of events of the core group and of events.k8s.io. Stored in the core form.

Upstream: pkg/registry/core/event/strategy.go, pkg/apis/core/validation/events.go,
pkg/apis/events/v1/conversion.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document, name_of, namespace_of
from kubesched.cluster.apiserver.errors import Problem, invalid, required
from kubesched.cluster.apiserver.kinds.checks import IMMUTABLE, check_qualified_name
from kubesched.cluster.apiserver.kinds.internal_form import internal_form
from kubesched.cluster.apiserver.names import subdomain_problems
from kubesched.cluster.apiserver.strategy import Request, Strategy

# The name in events.k8s.io/v1, the name in v1, and the default.
_NAMES: tuple[tuple[str, str, Any, Any], ...] = (
    ("regarding", "involvedObject", {}, {}),
    ("note", "message", None, None),
    ("deprecatedSource", "source", {}, {}),
    ("deprecatedFirstTimestamp", "firstTimestamp", None, None),
    ("deprecatedLastTimestamp", "lastTimestamp", None, None),
    ("deprecatedCount", "count", None, None),
    ("reportingController", "reportingComponent", None, ""),
    ("reportingInstance", "reportingInstance", None, ""),
    ("eventTime", "eventTime", None, None),
)
_NULLS = {
    "firstTimestamp", "lastTimestamp", "eventTime", "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
}  # fmt: skip
_REFERENCE = (
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath",
)  # fmt: skip
_LIMITS = (("reportingInstance", 128), ("action", 128), ("reason", 128))


def to_core(event: Document) -> Document:
    """Convert an event from events.k8s.io to the core form."""
    core = {**event, "apiVersion": "v1"}
    for name, core_name, _, empty in _NAMES:
        value = core.pop(name, None)
        _put(core, core_name, value, empty)
    return core


def from_core(event: Document) -> Document:
    """Convert an event from the core form to events.k8s.io."""
    converted = {**event, "apiVersion": "events.k8s.io/v1"}
    for name, core_name, empty, _ in _NAMES:
        value = converted.pop(core_name, None)
        _put(converted, name, value, empty)
    return converted


def _put(document: Document, name: str, value: Any, empty: Any) -> None:
    if value:
        document[name] = value
    elif name in _NULLS:
        document[name] = None
    elif empty is not None:
        document[name] = dict(empty) if isinstance(empty, dict) else empty


class EventStrategy(Strategy):
    """Strategy of events."""

    unselectable: tuple[str, ...] = ("regarding.", "reportingController")

    bumps_generation = False
    has_status = False
    allows_create_on_update = True
    collects_garbage = False

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Return no errors: any name is valid."""
        return []

    def validate_create(self, document: Document, request: Request) -> list[Problem]:
        """Validate an event; return the errors."""
        event = self._core(document)
        out = _legacy_problems(event, request)
        if request.group:
            out += _strict_problems(event)
        return out

    def validate_update(self, new: Document, old: Document, request: Request) -> list[Problem]:
        """Validate an update of an event."""
        event, before = self._core(new), self._core(old)
        out = _legacy_problems(event, request)
        if request.group:
            if event.get("series") != before.get("series"):
                out += _series_problems(event)
            out += _change_problems(event, before)
        return out

    def _core(self, document: Document) -> Document:
        return document

    def fields(self, document: Document) -> dict[str, str]:
        """Return the selectable fields with the names of both groups."""
        about = document.get("involvedObject") or {}
        controller = document.get("reportingComponent") or ""
        found = {
            "metadata.name": name_of(document),
            "metadata.namespace": namespace_of(document),
            "reason": document.get("reason") or "",
            "reportingComponent": controller,
            "reportingController": controller,
            "source": (document.get("source") or {}).get("component") or controller,
            "type": document.get("type") or "",
        }
        for name in _REFERENCE:
            value = about.get(name) or ""
            found[f"involvedObject.{name}"] = found[f"regarding.{name}"] = value
        return found


class NewEventStrategy(EventStrategy):
    """Strategy of events written through events.k8s.io."""

    unselectable: tuple[str, ...] = ("involvedObject.", "reportingComponent", "source")

    def name_problems(self, name: str, *, is_prefix: bool) -> list[str]:
        """Validate a name; return the errors."""
        return subdomain_problems(name, is_prefix=is_prefix)

    def _core(self, document: Document) -> Document:
        return to_core(document)


def _legacy_problems(event: Document, request: Request) -> list[Problem]:
    out: list[Problem] = []
    namespace = namespace_of(event)
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    mismatch = invalid("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        if (about and about != namespace) or (not about and namespace not in {"", "default"}):
            out.append(mismatch)
    else:
        if not about and namespace not in {"default", "kube-system"}:
            out.append(mismatch)
        _check_reporter(event, request, out)
    texts = subdomain_problems(namespace)
    out.extend(invalid("namespace", namespace, text) for text in texts)
    return out


def _check_reporter(event: Document, request: Request, out: list[Problem]) -> None:
    path = "reportingController" if request.group else "reportingComponent"
    controller = event.get("reportingComponent") or ""
    if not controller:
        out.append(required(path))
    check_qualified_name(controller, path, out)
    for name, limit in _LIMITS:
        value = event.get(name) or ""
        if not value:
            out.append(required(name))
        if len(value.encode()) > limit:
            out.append(invalid(name, "", f"can have at most {limit} characters"))
    if len((event.get("message") or "").encode()) > 1024:
        out.append(invalid("message", "", "can have at most 1024 characters"))


def _series_problems(event: Document) -> list[Problem]:
    series = event.get("series")
    out: list[Problem] = []
    if series is not None:
        if (series.get("count") or 0) < 2:
            out.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            out.append(required("series.lastObservedTime"))
    return out


def _strict_problems(event: Document) -> list[Problem]:
    out = _series_problems(event)
    if not event.get("eventTime"):
        out.append(required("eventTime"))
    kind = event.get("type") or ""
    if kind not in {"Normal", "Warning"}:
        out.append(invalid("type", "", f"has invalid value: {kind}"))
    out.extend(
        invalid(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        if event.get(name)
    )
    return out


def _change_problems(event: Document, before: Document) -> list[Problem]:
    out: list[Problem] = []
    for name, path in (
        ("involvedObject", ""), ("reason", ""), ("message", ""), ("source", ""),
        ("firstTimestamp", ""), ("lastTimestamp", ""), ("count", ""), ("reason", ""),
        ("type", ""), ("eventTime", ""), ("action", ""), ("related", ""),
        ("reportingComponent", "reportingController"), ("reportingInstance", ""),
    ):  # fmt: skip
        value, old = event.get(name), before.get(name)
        if name != "related":
            value, old = value or None, old or None
        if value != old:
            out.append(invalid(path or name, _internal_value(name, value), IMMUTABLE))
    return out


def _internal_value(name: str, value: Any) -> Any:
    if name == "source":
        return internal_form("EventSource", value or {})
    if name == "involvedObject" or (name == "related" and value is not None):
        return internal_form("ObjectReference", value or {})
    if name == "count":
        return value or 0
    return (
        value
        if name in {"firstTimestamp", "lastTimestamp", "eventTime", "related"}
        else value or ""
    )
