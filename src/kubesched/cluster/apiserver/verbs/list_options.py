"""Parses and validates list options and continue tokens.

Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go,
staging/src/k8s.io/apiserver/pkg/storage/continue.go
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kubesched.api.label_selectors import MATCH_EVERYTHING, Selector, parse_int64
from kubesched.cluster.apiserver.errors import (
    ApiError,
    Problem,
    bad_request,
    forbidden_field,
    invalid_object,
    not_supported,
)
from kubesched.cluster.apiserver.http.request_info import is_true
from kubesched.cluster.apiserver.http.selectors import (
    FieldSelector,
    parse_field_selector,
    parse_label_selector,
)
from kubesched.cluster.apiserver.resources import Resource
from kubesched.golang.json import json_syntax_error
from kubesched.golang.strconv import go_quote

_META_FIELDS: Final = {"metadata.name", "metadata.namespace"}
_TOKEN_VERSION: Final = "meta.k8s.io/v1"


@dataclass(slots=True)
class ListOptions:
    """Options of a list or watch."""

    labels: Selector = MATCH_EVERYTHING
    fields: FieldSelector = field(default_factory=FieldSelector)
    version: str = ""
    version_match: str = ""
    limit: int = 0
    token: str = ""
    timeout_s: int | None = None
    sends_bookmarks: bool = False
    sends_initial_events: bool | None = None

    @property
    def selects_all(self) -> bool:
        """Return whether the selectors match everything."""
        return self.labels.is_empty and not self.fields.terms

    def check(self, *, is_watch: bool) -> None:
        """Raise ApiError for contradictory options."""
        problems = self._watch_problems() if is_watch else self._list_problems()
        if problems:
            raise invalid_object("meta.k8s.io", "ListOptions", "", problems)

    def _list_problems(self) -> list[Problem]:
        problems: list[Problem] = []
        match, path = self.version_match, "resourceVersionMatch"
        if match:
            if not self.version:
                text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
                problems.append(forbidden_field(path, text))
            if self.token:
                text = "resourceVersionMatch is forbidden when continue is provided"
                problems.append(forbidden_field(path, text))
            if match not in {"Exact", "NotOlderThan"}:
                problems.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
            if match == "Exact" and self.version == "0":
                text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                problems.append(forbidden_field(path, text))
        if self.sends_initial_events is not None:
            text = "sendInitialEvents is forbidden for list"
            problems.append(forbidden_field("sendInitialEvents", text))
        return problems

    def _watch_problems(self) -> list[Problem]:
        problems: list[Problem] = []
        match, path = self.version_match, "resourceVersionMatch"
        if self.sends_initial_events is not None and match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            problems.append(forbidden_field(path, text))
        if match:
            if self.sends_initial_events is None:
                text = (
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided"
                )
                problems.append(forbidden_field(path, text))
            if match != "NotOlderThan":
                problems.append(not_supported(path, match, ("NotOlderThan",)))
            if self.token:
                text = "resourceVersionMatch is forbidden when continue is provided"
                problems.append(forbidden_field(path, text))
        return problems


def list_options(
    query: Mapping[str, str], resource: Resource, *, is_watch: bool = False
) -> ListOptions:
    """Parse list options from query parameters."""
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except ValueError as error:
        raise bad_request(str(error)) from None
    _check_fields(fields, resource)
    initial = query.get("sendInitialEvents")
    version = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    if is_watch and initial is None and version in {"", "0"}:
        # Parity: internalversion/defaults.go SetListOptionsDefaults, v1.36
        initial, match = "true", match or "NotOlderThan"
    return ListOptions(
        labels=labels,
        fields=fields,
        version=version,
        version_match=match,
        limit=max(0, _number(query, "limit") or 0),
        token=query.get("continue", ""),
        timeout_s=_number(query, "timeoutSeconds"),
        sends_bookmarks=is_true(query.get("allowWatchBookmarks")),
        sends_initial_events=None if initial is None else is_true(initial),
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    number = parse_int64(text)
    if number is None:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    return number


def _check_fields(fields: FieldSelector, resource: Resource) -> None:
    if not fields.terms:
        return
    strategy = resource.strategy
    known = _META_FIELDS | {
        name
        for name in strategy.fields({"metadata": {}, "spec": {}, "status": {}})
        if not name.startswith(strategy.unselectable)
    }
    for term in fields.terms:
        if term.field in known:
            continue
        if known == _META_FIELDS and not resource.is_custom:
            text = (
                f"{go_quote(term.field)} is not a known field selector: "
                'only "metadata.name", "metadata.namespace"'
            )
            raise bad_request(text)
        raise bad_request(strategy.field_rejection.format(term.field))


def read_version(text: str) -> int:
    """Return the requested resource version; 0 if there is none."""
    try:
        return parse_version(text)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None


def parse_version(text: str) -> int:
    """Parse a version; 0 if empty, ValueError with upstream's message if invalid."""
    if not text:
        return 0
    is_number = text.isascii() and text.isdigit()
    if is_number and int(text) < 1 << 64:
        return int(text)
    why = "value out of range" if is_number else "invalid syntax"
    quoted = go_quote(text)
    raise ValueError(
        f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
    )


def too_large_version(version: int, current: int) -> ApiError:
    """Return the error for a resource version in the future."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        causes=causes,
        retryAfterSeconds=1,
    )


def encode_token(version: int, start: str) -> str:
    """Return a continue token for a version and a start key."""
    data = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": version, "start": f"/{start}"})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_token(token: str) -> tuple[int, str]:
    """Return version (-1: the latest) and start key of a continue token."""
    try:
        data = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        found: Any = msgspec.json.decode(data)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise _bad_token(f"continue key is not valid: {error}") from None
    except msgspec.DecodeError:
        raise _bad_token(f"continue key is not valid: {json_syntax_error(data)}") from None
    if not isinstance(found, dict) or found.get("v") != _TOKEN_VERSION:
        version_text = found.get("v") if isinstance(found, dict) else ""
        why = "server does not recognize this encoded version"
        raise _bad_token(f"continue key is not valid: {why} {version_text}")
    version, start = found.get("rv"), found.get("start")
    if not isinstance(version, int) or version == 0:
        why = "incorrect encoded start resourceVersion"
        raise _bad_token(f"continue key is not valid: {why} (version {_TOKEN_VERSION})")
    if not isinstance(start, str) or not start:
        why = "encoded start key empty"
        raise _bad_token(f"continue key is not valid: {why} (version {_TOKEN_VERSION})")
    if "/.." in f"/{start}" or "//" in start:
        raise _bad_token(f"continue key is not valid: {start}")
    return version, start.lstrip("/")


def _bad_token(why: str) -> ApiError:
    return bad_request(f"invalid continue token: {why}")
