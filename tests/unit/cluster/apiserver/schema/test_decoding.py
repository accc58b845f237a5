import json
import time

import pytest

from kubesched.cluster.apiserver.errors import ApiError
from kubesched.cluster.apiserver.http.decoding import NotJsonError, decode_body, decode_json


def test_fields_given_twice_are_found_wherever_they_are() -> None:
    text = b'{"a": {"b": [ {"c": 1, "c": 2} ]}, "d": 1, "d": 2}'

    value, duplicates = decode_json(text)

    assert value == {"a": {"b": [{"c": 2}]}, "d": 2}
    assert duplicates == ['duplicate field "a.b[0].c"', 'duplicate field "d"']


def test_a_compact_text_has_no_duplicates_to_look_for() -> None:
    document = {"a": [1, 2.5, True, None, "é\n"], "b": {}}

    assert decode_json(
        json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    ) == (
        document,
        [],
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(b'"\\ud800"', "\ufffd", id="half a surrogate pair"),
        pytest.param(b'"\xff"', "\ufffd", id="a byte that is not UTF-8"),
        pytest.param(b"12345678901234567890123", 12345678901234567890123, id="no int64 holds it"),
        pytest.param(b"1" * 5000, 1.7976931348623157e308, id="no float holds it"),
        pytest.param(b"-1e999", -1.7976931348623157e308, id="nor this"),
    ],
)
def test_odd_values_are_read_as_go_reads_them(text: bytes, value: object) -> None:
    assert decode_json(text)[0] == value


@pytest.mark.parametrize("depth", [301, 5_000, 200_000])
def test_deep_nesting_is_rejected_quickly(depth: int) -> None:
    started = time.perf_counter()
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        text = opening * depth + (b"1" if opening != b"[" else b"") + closing * depth
        with pytest.raises(NotJsonError, match="exceeded max depth"):
            decode_json(text)
        with pytest.raises(NotJsonError):
            decode_json(opening * depth)
    assert time.perf_counter() - started < 5


def test_a_long_flat_body_is_not_deep() -> None:
    value, _ = decode_json(b"[" + b"{}," * 5000 + b"{}]")

    assert len(value) == 5001


@pytest.mark.parametrize("media_type", ["text/plain", "application/cbor", "x"])
def test_other_media_types_are_rejected(media_type: str) -> None:
    with pytest.raises(ApiError) as raised:
        decode_body(b"{}", media_type, kind="Pod")

    assert raised.value.code == 415


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"[" * 200_000, id="lists in flow style"),
        pytest.param(b"{a: " * 100_000, id="maps in flow style"),
        pytest.param(b"- " * 100_000 + b"x", id="lists in block style"),
        pytest.param(b"? " * 100_000, id="keys"),
    ],
)
def test_deep_yaml_is_rejected(data: bytes) -> None:
    with pytest.raises(ApiError, match="exceeded max depth"):
        decode_body(data, "application/yaml")
