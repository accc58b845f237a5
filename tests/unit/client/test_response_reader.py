"""Parsing of responses: framing, connection reuse, malformed responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.client.http.response_reader import ResponseError, ResponseReader

HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
WITH_LENGTH = HEAD + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = (
    HEAD
    + b"Transfer-Encoding: chunked\r\nWarning: 299 - 'old'\r\n\r\n"
    + b"3\r\nhel\r\n2;name=value\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
AFTER_INTERIM = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + WITH_LENGTH


def reading() -> ResponseReader:
    reader = ResponseReader()
    reader.begin()
    return reader


@pytest.mark.parametrize("response", [WITH_LENGTH, CHUNKED, AFTER_INTERIM])
def test_a_response_does_not_depend_on_how_its_bytes_arrive(response: bytes) -> None:
    for place in range(1, len(response)):
        reader = reading()
        assert not reader.feed(response[:place])
        assert reader.feed(response[place:])
        assert (reader.status, reader.body, reader.is_kept) == (201, b"hello", True)
        assert reader.headers["content-type"] == "application/json"
    reader = reading()
    assert [reader.feed(response[at : at + 1]) for at in range(len(response))].index(True) == (
        len(response) - 1
    )
    assert reader.body == b"hello"


def chunked(chunks: list[bytes]) -> bytes:
    framed = (b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return HEAD + b"Transfer-Encoding: Chunked\r\n\r\n" + b"".join(framed) + b"0\r\n\r\n"


@given(
    bodies=st.lists(st.lists(st.binary(max_size=40), max_size=4), min_size=1, max_size=3),
    has_length=st.booleans(),
    step=st.integers(1, 50),
)
def test_any_bodies_in_sequence(bodies: list[list[bytes]], has_length: bool, step: int) -> None:
    reader = ResponseReader()
    for chunks in bodies:
        body = b"".join(chunks)
        response = (
            HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            if has_length
            else chunked(chunks)
        )
        reader.begin()
        parts = [response[at : at + step] for at in range(0, len(response), step)]
        assert [reader.feed(part) for part in parts] == [False] * (len(parts) - 1) + [True]
        assert (reader.body, reader.is_kept) == (body, True)


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Length: \t1 \r\n\r\nx", b"x"),
    ],
)
def test_minimal_responses(response: bytes, body: bytes) -> None:
    reader = reading()
    assert reader.feed(response)
    assert (reader.body, reader.is_kept) == (body, True)


@pytest.mark.parametrize(
    "response",
    [
        WITH_LENGTH.replace(b"\r\n\r\n", b"\r\nconnection: keep-alive, Close\r\n\r\n"),
        WITH_LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0"),
        WITH_LENGTH + b"more",
        chunked([b"hello"]).replace(b"\r\n\r\n", b"\r\nContent-Length: 7\r\n\r\n", 1),
    ],
)
def test_a_connection_that_cannot_be_kept(response: bytes) -> None:
    reader = reading()
    assert reader.feed(response)
    assert (reader.body, reader.is_kept) == (b"hello", False)


def test_a_body_that_ends_with_the_connection() -> None:
    reader = reading()
    assert not reader.feed(HEAD + b"\r\nhel")
    assert not reader.feed(b"lo")
    reader.end()
    assert (reader.body, reader.is_kept) == (b"hello", False)


@pytest.mark.parametrize("response", [WITH_LENGTH, CHUNKED])
def test_a_truncated_response(response: bytes) -> None:
    for place in range(len(response)):
        reader = reading()
        reader.feed(response[:place])
        with pytest.raises(ResponseError, match="unexpected EOF"):
            reader.end()


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n folded: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * (1 << 19),
    ],
)
def test_malformed_responses(response: bytes) -> None:
    with pytest.raises(ResponseError):
        reading().feed(response)
