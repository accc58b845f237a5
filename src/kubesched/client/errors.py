"""Errors of requests to the API server.

Owns the typed errors, built from the Status that the API server returns, and the texts for other
responses. Never decides on retries: request does.
Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubesched.golang.strconv import go_quote

_UNSTRUCTURED_BYTES_MAX = 2048


class ApiError(Exception):
    """The API server rejected the request."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after_s = retry_after_s


class NotFoundError(ApiError):
    """The object or the resource does not exist."""


class AlreadyExistsError(ApiError):
    """An object with that name exists."""


class ConflictError(ApiError):
    """The object was changed concurrently, or the change conflicts with its state."""


class ForbiddenError(ApiError):
    """The client lacks the right."""


class UnauthorizedError(ApiError):
    """The client is not authenticated."""


class GoneError(ApiError):
    """The version is too old: 410 for any reason."""


class TooManyRequestsError(ApiError):
    """The server is overloaded; retry later."""


class InvalidError(ApiError):
    """The object is invalid."""


class BadRequestError(ApiError):
    """The request is malformed."""


class InternalServerError(ApiError):
    """The server failed."""


class ServiceUnavailableError(ApiError):
    """The server is temporarily unavailable."""


class TimeoutApiError(ApiError):
    """The server timed out; it may still have processed the request."""


class TransportError(Exception):
    """No response: connection refused, reset or timed out, or an untrusted server."""

    def __init__(
        self,
        message: str,
        *,
        is_refused: bool = False,
        is_reset: bool = False,
        is_timeout: bool = False,
        was_sent: bool = False,
        is_closed: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.is_refused = is_refused
        """Whether the server refused the connection."""
        self.is_reset = is_reset
        """Whether an established connection was reset."""
        self.is_timeout = is_timeout
        self.was_sent = was_sent
        """Whether the server may have processed the request."""
        self.is_closed = is_closed
        """Whether the client was closed."""


# Parity: apimachinery/pkg/api/errors/errors.go knownReasons and the Is functions, v1.36: a
# known reason decides, otherwise the code.
_BY_REASON: Final[Mapping[str, type[ApiError]]] = {
    "Unauthorized": UnauthorizedError,
    "Forbidden": ForbiddenError,
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Conflict": ConflictError,
    "Gone": GoneError,
    "Expired": GoneError,
    "Invalid": InvalidError,
    "ServerTimeout": TimeoutApiError,
    "Timeout": TimeoutApiError,
    "TooManyRequests": TooManyRequestsError,
    "BadRequest": BadRequestError,
    "InternalError": InternalServerError,
    "ServiceUnavailable": ServiceUnavailableError,
    "MethodNotAllowed": ApiError,
    "NotAcceptable": ApiError,
    "RequestEntityTooLarge": ApiError,
    "UnsupportedMediaType": ApiError,
}
_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
    500: InternalServerError,
    503: ServiceUnavailableError,
    504: TimeoutApiError,
}
_LATE: Final = (
    "the server was unable to return a response in the time allotted, "
    "but may still be processing the request"
)
# Parity: errors.go NewGenericServerResponse, v1.36; an empty text means the server's text.
_GENERIC: Final[Mapping[int, tuple[str, str]]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: (
        "NotAcceptable",
        "the server was unable to respond with a content type that the client supports",
    ),
    409: ("Conflict", "the server reported a conflict"),
    415: ("UnsupportedMediaType", ""),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", _LATE),
}


class _Status(msgspec.Struct, rename="camel"):
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_DECODER: Final = msgspec.json.Decoder(_Status)


def error_of_response(
    code: int, body: bytes, *, verb: str, content_type: str = "", retry_after_s: float | None = None
) -> ApiError:
    """Return the error of a response: of its Status, or else of its code and text."""
    status = _status_in(body)
    if status is None:
        return _generic(code, body, verb, content_type, retry_after_s)
    return _error(status.message, status.code or code, status.reason, status.details, retry_after_s)


def error_of_status(document: bytes) -> ApiError:
    """Return the error of a Status object, as in an ERROR event of a watch."""
    status = _DECODER.decode(document)
    return _error(status.message, status.code, status.reason, status.details, None)


def _status_in(body: bytes) -> _Status | None:
    try:
        status = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return status if status.kind in ("", "Status") and status.status == "Failure" else None


def _error(
    message: str,
    code: int,
    reason: str,
    details: Mapping[str, Any] | None,
    retry_after_s: float | None,
) -> ApiError:
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    if retry_after_s is None and details and (seconds := details.get("retryAfterSeconds")):
        retry_after_s = float(seconds)
    return cls(message, code=code, reason=reason, details=details, retry_after_s=retry_after_s)


def _generic(
    code: int, body: bytes, verb: str, content_type: str, retry_after_s: float | None
) -> ApiError:
    text = "unknown"
    if not content_type or content_type.startswith("text/"):
        text = body[:_UNSTRUCTURED_BYTES_MAX].decode(errors="replace").strip()
    reason, message = _GENERIC.get(code, ("", ""))
    if code == 409 and verb == "POST":
        reason = "AlreadyExists"
    elif code == 406 and text not in ("", "unknown"):
        message = text
    elif not reason and code >= 500:
        reason = "InternalError"
        message = (
            f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
        )
    elif not reason:
        message = (
            f"the server responded with the status code {code} but did not return more information"
        )
    causes = [{"reason": "UnexpectedServerResponse", "message": text}]
    return _error(message or text, code, reason, {"causes": causes}, retry_after_s)
