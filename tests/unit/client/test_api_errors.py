"""Typed errors of responses."""

from __future__ import annotations

import json

import pytest

from kubesched.client.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InternalServerError,
    InvalidError,
    NotFoundError,
    ServiceUnavailableError,
    TimeoutApiError,
    TooManyRequestsError,
    UnauthorizedError,
    error_of_response,
    error_of_status,
)


def status(code: int, reason: str, **more: object) -> bytes:
    fields = {"kind": "Status", "status": "Failure", "message": "m", "reason": reason, "code": code}
    return json.dumps({**fields, **more}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (403, "Forbidden", ForbiddenError),
        (401, "Unauthorized", UnauthorizedError),
        (410, "Expired", GoneError),
        (410, "Gone", GoneError),
        (429, "TooManyRequests", TooManyRequestsError),
        (422, "Invalid", InvalidError),
        (400, "BadRequest", BadRequestError),
        (500, "InternalError", InternalServerError),
        (503, "ServiceUnavailable", ServiceUnavailableError),
        (504, "Timeout", TimeoutApiError),
        (500, "ServerTimeout", TimeoutApiError),
        # The code decides if the reason is unknown.
        (404, "Odd", NotFoundError),
        (418, "", ApiError),
        # A known reason takes precedence over the code.
        (400, "Expired", GoneError),
    ],
)
def test_the_status_decides(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_of_response(code, status(code, reason), verb="GET")
    assert type(error) is kind
    assert (error.code, error.reason, error.message, str(error)) == (code, reason, "m", "m")


def test_details_and_retry_after() -> None:
    body = status(500, "ServerTimeout", details={"kind": "pods", "retryAfterSeconds": 3})
    error = error_of_response(500, body, verb="GET")
    assert (error.details["kind"], error.retry_after_s) == ("pods", 3.0)
    assert error_of_response(500, body, verb="GET", retry_after_s=7.0).retry_after_s == 7.0


NO_MORE = "but did not return more information"


@pytest.mark.parametrize(
    ("code", "body", "content_type", "message"),
    [
        (404, b"404 page", "text/plain", "the server could not find the requested resource"),
        (403, b" who are you ", "text/plain", "who are you"),
        (403, b"<x>", "application/xml", "unknown"),
        (
            502,
            b'bad "gate"',
            "text/html",
            r'an error on the server ("bad \"gate\"") has prevented the request from succeeding',
        ),
        (503, b"", "", "the server is currently unable to handle the request"),
        (406, b"only xml", "text/plain", "only xml"),
        (
            406,
            b"",
            "",
            "the server was unable to respond with a content type that the client supports",
        ),
        (302, b"", "", f"the server responded with the status code 302 {NO_MORE}"),
    ],
)
def test_a_response_without_a_status(
    code: int, body: bytes, content_type: str, message: str
) -> None:
    error = error_of_response(code, body, verb="GET", content_type=content_type)
    assert error.message == message
    assert error.details["causes"][0]["reason"] == "UnexpectedServerResponse"


def test_a_conflict_without_a_status_depends_on_the_verb() -> None:
    assert isinstance(error_of_response(409, b"", verb="POST"), AlreadyExistsError)
    assert isinstance(error_of_response(409, b"", verb="PUT"), ConflictError)


@pytest.mark.parametrize(
    "body", [b"{}", b"null", b"[1]", b"\xff", b'{"kind":"Pod"}', b'{"code":"x"}']
)
def test_other_bodies_are_not_a_status(body: bytes) -> None:
    error = error_of_response(500, body, verb="GET", content_type="application/json")
    assert isinstance(error, InternalServerError)
    assert "unknown" in error.message


def test_the_status_of_an_error_event() -> None:
    error = error_of_status(status(410, "Expired"))
    assert isinstance(error, GoneError)
    assert error.message == "m"
