"""API errors: the Status of every error, and the messages of field errors.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go,
staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from kubesched.api.field_errors import aggregate_text
from kubesched.cluster.apiserver.documents import Document
from kubesched.golang.json import go_json
from kubesched.golang.strconv import go_quote


class ProblemType(StrEnum):
    """Kinds of field errors; the value is the reason of the cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_HEADINGS = {
    ProblemType.NOT_FOUND: "Not found",
    ProblemType.REQUIRED: "Required value",
    ProblemType.DUPLICATE: "Duplicate value",
    ProblemType.INVALID: "Invalid value",
    ProblemType.NOT_SUPPORTED: "Unsupported value",
    ProblemType.FORBIDDEN: "Forbidden",
    ProblemType.TOO_LONG: "Too long",
    ProblemType.TOO_MANY: "Too many",
    ProblemType.INTERNAL: "Internal error",
    ProblemType.TYPE_INVALID: "Invalid value",
}
OMITTED = object()
"""Value of a problem with the whole object, which messages do not print."""

_WITHOUT_VALUE = {
    ProblemType.REQUIRED,
    ProblemType.FORBIDDEN,
    ProblemType.TOO_LONG,
    ProblemType.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Error of one field; the functions below construct it."""

    type: ProblemType
    path: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """Return the message without the path."""
        heading = _HEADINGS[self.type]
        is_bare = self.type in _WITHOUT_VALUE or self.value is OMITTED
        if self.type == ProblemType.NOT_SUPPORTED and isinstance(self.value, str):
            # Go does not treat enumeration values as plain strings: it prints them as JSON.
            text = f"{heading}: {go_json(self.value)}"
        else:
            text = heading if is_bare else f"{heading}: {_value_text(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


class InOrder(dict[str, Any]):
    """Struct value in an error, printed in field order; maps are printed sorted."""


def _value_text(value: Any) -> str:
    """Return a value as upstream prints it in an error."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, int | float):
        return str(value)
    # As Go prints JSON: maps are sorted, and <, > and & are escaped.
    is_struct = isinstance(value, InOrder) or (
        isinstance(value, list) and bool(value) and isinstance(value[0], InOrder)
    )
    text = msgspec.json.encode(value, order=None if is_struct else "deterministic").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def required(path: str, detail: str = "") -> Problem:
    """Return field.Required."""
    return Problem(ProblemType.REQUIRED, path, "", detail)


def invalid(path: str, value: Any, detail: str) -> Problem:
    """Return field.Invalid."""
    return Problem(ProblemType.INVALID, path, value, detail)


def type_invalid(path: str, value: Any, detail: str) -> Problem:
    """Return field.TypeInvalid."""
    return Problem(ProblemType.TYPE_INVALID, path, value, detail)


def forbidden_field(path: str, detail: str) -> Problem:
    """Return field.Forbidden."""
    return Problem(ProblemType.FORBIDDEN, path, "", detail)


def duplicate(path: str, value: Any) -> Problem:
    """Return field.Duplicate."""
    return Problem(ProblemType.DUPLICATE, path, value)


def field_not_found(path: str, value: Any) -> Problem:
    """Return field.NotFound."""
    return Problem(ProblemType.NOT_FOUND, path, value)


def not_supported(path: str, value: Any, supported: Sequence[str]) -> Problem:
    """Return field.NotSupported; the caller orders the supported values."""
    listed = ", ".join(go_quote(one) for one in supported)
    detail = f"supported values: {listed}" if listed else ""
    return Problem(ProblemType.NOT_SUPPORTED, path, value, detail)


def too_long(path: str, max_length: int) -> Problem:
    """Return field.TooLong."""
    return Problem(ProblemType.TOO_LONG, path, "", f"may not be more than {max_length} bytes")


def too_many(path: str, count: int, max_count: int) -> Problem:
    """Return field.TooMany."""
    items = "item" if max_count == 1 else "items"
    return Problem(ProblemType.TOO_MANY, path, count, f"must have at most {max_count} {items}")


class ApiError(Exception):
    """An API error; `status` is the Status object of the response."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = {key: value for key, value in details.items() if value not in (None, "", [])}
        if not self.details.get("retryAfterSeconds", True):
            del self.details["retryAfterSeconds"]
        self.list_metadata: Document = {}
        """`metadata` of the Status: a continue token for an inconsistent rest of the list."""
        self.shows_details = bool(self.details)

    @property
    def status(self) -> Document:
        """Return the Status object."""
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        if not self.details and not self.shows_details:
            del status["details"]
        if not self.reason:
            del status["reason"]
        return status


def qualified(group: str, resource: str) -> str:
    """Return a resource or kind with its group, e.g. `deployments.apps` or `pods`."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> ApiError:
    """Return NotFound for an object."""
    message = f"{qualified(group, resource)} {go_quote(name)} not found"
    return ApiError(404, "NotFound", message, name=name, group=group, kind=resource)


def path_not_found() -> ApiError:
    """Return NotFound for an unknown path."""
    error = ApiError(404, "NotFound", "the server could not find the requested resource")
    error.shows_details = True
    return error


def already_exists(group: str, resource: str, name: str) -> ApiError:
    """Return AlreadyExists."""
    message = f"{qualified(group, resource)} {go_quote(name)} already exists"
    return ApiError(409, "AlreadyExists", message, name=name, group=group, kind=resource)


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> ApiError:
    """Return Conflict."""
    message = (
        f"Operation cannot be fulfilled on {qualified(group, resource)} {go_quote(name)}: {why}"
    )
    return ApiError(409, "Conflict", message, name=name, group=group, kind=resource)


def invalid_object(group: str, kind: str, name: str, problems: Sequence[Problem]) -> ApiError:
    """Return Invalid with one cause per problem."""
    texts = aggregate_text(str(problem) for problem in problems)
    causes = [
        {"reason": str(problem.type), "message": problem.body, "field": problem.path}
        for problem in problems
    ]
    message = f"{qualified(group, kind)} {go_quote(name)} is invalid: {texts}"
    return ApiError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def bad_request(message: str) -> ApiError:
    """Return BadRequest."""
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    """Return Unauthorized."""
    return ApiError(401, "Unauthorized", message)


def forbidden(group: str, resource: str, name: str, why: str) -> ApiError:
    """Return Forbidden, with the reason of an admission plugin or an authorizer."""
    qualified_resource = qualified(group, resource)
    if not resource:
        message = f"forbidden: {why}"
    elif not name:
        message = f"{qualified_resource} is forbidden: {why}"
    else:
        message = f"{qualified_resource} {go_quote(name)} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, name=name, group=group, kind=resource)


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    """Return NotAcceptable."""
    listed = ", ".join(accepted)
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {listed}")


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """Return UnsupportedMediaType."""
    listed = ", ".join(accepted)
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {listed}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiError:
    """Return Expired (410), after which clients list again."""
    return ApiError(410, "Expired", message)


def too_many_requests(message: str, retry_after_s: int) -> ApiError:
    """Return TooManyRequests."""
    return ApiError(429, "TooManyRequests", message, retryAfterSeconds=retry_after_s)


def too_large(message: str) -> ApiError:
    """Return RequestEntityTooLarge."""
    return ApiError(413, "RequestEntityTooLarge", message)


def rejected() -> ApiError:
    """Return Invalid without a reason, for a patch that cannot be applied."""
    message = "the server rejected our request due to an error in our request"
    error = ApiError(422, "Invalid", message)
    error.shows_details = True  # upstream writes the empty object
    return error


def internal(message: str) -> ApiError:
    """Return InternalError."""
    return ApiError(
        500, "InternalError", f"Internal error occurred: {message}", causes=[{"message": message}]
    )
