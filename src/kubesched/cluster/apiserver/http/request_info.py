"""Parses a path and a method into a request (upstream's RequestInfo).

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kubesched.cluster.apiserver.http.selectors import parse_field_selector
from kubesched.cluster.apiserver.names import path_segment_problems

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES: Final = {"status", "finalize"}


@dataclass(slots=True)
class RequestInfo:
    """Request as authorizers and verbs see it."""

    path: str
    verb: str
    is_resource_request: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    selected_name: str = ""
    """The single name that a field selector selects, for authorizers."""
    rest: tuple[str, ...] = ()
    """Path segments after the subresource (the path of a proxy)."""


def request_info(method: str, raw_path: str, query: Mapping[str, str]) -> RequestInfo:
    """Return the RequestInfo of an escaped path."""
    path = unquote(raw_path)
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    info = RequestInfo(path, method.lower())
    least, prefix = (4, "apis") if parts[0] == "apis" else (3, "api")
    if parts[0] != prefix or len(parts) < least or not all(parts):
        return info
    if prefix == "apis":
        info.group, parts = parts[1], parts[2:]
    else:
        parts = parts[1:]
    info.version, parts = parts[0], parts[1:]
    info.is_resource_request = True
    info.verb = _VERBS.get(method, "")
    is_watch_path = parts[0] == "watch" and len(parts) > 1
    if is_watch_path:
        parts = parts[1:]
    _read_resource(info, parts)
    _refine_verb(info, method, query, is_watch_path=is_watch_path)
    return info


def _read_resource(info: RequestInfo, parts: list[str]) -> None:
    if parts[0] == "namespaces" and len(parts) > 1:
        info.namespace = parts[1]
        # The namespace itself, unless the path names a resource below it.
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    info.resource = parts[0]
    info.name = parts[1] if len(parts) > 1 else ""
    info.subresource = parts[2] if len(parts) > 2 else ""
    info.rest = tuple(parts[3:])


def _refine_verb(
    info: RequestInfo, method: str, query: Mapping[str, str], *, is_watch_path: bool
) -> None:
    """Set the verb of a request for a collection: list, watch or deletecollection."""
    if method in {"GET", "HEAD"}:
        is_watch = is_watch_path or is_true(query.get("watch"))
        if is_watch_path or (not info.name and is_watch):
            info.verb = "watch"
        elif not info.name:
            info.verb = "list"
        if not info.name:
            info.selected_name = _selected_name(query.get("fieldSelector", ""))
    elif method == "DELETE" and not info.name:
        info.verb = "deletecollection"


def _selected_name(text: str) -> str:
    try:
        name = parse_field_selector(text).demanded("metadata.name") or ""
    except ValueError:
        return ""
    return "" if path_segment_problems(name) else name


def is_true(text: str | None) -> bool:
    """Return whether the value of a query parameter means true."""
    # Parity: apimachinery/pkg/runtime/converter.go Convert_Slice_string_To_bool, v1.36
    return text is not None and text.lower() not in {"false", "0"}
