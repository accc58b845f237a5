"""Status pages: /healthz, /livez, /readyz, /flagz and /statusz.

Owns their texts and media types. Checks are passed in.
Upstream: staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go,
staging/src/k8s.io/component-base/zpages
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kubesched.golang.strconv import go_quote
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.metrics.process import SliMetrics
from kubesched.ops.http_messages import (
    JSON,
    NO_SNIFF,
    PLAIN,
    YAML,
    Handler,
    Kind,
    PathMux,
    Request,
    Response,
    error_response,
    negotiate,
    object_response,
    status_response,
)
from kubesched.ops.sources import HealthCheck, StatuszInfo

_GROUP = "config.k8s.io"
_VERSIONS = ("v1alpha1", "v1beta1")
_TYPES = (JSON, YAML, PLAIN)
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)
_HIDDEN_FOLDERS = {"/apis", "/api", "/openid", "/openapi", "/.well-known"}


def install_health(
    mux: PathMux,
    path: str,
    checks: Mapping[str, HealthCheck],
    *,
    metrics: SliMetrics,
    log: Log,
) -> None:
    """Add a page for all checks, and one per check; `ping` without checks."""
    checks = dict(checks) or {"ping": lambda: None}
    mux.handle(path, _root(path.removeprefix("/"), checks, metrics, log))
    for name, check in checks.items():
        mux.handle(f"{path}/{name}", _single(check))


def _root(page: str, checks: Mapping[str, HealthCheck], metrics: SliMetrics, log: Log) -> Handler:
    """Return the handler of all checks.

    Parity: healthz.go handleRootHealth, v1.36.
    """

    async def serve(request: Request) -> Response:
        query = request.query
        excluded = set(query.get("exclude", []))
        lines = []
        failed: dict[str, str] = {}
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            error = check()
            metrics.observe(name, page, is_ok=error is None)
            lines.append(f"[+]{name} ok\n" if error is None else _withheld(name))
            if error is not None:
                failed[name] = error
        if unknown := sorted(excluded - checks.keys()):
            names = ",".join(map(go_quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            reasons = "".join(f"[-]{name} failed: {error}\n" for name, error in failed.items())
            log.line(f"{','.join(failed)} check failed: {page}\n{reasons}", level=2)
            return error_response(f"{''.join(lines)}{page} check failed", 500)
        text = "".join(lines) + f"{page} check passed\n" if "verbose" in query else "ok"
        return Response(text.encode(), headers=dict(NO_SNIFF))

    return serve


def _withheld(name: str) -> str:
    # The page is public; the page of the check has the reason.
    return f"[-]{name} failed: reason withheld\n"


def _single(check: HealthCheck) -> Handler:
    async def serve(request: Request) -> Response:
        del request
        error = check()
        if error is not None:
            return error_response(f"internal server error: {error}", 500)
        return Response(b"ok")

    return serve


def flagz_handler(component: str, flags: Callable[[], Mapping[str, str]], log: Log) -> Handler:
    """Return the handler of /flagz."""

    def text() -> str:
        lines = "".join(f"{name}: {value}\n" for name, value in sorted(flags().items()))
        return f"\n{component} flagz\n{_WARNING}\n{lines}"

    def fields() -> dict[str, Any]:
        # Go omits an empty map.
        return {"flags": values} if (values := dict(sorted(flags().items()))) else {}

    return _page("Flagz", component, text, fields, log)


def statusz_handler(
    component: str, info: StatuszInfo, paths: Sequence[str], clock: Clock, log: Log
) -> Handler:
    """Return the handler of /statusz."""
    start = datetime.fromtimestamp(int(info.start_time_s), UTC)
    folders = _folders(paths)

    def up_s() -> int:
        return max(0, int(clock.now_s() - start.timestamp()))

    def text() -> str:
        up = up_s()
        lines = [
            f"Started: {start:%a %b} {start.day:2d} {start:%H:%M:%S} UTC {start.year}",
            f"Up: {up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
            f"Go version: {html.escape(info.go_version)}",
            f"Binary version: {html.escape(info.binary_version)}",
            f"Emulation version: {html.escape(info.emulation_version)}"
            if info.emulation_version
            else "",
            f"Paths: {html.escape(' '.join(folders))}" if folders else "",
            *(f"{title}: {html.escape(note)}" for title, note in info.notes().items()),
        ]
        return f"\n{component} statusz\n{_WARNING}\n\n" + "\n".join(lines) + "\n"

    def fields() -> dict[str, Any]:
        status = {
            "startTime": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": up_s(),
            "goVersion": info.go_version,
            "binaryVersion": info.binary_version,
        }
        if info.emulation_version:
            status["emulationVersion"] = info.emulation_version
        notes = dict(info.notes())
        return {**status, "paths": folders, **({"notes": notes} if notes else {})}

    return _page("Statusz", component, text, fields, log)


def _page(
    kind: str,
    component: str,
    text: Callable[[], str],
    fields: Callable[[], dict[str, Any]],
    log: Log,
) -> Handler:
    """Return the handler of a page with a text form and an object form.

    Parity: flagz.go handleFlagz, statusz.go handleStatusz, v1.36.
    """

    def allows(media_type: str, requested: Kind | None) -> bool:
        if media_type == PLAIN:
            return requested is None
        return requested in [Kind(_GROUP, version, kind) for version in _VERSIONS]

    async def serve(request: Request) -> Response:
        accept = request.headers.get("Accept", "")
        chosen = negotiate(accept if accept.strip() else PLAIN, _TYPES, allows)
        if chosen is None:
            message = f"only the following media types are accepted: {', '.join(_TYPES)}"
            log.error("Unhandled Error", err=message)
            return status_response(request, 406, "NotAcceptable", message, types=_TYPES)
        if chosen.kind is None:
            return Response(text().encode())
        version = chosen.kind.version
        document = {
            "kind": kind,
            "apiVersion": f"{_GROUP}/{version}",
            "metadata": {"name": component},
            **fields(),
        }
        response = object_response(
            request,
            document,
            chosen.media_type,
            is_pretty=chosen.is_pretty,
            content_type=f"{chosen.media_type};g={_GROUP};v={version};as={kind}",
        )
        if version == "v1alpha1":
            page = kind.lower()
            response.headers["Warning"] = (
                f'299 - "This version of the {page} endpoint is deprecated. '
                'Please use a newer version."'
            )
        return response

    return serve


def _folders(paths: Sequence[str]) -> list[str]:
    """Return the first segments of the paths.

    Parity: statusz.go aggregatePaths, v1.36.
    """
    parts = [path.split("/") for path in paths]
    folders = {f"/{part[1]}" for part in parts if len(part) >= 2 and part[1]}
    return sorted(folders - _HIDDEN_FOLDERS)
