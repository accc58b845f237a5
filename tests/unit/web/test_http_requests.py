"""Requests out of bytes: where they end, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.web.http_requests import HttpError, HttpRequest, RequestReader, SizeLimits

LIMITS = SizeLimits(head_bytes=1000, body_bytes=5000)
POST = b"POST /filter HTTP/1.1\r\nHost: here\r\n"
STREAM = b"".join(
    [
        POST + b"Content-Length: 5\r\n\r\nhello",
        b"\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n",
        b"GET /readyz?a=%20 HTTP/1.1\r\nHOST:here\r\nX-One: 1\r\nx-one: 2 \r\n\r\n",
        POST + b"content-length: 0\r\nConnection: close\r\n\r\n",
    ]
)
WANTED = [
    ("POST", "/filter", b"hello", False),
    ("POST", "/filter", b"abcde", False),
    ("GET", "/readyz?a=%20", b"", False),
    ("POST", "/filter", b"", True),
]


def read(*pieces: bytes) -> list[HttpRequest]:
    reader = RequestReader(LIMITS)
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.next()) is not None:
            found.append(request)
    assert not reader.is_within
    return found


def plain(requests: list[HttpRequest]) -> list[tuple[str, str, bytes, bool]]:
    return [(one.method, one.uri, one.body, one.is_last) for one in requests]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_requests_do_not_depend_on_how_their_bytes_come(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[first:last] for first, last in pairwise(edges)]
    assert plain(read(*pieces)) == WANTED


def test_byte_by_byte() -> None:
    assert plain(read(*(STREAM[i : i + 1] for i in range(len(STREAM))))) == WANTED


def test_headers_are_found_by_names_in_lower_case_and_repeated_ones_are_joined() -> None:
    request = read(STREAM)[2]
    assert dict(request.headers) == {"host": "here", "x-one": "1, 2"}
    assert request.path == "/readyz"
    assert request.asked().query == {"a": [" "]}
    assert request.asked().headers["X-ONE"] == "1, 2"


@pytest.mark.parametrize(
    ("text", "is_last"),
    [
        ("GET / HTTP/1.0\r\n\r\n", True),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", False),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", False),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n", True),
    ],
)
def test_how_long_a_connection_is_kept(text: str, is_last: bool) -> None:
    assert read(text.encode())[0].is_last is is_last


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: +1\r\n\r\na", 400),
        (POST + "Content-Length: ²\r\n\r\na".encode("latin-1"), 400),
        (POST + b"Content-Length: 5001\r\n\r\n", 413),
        (POST + b"Content-Length: " + b"9" * 500 + b"\r\n\r\n", 413),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000, 400),
        (POST + b"X: " + b"x" * 1000, 431),
        (POST + b"X: " + b"x" * 1000 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_no_request_is_refused(data: bytes, code: int) -> None:
    reader = RequestReader(LIMITS)
    reader.feed(data)
    with pytest.raises(HttpError) as refused:
        reader.next()
    assert refused.value.code == code


def test_the_same_length_twice_is_one_length() -> None:
    data = POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"
    assert read(data)[0].body == b"ab"


def test_a_body_that_ends_too_early_is_given_as_it_is() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST + b"Content-Length: 10\r\n\r\nhalf")
    assert reader.next() is None
    request = reader.cut()
    assert request is not None
    assert (request.body, request.is_cut, request.is_last) == (b"half", True, True)
    assert reader.cut() is None


def test_a_head_that_ends_too_early_is_refused() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST)
    assert reader.next() is None
    with pytest.raises(HttpError, match="400 Bad Request"):
        reader.cut()


def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert reader.next() is None
    assert reader.awaits_continue
    reader.feed(b"a")
    assert not reader.awaits_continue
    reader.feed(b"b")
    request = reader.next()
    assert request is not None
    assert request.body == b"ab"
