"""Non-resource paths: health, version, discovery, OpenAPI, metrics.

Upstream: staging/src/k8s.io/apiserver/pkg/server/{healthz,routes}
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import path_not_found
from kubesched.cluster.apiserver.http.discovery import Discovery
from kubesched.cluster.apiserver.http.metrics import Metrics
from kubesched.cluster.apiserver.http.openapi import OpenApi
from kubesched.cluster.apiserver.http.write_options import Query
from kubesched.cluster.apiserver.verbs.context import encode

TEXT: Final = "text/plain; charset=utf-8"
_METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_COMPRESSED_FROM_BYTES: Final = 128 * 1024
_COMPRESSED_MAX: Final = 64


@dataclass(slots=True)
class Page:
    """Response to a request that is not for a resource."""

    data: bytes
    content_type: str = "application/json"
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)


PathHandler = Callable[[list[str], Mapping[str, str]], Page | None]
"""Returns the page for the segments of a path and the headers; None if there is none."""
NO_PAGE: Final = Page(b"404 page not found\n", TEXT, 404)


class Pages:
    """The pages of one server."""

    def __init__(
        self,
        discovery: Discovery,
        health: Health,
        metrics: Metrics,
        openapi: OpenApi | None,
        more: Mapping[str, PathHandler],
    ) -> None:
        self._discovery = discovery
        self._health = health
        self._metrics = metrics
        self._openapi = openapi
        self._more = dict(more)
        self._compressed: dict[bytes, bytes] = {}

    def respond(self, method: str, raw_path: str, headers: Mapping[str, str], query: Query) -> Page:
        """Return the page of a path."""
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        page = self._find(parts, headers, query)
        if page is None:
            if parts[0] == "api" and len(parts) > 1:
                raise path_not_found()
            return NO_PAGE
        if method not in {"GET", "HEAD"} and page.code == 200:
            return Page(b"Method Not Allowed\n", TEXT, 405)
        if page.headers.get("ETag", "") and page.headers["ETag"] == headers.get("If-None-Match"):
            return Page(b"", page.content_type, 304, page.headers)
        return self._compress(page, headers)

    def _find(self, parts: list[str], headers: Mapping[str, str], query: Query) -> Page | None:
        first = parts[0]
        if first in {"api", "apis"}:
            return self._discovered(parts, headers.get("Accept", ""))
        if first in {"healthz", "livez", "readyz"}:
            result = self._health.respond(
                parts, is_verbose="verbose" in query, excluded=query.getall("exclude", [])
            )
            return None if result is None else Page(result[1].encode(), TEXT, result[0])
        if first == "openapi" and self._openapi is not None:
            found = self._openapi.respond(
                f"/{'/'.join(parts)}", headers.get("Accept", ""), query.get("hash", "")
            )
            return Page(found.body, found.content_type, found.status, dict(found.headers))
        if parts == ["version"]:
            return Page(encode(VERSION))
        if parts == ["metrics"]:
            return Page(self._metrics.text().encode(), _METRICS_TEXT)
        if parts == [""]:
            return Page(encode({"paths": self._paths()}))
        handler = self._more.get(first)
        return None if handler is None else handler(parts, headers)

    def _discovered(self, parts: list[str], accept: str) -> Page | None:
        found = self._discovery.document(parts, accept)
        if found is None:
            return None
        document, content_type = found
        page = Page(encode(document), content_type)
        if document["kind"] == "APIGroupDiscoveryList":
            digest = hashlib.sha512(page.data).hexdigest().upper()
            page.headers["ETag"] = f'"{digest}"'
            page.headers["Vary"] = "Accept"
        return page

    def _compress(self, page: Page, headers: Mapping[str, str]) -> Page:
        """Compress a long page if the client accepts gzip; long pages rarely change."""
        wants = "gzip" in headers.get("Accept-Encoding", "")
        if not wants or len(page.data) < _COMPRESSED_FROM_BYTES:
            return page
        digest = hashlib.sha256(page.data).digest()
        data = self._compressed.get(digest)
        if data is None:
            if len(self._compressed) >= _COMPRESSED_MAX:
                self._compressed.clear()
            data = self._compressed[digest] = gzip.compress(page.data, 1)
        more = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Page(data, page.content_type, page.code, {**page.headers, **more})

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/readyz"]
        for group, versions in self._discovery.groups().items():
            paths.append(f"/apis/{group}")
            paths += [f"/apis/{group}/{version}" for version in versions]
        paths += [f"/{first}" for first in self._more]
        return sorted({*paths, "/openapi/v2", "/openapi/v3", "/version"})


_PATHS: Final = ("healthz", "livez", "readyz")
Check = Callable[[], bool]


class Health:
    """Named health checks, in order."""

    def __init__(self, is_ready: Check) -> None:
        self._checks: dict[str, dict[str, Check]] = {
            "healthz": {"ping": _fine, "log": _fine, "etcd": _fine},
            "livez": {"ping": _fine, "log": _fine, "etcd": _fine},
            "readyz": {
                "ping": _fine,
                "log": _fine,
                "etcd": _fine,
                "informer-sync": _fine,
                "shutdown": is_ready,
            },
        }

    def respond(
        self, parts: Sequence[str], *, is_verbose: bool, excluded: Sequence[str]
    ) -> tuple[int, str] | None:
        """Return status and text for a path; None if there is no such check."""
        if parts[0] not in _PATHS or len(parts) > 2:
            return None
        checks = self._checks[parts[0]]
        if len(parts) == 2:
            if parts[1] not in checks:
                return None
            return (200, "ok") if checks[parts[1]]() else (500, "internal server error: not ok")
        return _all(parts[0], checks, is_verbose=is_verbose, excluded=excluded)


def _all(
    name: str, checks: dict[str, Check], *, is_verbose: bool, excluded: Sequence[str]
) -> tuple[int, str]:
    lines: list[str] = []
    is_fine = True
    for check, holds in checks.items():
        if check in excluded:
            lines.append(f"[+]{check} excluded: ok")
        elif holds():
            lines.append(f"[+]{check} ok")
        else:
            lines.append(f"[-]{check} failed: reason withheld")
            is_fine = False
    unknown = [one for one in excluded if one not in checks]
    if unknown:
        listed = ", ".join(f'"{one}"' for one in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
    text = "\n".join(lines)
    if not is_fine:
        return 500, f"{text}\n{name} check failed\n"
    return 200, f"{text}\n{name} check passed\n" if is_verbose else "ok"


def _fine() -> bool:
    return True


GIT_VERSION: Final = "v1.36.4"
VERSION: Final[Document] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
