"""Scalar values, decoded and encoded as their Go types do.

Canonical form of quantities, times, bytes and numbers, and Go's errors for them.
Upstream: staging/src/k8s.io/apimachinery/pkg/{api/resource/quantity,apis/meta/v1/time,
apis/meta/v1/micro_time,util/intstr/intstr}.go, Go's encoding/json and time
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from kubesched.api.quantity import FORMAT_WRONG, Quantity
from kubesched.api.schema.types import Scalar, ScalarKind
from kubesched.golang.encoding_base64 import decode_base64
from kubesched.golang.json import json_type
from kubesched.golang.time import RFC3339, RFC3339_MICRO, parse_time

Reader = Callable[[Any], Any]
"""Reads a value that is not null; raises Unfit or Malformed."""


class Unfit(Exception):  # noqa: N818  # An error only once its place is known.
    """A value of the wrong JSON type for its Go type; decoding continues, then fails."""

    def __init__(self, value: str, go: str, *, is_final: bool = False) -> None:
        super().__init__(value)
        self.value = value
        """The value in decoding errors: `string`, `number 1.5`."""
        self.go = go
        self.is_final = is_final
        """Whether decoding stops here, as for types with their own decoder."""


class Malformed(Exception):  # noqa: N818  # As above.
    """A value that its type's own decoder rejects: decoding stops."""

    def __init__(self, text: str, *, is_final: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.is_final = is_final


def reader_of(scalar: Scalar) -> Reader:
    """Return the function that decodes a scalar."""
    return _READERS[scalar.kind](scalar.go)


def zero_of(scalar: Scalar) -> Any:
    """Return Go's zero value for a scalar."""
    return _ZEROS.get(scalar.kind)


_ZEROS: Final = {
    ScalarKind.STRING: "",
    ScalarKind.BOOL: False,
    ScalarKind.INT32: 0,
    ScalarKind.INT64: 0,
    ScalarKind.FLOAT: 0,
    ScalarKind.QUANTITY: "0",
    ScalarKind.INT_OR_STRING: 0,
    ScalarKind.DURATION: "0s",
}


def _exactly(kind: type) -> Callable[[str], Reader]:
    def make(go: str) -> Reader:
        def read(value: Any) -> Any:
            if type(value) is kind:
                return value
            raise Unfit(json_type(value), go)

        return read

    return make


def _integer(bits: int) -> Callable[[str], Reader]:
    smallest, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def make(go: str) -> Reader:
        def read(value: Any) -> Any:
            if type(value) is int and smallest <= value <= largest:
                return value
            raise Unfit(_shown(value), go)

        return read

    return make


def _shown(value: Any) -> str:
    name = json_type(value)
    return f"number {_literal(value)}" if name == "number" else name


def _literal(value: float) -> str:
    """Return a number as it was probably written; redundant digits are lost by decoding."""
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", str(value))


def _float(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is int:
            return value
        if type(value) is float:
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        raise Unfit(json_type(value), go)

    return read


def _quantity(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            return canonical_quantity(value)
        if type(value) in {int, float}:
            return canonical_quantity(_literal(value))
        raise Malformed(FORMAT_WRONG)

    return read


@lru_cache(maxsize=16_384)
def canonical_quantity(text: str) -> str:
    """Return a quantity as the server writes it; raise Malformed if it is invalid."""
    try:
        return str(Quantity.parse(text))
    except ValueError as error:
        raise Malformed(str(error)) from error


def _int_or_string(go: str) -> Reader:
    read_int = _integer(32)("int32")

    def read(value: Any) -> Any:
        if type(value) is str:
            return value
        try:
            return read_int(value)
        except Unfit as unfit:
            unfit.is_final = True
            raise

    return read


def _time(layout: str) -> Callable[[str], Reader]:
    def make(go: str) -> Reader:
        def read(value: Any) -> Any:
            if type(value) is str:
                return _canonical_time(value, layout)
            raise Unfit(json_type(value), "string", is_final=True)

        return read

    return make


@lru_cache(maxsize=16_384)
def _canonical_time(text: str, layout: str) -> str | None:
    """Return a time in UTC; None for Go's zero time."""
    try:
        seconds, fraction = parse_time(text, layout)
    except ValueError as error:
        raise Malformed(str(error)) from None
    if seconds == _ZERO_TIME_S and not fraction.strip("0"):
        return None
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    shown = f".{fraction}" if layout == RFC3339_MICRO else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{shown}Z"


_ZERO_TIME_S: Final = -62_135_596_800
"""The beginning of the year 1."""


def _bytes(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            return canonical_base64(value)
        if isinstance(value, list):
            return base64.b64encode(bytes(_byte(item) for item in value)).decode()
        raise Unfit(json_type(value), go)

    return read


def _byte(value: Any) -> int:
    if value is None:
        return 0
    if type(value) is int and 0 <= value < 256:
        return value
    raise Unfit(_shown(value), "uint8")


def canonical_base64(text: str) -> str:
    """Return base64 as Go writes it; raise Malformed with the position of the illegal byte."""
    try:
        return base64.b64encode(decode_base64(text)).decode()
    except ValueError as error:
        raise Malformed(str(error), is_final=False) from None


def _any(go: str) -> Reader:
    return lambda value: value


_READERS: Final[dict[ScalarKind, Callable[[str], Reader]]] = {
    ScalarKind.STRING: _exactly(str),
    ScalarKind.BOOL: _exactly(bool),
    ScalarKind.INT32: _integer(32),
    ScalarKind.INT64: _integer(64),
    ScalarKind.FLOAT: _float,
    ScalarKind.QUANTITY: _quantity,
    ScalarKind.INT_OR_STRING: _int_or_string,
    ScalarKind.TIME: _time(RFC3339),
    ScalarKind.MICRO_TIME: _time(RFC3339_MICRO),
    ScalarKind.DURATION: _exactly(str),
    ScalarKind.BYTES: _bytes,
    ScalarKind.ANY: _any,
}
