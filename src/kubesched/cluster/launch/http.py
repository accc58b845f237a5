"""HTTP client of tests and the playground: returns complete responses of an API server.

Owns connections and JSON encoding. Never retries on an error status, never interprets a response.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import urlencode, urlsplit

Json: TypeAlias = dict[str, Any]
Query: TypeAlias = Mapping[str, str | int | bool]

JSON = "application/json"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response."""

    code: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Json:
        """Return the decoded body."""
        decoded: Json = json.loads(self.body)
        return decoded

    @property
    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode()

    @property
    def message(self) -> str:
        """Return the message of a Status."""
        return str(self.json.get("message", ""))

    @property
    def reason(self) -> str:
        """Return the reason of a Status."""
        return str(self.json.get("reason", ""))

    @property
    def warnings(self) -> list[str]:
        """Return the texts of the Warning headers."""
        found = []
        for header in self.headers.get_all("Warning") or []:
            _, _, quoted = header.partition('"')
            found.append(quoted.removesuffix('"').replace('\\"', '"').replace("\\\\", "\\"))
        return found

    def must(self, *codes: int) -> Self:
        """Return the response; AssertionError with the body unless it has one of the codes."""
        expected = codes or (200, 201, 202)
        assert self.code in expected, f"{self.code} instead of {expected}: {self.text[:2000]}"
        return self


class Api:
    """Requests as one user, over a persistent connection."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.url = url
        self.token = token
        self.timeout_s = timeout_s
        self._address = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=str(ca_file)) if ca_file else None
        self._kept: http.client.HTTPConnection | None = None

    def request(  # noqa: PLR0913  # One argument for each part of a request that tests vary.
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Query | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request; a body that is neither bytes nor str is sent as JSON."""
        target, request_headers, payload = self._prepare(
            path, body, query, content_type, accept, headers
        )
        for attempt in range(2):
            connection = self._kept or self.connect()
            is_fresh = self._kept is None
            self._kept = connection
            try:
                connection.request(method, target, payload, request_headers)
                raw = connection.getresponse()
                response = Response(raw.status, raw.headers, raw.read())
            except (http.client.HTTPException, OSError):
                self.close()
                # The server may have closed the persistent connection meanwhile.
                if is_fresh or attempt:
                    raise
                continue
            if raw.will_close:
                self.close()
            return response
        raise AssertionError("unreachable")

    def get(self, path: str, **options: Any) -> Response:
        """Send a GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Response:
        """Send a POST."""
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Response:
        """Send a PUT."""
        return self.request("PUT", path, body, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Response:
        """Send a DELETE, with optional DeleteOptions."""
        return self.request("DELETE", path, body, **options)

    def patch(self, path: str, body: Any, content_type: str, **options: Any) -> Response:
        """Send a PATCH of a content type."""
        return self.request("PATCH", path, body, content_type=content_type, **options)

    def apply(
        self, path: str, body: Any, *, manager: str, force: bool = False, **options: Any
    ) -> Response:
        """Send a server-side apply."""
        query: dict[str, str | int | bool] = dict(options.pop("query", None) or {})
        query["fieldManager"] = manager
        if force:
            query["force"] = True
        return self.request("PATCH", path, body, content_type=APPLY_PATCH, query=query, **options)

    def watch(
        self,
        path: str,
        *,
        query: Query | None = None,
        accept: str = JSON,
        timeout_s: float = 10.0,
    ) -> Watch:
        """Open a watch on a connection of its own."""
        watch_query = {"watch": True, **(query or {})}
        target, request_headers, _ = self._prepare(path, None, watch_query, JSON, accept, None)
        connection = self.connect(timeout_s)
        connection.request("GET", target, None, request_headers)
        return Watch(connection, connection.getresponse())

    def connect(self, timeout_s: float | None = None) -> http.client.HTTPConnection:
        """Return a new connection."""
        host, port = self._address.hostname or "", self._address.port
        timeout = self.timeout_s if timeout_s is None else timeout_s
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def close(self) -> None:
        """Close the persistent connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _prepare(
        self,
        path: str,
        body: Any,
        query: Query | None,
        content_type: str,
        accept: str,
        headers: Mapping[str, str] | None,
    ) -> tuple[str, dict[str, str], bytes | None]:
        request_headers = {"Accept": accept}
        payload = None
        if body is not None:
            payload = _encoded(body)
            request_headers["Content-Type"] = content_type
        if self.token is not None:
            request_headers["Authorization"] = f"Bearer {self.token}"
        request_headers.update(headers or {})
        parameters = {key: _query_value(value) for key, value in (query or {}).items()}
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        return target, request_headers, payload


class Watch:
    """The events of a watch."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response
        self.code = response.status
        self.headers = response.headers

    def __iter__(self) -> Iterator[Json]:
        """Yield events until the server ends the watch."""
        while line := self._response.readline():
            if line.strip():
                event: Json = json.loads(line)
                yield event

    def take(self, number: int) -> list[Json]:
        """Return the next events; AssertionError if the watch ends, OSError on a timeout."""
        events = []
        for event in self:
            events.append(event)
            if len(events) == number:
                return events
        raise AssertionError(f"the watch ended after {len(events)} of {number} events: {events}")

    def next(self) -> Json:
        """Return the next event."""
        return self.take(1)[0]

    def response(self) -> Response:
        """Return the whole response, if the server rejected the watch."""
        return Response(self.code, self.headers, self._response.read())

    def close(self) -> None:
        """End the watch."""
        # The response keeps the socket open until it is closed itself.
        self._response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _query_value(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
