"""Responds with a Status to requests that the HTTP parser rejects.

Upstream: none; Go's net/http does this there.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.web_protocol import RequestHandler

from kubesched.cluster.apiserver.errors import ApiError, bad_request
from kubesched.cluster.apiserver.verbs.context import encode

Handler = Any


def method_not_allowed() -> ApiError:
    """Return the error for a method that a path does not support."""
    text = "the server does not allow this method on the requested resource"
    error = ApiError(405, "MethodNotAllowed", text)
    error.shows_details = True
    return error


class _StatusHandler(RequestHandler):
    """Protocol of one connection."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """Feed received bytes; an invalid body ends the current request."""
        super().data_received(data)
        request = self._current_request
        if request is None or request.content.is_eof() or not self._messages:
            return
        # No other request can begin inside a body, so the parser rejected this one.
        rejected = self._messages[0][0]
        text = getattr(rejected, "message", "")
        request.content.set_exception(web.RequestPayloadError(text or "it is not HTTP"))

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log the failure, unless the body of the request caused it."""
        if isinstance(kw.get("exc_info"), web.RequestPayloadError):
            return  # The response was sent; discard the rest of the body.
        super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to data that is not a valid request."""
        if request.writer is not None and request.writer.output_size > 0:
            raise ConnectionResetError("the response has started already")
        if isinstance(exc, BadHttpMethod):
            error = method_not_allowed()
        elif status >= 500:
            error = ApiError(500, "InternalError", "Internal error occurred")
        else:
            error = bad_request(f"the request cannot be read: {message or 'it is not HTTP'}")
        response = web.Response(body=encode(error.status), status=error.code)
        response.headers["Content-Type"] = "application/json"
        response.force_close()
        return response


class StatusServer(web.Server):
    """A server whose connections report parser errors as Status objects."""

    def __call__(self) -> RequestHandler:
        """Return the protocol of a new connection."""
        return _StatusHandler(self, loop=self._loop, **self._kwargs)
