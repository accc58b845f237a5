"""Requests as the pages see them, and their answers.

Owns the few forms of an answer: text as Go's http.Error writes it, and Status objects in the form
that a client accepts. Never knows a page.
Upstream: Go's net/http Error, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from multidict import CIMultiDictProxy

from kubesched.apiserver.yaml_answers import as_yaml
from kubesched.kit.go_text import go_quote
from kubesched.web.negotiation import JSON, YAML, is_plain, negotiate
from kubesched.web.peers import Peer

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
NO_SNIFF: Mapping[str, str] = {"X-Content-Type-Options": "nosniff"}
STATUS_TYPES = (JSON, YAML)

# encoding/json hides these from browsers.
_HIDDEN = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Parity: negotiate.go isPrettyPrint, v1.36.
_HUMAN_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    method: str
    path: str
    """Decoded."""
    uri: str
    """As it came, with the query."""
    headers: CIMultiDictProxy[str]
    read: Callable[[], Awaitable[bytes]]
    """Returns the body."""
    peer: Peer | None = None
    """The client's certificate, if it showed one."""
    remote: str = ""

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the parameters, those without a value included."""
        return parse_qs(self.uri.partition("?")[2], keep_blank_values=True)

    @property
    def verb(self) -> str:
        """Return what authorization calls the method."""
        return self.method.lower()

    @property
    def wants_pretty(self) -> bool:
        """Return whether a person reads the answer."""
        if given := self.query.get("pretty", [""])[0]:
            return given in _TRUE
        return self.headers.get("User-Agent", "").startswith(_HUMAN_AGENTS)


@dataclass(slots=True)
class Answer:
    """An answer."""

    body: bytes = b""
    code: int = 200
    content_type: str = TEXT
    """Empty: none is named."""
    headers: dict[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Asked], Coroutine[Any, Any, Answer]]


def text_answer(text: str, *, code: int = 200) -> Answer:
    """Return a text."""
    return Answer(text.encode(), code)


def error_answer(text: str, code: int) -> Answer:
    """Return a refusal in plain text."""
    # Parity: net/http Error.
    return Answer(f"{text}\n".encode(), code, headers=dict(NO_SNIFF))


def not_found() -> Answer:
    """Return the answer for a path that is not there."""
    return error_answer("404 page not found", 404)


def internal_error(asked: Asked, error: str) -> Answer:
    """Return the answer where asking the API server failed.

    Parity: responsewriters/errors.go InternalError, v1.36.
    """
    text = f"Internal Server Error: {go_quote(asked.uri)}: {error}"
    return error_answer(text.translate(_SANITIZED), 500)


def unauthorized(asked: Asked) -> Answer:
    """Return the answer for somebody who is not who they say."""
    return status_answer(asked, 401, "Unauthorized", "Unauthorized")


def forbidden(asked: Asked, user_name: str, reason: str) -> Answer:
    """Return the answer for somebody who may not.

    Parity: responsewriters/errors.go ForbiddenStatusError, v1.36.
    """
    message = f"User {go_quote(user_name)} cannot {asked.verb} path {go_quote(asked.path)}"
    message = f"forbidden: {message.translate(_SANITIZED)}"
    if reason:
        message += f": {reason}"
    answer = status_answer(asked, 403, "Forbidden", message, details={})
    answer.headers.update(NO_SNIFF)
    return answer


def status_answer(
    asked: Asked,
    code: int,
    reason: str,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    types: Sequence[str] = STATUS_TYPES,
) -> Answer:
    """Return a Status, in the form the client accepts, and as JSON to be read if there is none."""
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
    chosen = negotiate(asked.headers.get("Accept", ""), types, is_plain)
    if chosen is None or chosen.media_type not in STATUS_TYPES:
        return Answer(pretty_json(status), code, JSON)
    return object_answer(asked, status, chosen.media_type, code=code, is_pretty=chosen.is_pretty)


def object_answer(
    asked: Asked,
    document: Mapping[str, Any],
    media_type: str,
    *,
    code: int = 200,
    is_pretty: bool = False,
    content_type: str = "",
) -> Answer:
    """Return an object as JSON or YAML."""
    if media_type == YAML:
        body = as_yaml(dict(document))
    elif is_pretty or asked.wants_pretty:
        body = pretty_json(document)
    else:
        body = compact_json(document) + b"\n"
    return Answer(body, code, content_type or media_type)


def compact_json(document: Any) -> bytes:
    """Return JSON as encoding/json writes it, keys in the order they have."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_HIDDEN).encode()


def pretty_json(document: Any) -> bytes:
    """Return JSON to be read."""
    return json.dumps(document, ensure_ascii=False, indent=2).translate(_HIDDEN).encode()
