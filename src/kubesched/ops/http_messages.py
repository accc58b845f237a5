"""HTTP requests and responses of the ops and extender servers.

Owns the conversion from and to aiohttp, plain-text errors as Go's http.Error writes them, Status
objects, content negotiation and the routing of paths. Pages are in other modules.
Upstream: Go's net/http Error, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs

from aiohttp import web
from multidict import CIMultiDictProxy

from kubesched.golang.strconv import go_quote
from kubesched.golang.yaml_output import as_yaml
from kubesched.kit.log import Log
from kubesched.ops.client_certificates import Peer, peer_of
from kubesched.ops.serving import join_host_port

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
JSON = "application/json"
YAML = "application/yaml"
PLAIN = "text/plain"
STATUS_TYPES = (JSON, YAML)
NO_SNIFF: Mapping[str, str] = {"X-Content-Type-Options": "nosniff"}

# encoding/json escapes these.
_ESCAPED = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Parity: negotiate.go isPrettyPrint, v1.36.
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a page."""

    method: str
    path: str
    """Decoded."""
    uri: str
    """The raw request target, with the query."""
    headers: CIMultiDictProxy[str]
    read: Callable[[], Awaitable[bytes]]
    """Returns the body."""
    peer: Peer | None = None
    """The client's certificate, if it sent one."""
    remote: str = ""

    @classmethod
    def from_aiohttp(cls, request: web.BaseRequest) -> Request:
        """Convert a request of aiohttp."""
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport else None
        remote = remote_address(transport.get_extra_info("peername") if transport else None)
        return cls(
            request.method,
            request.rel_url.path,
            request.raw_path,
            request.headers,
            request.read,
            peer_of(tls),
            remote,
        )

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the parameters, including those without a value."""
        return parse_qs(self.uri.partition("?")[2], keep_blank_values=True)

    @property
    def verb(self) -> str:
        """Return the verb that authorization uses for the method."""
        return self.method.lower()

    @property
    def wants_pretty(self) -> bool:
        """Return whether to indent JSON for a human reader."""
        if pretty := self.query.get("pretty", [""])[0]:
            return pretty in _TRUE
        return self.headers.get("User-Agent", "").startswith(_HUMAN_AGENTS)


@dataclass(slots=True)
class Response:
    """A response with its whole body."""

    body: bytes = b""
    code: int = 200
    content_type: str = TEXT
    """No Content-Type header if empty."""
    headers: dict[str, str] = field(default_factory=dict)

    def for_aiohttp(self, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
        """Convert to a response of aiohttp, with more headers."""
        merged = {**headers, **self.headers}
        if self.content_type:
            merged["Content-Type"] = self.content_type
        return web.Response(body=self.body, status=self.code, headers=merged)


Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


def remote_address(peer_name: Any) -> str:
    """Return the address of a peer as Go writes it; empty if it is not an IP address."""
    if not isinstance(peer_name, tuple):
        return ""
    return join_host_port(str(peer_name[0]).removeprefix("::ffff:"), peer_name[1])


def error_response(text: str, code: int) -> Response:
    """Return an error in plain text."""
    # Parity: net/http Error.
    return Response(f"{text}\n".encode(), code, headers=dict(NO_SNIFF))


def not_found() -> Response:
    """Return the response for an unknown path."""
    return error_response("404 page not found", 404)


def internal_error(request: Request, error: str) -> Response:
    """Return the response after a failed request to the API server.

    Parity: responsewriters/errors.go InternalError, v1.36.
    """
    text = f"Internal Server Error: {go_quote(request.uri)}: {error}"
    return error_response(text.translate(_SANITIZED), 500)


def unauthorized(request: Request) -> Response:
    """Return the response for failed authentication."""
    return status_response(request, 401, "Unauthorized", "Unauthorized")


def forbidden(request: Request, user_name: str, reason: str) -> Response:
    """Return the response for a user without permission.

    Parity: responsewriters/errors.go ForbiddenStatusError, v1.36.
    """
    message = f"User {go_quote(user_name)} cannot {request.verb} path {go_quote(request.path)}"
    message = f"forbidden: {message.translate(_SANITIZED)}"
    if reason:
        message += f": {reason}"
    response = status_response(request, 403, "Forbidden", message, details={})
    response.headers.update(NO_SNIFF)
    return response


def status_response(
    request: Request,
    code: int,
    reason: str,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    types: Sequence[str] = STATUS_TYPES,
) -> Response:
    """Return a Status in an accepted media type, or as indented JSON if none is accepted."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        status["details"] = dict(details)
    status["code"] = code
    chosen = negotiate(request.headers.get("Accept", ""), types, is_plain)
    if chosen is None or chosen.media_type not in STATUS_TYPES:
        return Response(pretty_json(status), code, JSON)
    return object_response(
        request, status, chosen.media_type, code=code, is_pretty=chosen.is_pretty
    )


def object_response(
    request: Request,
    document: Mapping[str, Any],
    media_type: str,
    *,
    code: int = 200,
    is_pretty: bool = False,
    content_type: str = "",
) -> Response:
    """Return an object as JSON or YAML."""
    if media_type == YAML:
        body = as_yaml(dict(document))
    elif is_pretty or request.wants_pretty:
        body = pretty_json(document)
    else:
        body = compact_json(document) + b"\n"
    return Response(body, code, content_type or media_type)


def compact_json(document: Any) -> bytes:
    """Return JSON as encoding/json writes it, with keys in the given order."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_ESCAPED).encode()


def pretty_json(document: Any) -> bytes:
    """Return indented JSON."""
    return json.dumps(document, ensure_ascii=False, indent=2).translate(_ESCAPED).encode()


class Kind(NamedTuple):
    """The kind that a client requests an object as."""

    group: str
    version: str
    kind: str


Allows: TypeAlias = Callable[[str, Kind | None], bool]
"""Returns whether a page has a media type, with an optional kind."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The negotiated form of a response."""

    media_type: str
    kind: Kind | None = None
    is_pretty: bool = False


class _Clause(NamedTuple):
    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]


def is_plain(media_type: str, kind: Kind | None) -> bool:
    """Allow every media type without conversion, for errors."""
    del media_type
    return kind is None


def negotiate(accept: str, types: Sequence[str], allows: Allows) -> Chosen | None:
    """Return the first accepted form that a page has.

    Parity: negotiate.go NegotiateMediaTypeOptions, v1.36.
    """
    if not accept:
        return Chosen(types[0])
    for clause in _clauses(accept):
        for media_type in types:
            kind, _, subtype = media_type.partition("/")
            if clause.type not in (kind, "*") or clause.subtype not in (subtype, "*"):
                continue
            if clause.type == "*" and clause.subtype != "*":
                continue
            if chosen := _chosen(clause.parameters, media_type, allows):
                return chosen
    return None


def _chosen(parameters: dict[str, str], media_type: str, allows: Allows) -> Chosen | None:
    """Return the form; None for an unsupported parameter.

    Parity: negotiate.go acceptMediaTypeOptions, v1.36; nothing here is streamed or versioned.
    """
    if parameters.get("stream") or parameters.get("sv"):
        return None
    kind = None
    if parameters.keys() & {"as", "g", "v"}:
        kind = Kind(*(parameters.get(name, "") for name in ("g", "v", "as")))
    if not allows(media_type, kind):
        return None
    return Chosen(media_type, kind, parameters.get("pretty") == "1")


def _clauses(accept: str) -> list[_Clause]:
    clauses = [clause for part in accept.split(",") if (clause := _clause(part.strip(" ")))]
    # By quality, and exact types before wildcards.
    return sorted(clauses, key=lambda c: (-c.quality, c.type == "*", c.subtype == "*"))


def _clause(part: str) -> _Clause | None:
    media_range, *rest = part.split(";")
    names = [name.strip(" ") for name in media_range.split("/")]
    if names == ["*"]:
        names = ["*", "*"]
    if len(names) != 2 or not names[1]:
        return None
    quality = 1.0
    parameters = {}
    for parameter in rest:
        name, _, value = parameter.partition("=")
        if not value or "=" in value:
            continue
        if name.strip(" ") == "q":
            quality = _quality(value)
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return _Clause(names[0], names[1], quality, parameters)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class PathMux:
    """Routes paths to handlers: exact ones first, then the longest prefix."""

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._log = log
        self._exact: dict[str, Handler] = {}
        self._prefixes: dict[str, Handler] = {}
        self._listed: list[str] = []

    @property
    def listed_paths(self) -> list[str]:
        """Return the public paths."""
        return sorted(self._listed)

    def handle(self, path: str, handler: Handler) -> None:
        """Add a public path."""
        self._listed.append(path)
        self._exact[path] = handler

    def handle_unlisted(self, path: str, handler: Handler) -> None:
        """Add a path that /statusz does not list."""
        self._exact[path] = handler

    def handle_unlisted_prefix(self, prefix: str, handler: Handler) -> None:
        """Add a prefix that /statusz does not list."""
        self._prefixes[prefix] = handler
        ordered = sorted(self._prefixes, key=lambda path: (-path.count("/"), -len(path), path))
        self._prefixes = {path: self._prefixes[path] for path in ordered}

    async def serve(self, request: Request) -> Response:
        """Serve a request."""
        if handler := self._exact.get(request.path):
            self._log_match(request.path, "exact match")
            return await handler(request)
        for prefix, handler in self._prefixes.items():
            if request.path.startswith(prefix):
                self._log_match(request.path, f"prefix {prefix}")
                return await handler(request)
        self._log_match(request.path, "NotFoundHandler")
        return not_found()

    def _log_match(self, path: str, matched: str) -> None:
        if self._log.enabled(5):
            self._log.line(f"{self._name}: {go_quote(path)} satisfied by {matched}", level=5)
