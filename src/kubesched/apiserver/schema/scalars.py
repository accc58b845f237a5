"""Leaves: reading one JSON value as its Go type would, and writing it as Go would.

Owns the canonical form of quantities, times, bytes and numbers, and Go's words for what is wrong
with them. Never knows where in a document a value stands.
Upstream: staging/src/k8s.io/apimachinery/pkg/{api/resource/quantity,apis/meta/v1/time,
apis/meta/v1/micro_time,util/intstr/intstr}.go, Go's encoding/json and time
"""

from __future__ import annotations

import base64
import binascii
import calendar
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from kubesched.apiserver.schema.types import Scalar, ScalarKind
from kubesched.objects.quantity import Quantity

Reader = Callable[[Any], Any]
"""Reads a value that is not null; raises Unfit or Malformed."""


class Unfit(Exception):  # noqa: N818  # It is not an error until a place is known.
    """A value of another JSON type than the Go type takes: decoding goes on, then fails."""

    def __init__(self, value: str, go: str, *, is_final: bool = False) -> None:
        super().__init__(value)
        self.value = value
        """What decoding errors call the value: `string`, `number 1.5`."""
        self.go = go
        self.is_final = is_final
        """Whether decoding stops here, as where a type has a decoder of its own."""


class Malformed(Exception):  # noqa: N818  # As above.
    """A value whose type has a decoder of its own, which refuses it: decoding stops."""

    def __init__(self, text: str, *, is_final: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.is_final = is_final


def json_name(value: Any) -> str:
    """Return what Go's decoder calls a value of this type."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def reader_of(scalar: Scalar) -> Reader:
    """Return the function that reads a leaf."""
    return _READERS[scalar.kind](scalar.go)


def zero_of(scalar: Scalar) -> Any:
    """Return what Go writes for a leaf that was never set."""
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


def _string(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            return value
        raise Unfit(json_name(value), go)

    return read


def _bool(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is bool:
            return value
        raise Unfit(json_name(value), go)

    return read


def _integer(bits: int) -> Callable[[str], Reader]:
    smallest, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def make(go: str) -> Reader:
        def read(value: Any) -> Any:
            if type(value) is int and smallest <= value <= largest:
                return value
            name = json_name(value)
            raise Unfit(f"number {_literal(value)}" if name == "number" else name, go)

        return read

    return make


def _literal(value: float) -> str:
    """Return a number as it was probably written; digits that say nothing are not known here."""
    text = str(value)
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", text)


def _float(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is int:
            return value
        if type(value) is float:
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        raise Unfit(json_name(value), go)

    return read


def _quantity(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            return canonical_quantity(value)
        if type(value) in {int, float}:
            return canonical_quantity(_literal(value))
        raise Malformed(_QUANTITY_FORMAT)

    return read


_QUANTITY_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@lru_cache(maxsize=16_384)
def canonical_quantity(text: str) -> str:
    """Return a quantity as the server writes it; raise Malformed if it is none."""
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


def _own_text(convert: Callable[[str], str | None]) -> Callable[[str], Reader]:
    """Make the reader of a type that decodes a JSON string by itself."""

    def make(go: str) -> Reader:
        def read(value: Any) -> Any:
            if type(value) is str:
                return convert(value)
            raise Unfit(json_name(value), "string", is_final=True)

        return read

    return make


@lru_cache(maxsize=16_384)
def canonical_time(text: str) -> str | None:
    """Return a time in whole seconds of UTC, None for Go's zero time; raise Malformed."""
    moment = _GoTime("2006-01-02T15:04:05Z07:00", text, has_fraction=False).parse()
    return _written(moment, "")


@lru_cache(maxsize=4096)
def canonical_micro_time(text: str) -> str | None:
    """Return a time with microseconds in UTC; raise Malformed if it is none."""
    moment = _GoTime("2006-01-02T15:04:05.000000Z07:00", text, has_fraction=True).parse()
    return _written(moment, f".{moment.microsecond:06d}" if moment else "")


def _written(moment: datetime | None, fraction: str) -> str | None:
    if moment is None or moment == datetime(1, 1, 1, tzinfo=UTC):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


def _quoted(text: str) -> str:
    # Parity: Go's time quote: whatever is not plain is shown byte by byte.
    data = text.encode("utf-8", "surrogatepass")
    shown = (
        rf"\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 127 else rf"\x{byte:02x}"
        for byte in data
    )
    return f'"{"".join(shown)}"'


class _GoTime:
    """One reading of a time, element by element, failing in Go's words."""

    def __init__(self, layout: str, text: str, *, has_fraction: bool) -> None:
        self.layout = layout
        self.text = text
        self.rest = text
        self.has_fraction = has_fraction

    def parse(self) -> datetime | None:
        # Parity: Go's time.Parse; only the day waits for the end, when the month is known.
        year = self._number("2006", 4)
        month = self._after("-", "01", "month", (1, 12))
        day = self._after("-", "02", "", (0, 99))
        hour = self._after("T", "15", "hour", (0, 23))
        minute = self._after(":", "04", "minute", (0, 59))
        second = self._after(":", "05", "second", (0, 59))
        micros = self._fraction()
        offset = self._zone()
        if self.rest:
            raise Malformed(f"parsing time {_quoted(self.text)}: extra text: {_quoted(self.rest)}")
        last = calendar.monthrange(year or 4, month)[1]
        if not 1 <= day <= last:
            raise Malformed(f"parsing time {_quoted(self.text)}: day out of range")
        if year == 0:
            return None
        moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
        try:
            return moment - offset
        except OverflowError:
            return None

    def _fail(self, element: str) -> Malformed:
        return Malformed(
            f"parsing time {_quoted(self.text)} as {_quoted(self.layout)}: "
            f"cannot parse {_quoted(self.rest)} as {_quoted(element)}"
        )

    def _number(self, element: str, digits: int) -> int:
        found = self.rest[:digits]
        if len(found) < digits or not found.isascii() or not found.isdigit():
            raise self._fail(element)
        self.rest = self.rest[digits:]
        return int(found)

    def _after(self, separator: str, element: str, name: str, limits: tuple[int, int]) -> int:
        if not self.rest.startswith(separator):
            raise self._fail(separator)
        self.rest = self.rest[1:]
        # Go takes an hour of one digit.
        is_short = element == "15" and re.match(r"\d(?!\d)", self.rest, re.ASCII)
        found = self._number(element, 1 if is_short else 2)
        if not limits[0] <= found <= limits[1]:
            raise Malformed(f"parsing time {_quoted(self.text)}: {name} out of range")
        return found

    def _fraction(self) -> int:
        if self.has_fraction:
            if not re.match(r"[.,]\d{6}", self.rest, re.ASCII):
                raise self._fail(".000000")
            micros, self.rest = int(self.rest[1:7]), self.rest[7:]
            return micros
        found = re.match(r"[.,](\d+)", self.rest, re.ASCII)
        if found is None:
            return 0
        self.rest = self.rest[found.end() :]
        return int(found[1][:6].ljust(6, "0"))

    def _zone(self) -> timedelta:
        if self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            return timedelta()
        found = re.match(r"([+-])(\d\d):(\d\d)", self.rest, re.ASCII)
        if found is None:
            raise self._fail("Z07:00")
        hours, minutes = int(found[2]), int(found[3])
        if hours > 24 or minutes > 60:
            which = "hour" if hours > 24 else "minute"
            raise Malformed(
                f"parsing time {_quoted(self.text)}: time zone offset {which} out of range"
            )
        self.rest = self.rest[found.end() :]
        size = timedelta(hours=hours, minutes=minutes)
        return -size if found[1] == "-" else size


def _bytes(go: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str:
            return canonical_base64(value)
        if isinstance(value, list):
            return base64.b64encode(bytes(_byte(one) for one in value)).decode()
        raise Unfit(json_name(value), go)

    return read


def _byte(value: Any) -> int:
    if value is None:
        return 0
    if type(value) is int and 0 <= value < 256:
        return value
    name = json_name(value)
    raise Unfit(f"number {_literal(value)}" if name == "number" else name, "uint8")


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def canonical_base64(text: str) -> str:
    """Return base64 as Go writes it; raise Malformed, naming the byte where Go gives up."""
    plain = text.replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(plain):
        raise Malformed(f"illegal base64 data at input byte {_first_wrong(text)}", is_final=False)
    return binascii.b2a_base64(binascii.a2b_base64(plain), newline=False).decode()


def _first_wrong(text: str) -> int:
    # Parity: Go's encoding/base64 decodeQuantum: breaks are skipped but counted.
    data = text.encode("utf-8", "surrogatepass")
    count = 0
    position = 0
    while position < len(data):
        char = data[position]
        position += 1
        if char in b"\r\n":
            continue
        if char in _ALPHABET:
            count = (count + 1) % 4
            continue
        if char != ord("=") or count < 2:
            return position - 1
        return _after_padding(data, position, count)
    return len(data) - count


_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _after_padding(data: bytes, position: int, count: int) -> int:
    def skip(at: int) -> int:
        while at < len(data) and data[at] in b"\r\n":
            at += 1
        return at

    if count == 2:
        position = skip(position)
        if position == len(data):
            return len(data)
        if data[position] != ord("="):
            return position - 1
        position += 1
    return skip(position)


def _any(go: str) -> Reader:
    return lambda value: value


_READERS: Final[dict[ScalarKind, Callable[[str], Reader]]] = {
    ScalarKind.STRING: _string,
    ScalarKind.BOOL: _bool,
    ScalarKind.INT32: _integer(32),
    ScalarKind.INT64: _integer(64),
    ScalarKind.FLOAT: _float,
    ScalarKind.QUANTITY: _quantity,
    ScalarKind.INT_OR_STRING: _int_or_string,
    ScalarKind.TIME: _own_text(canonical_time),
    ScalarKind.MICRO_TIME: _own_text(canonical_micro_time),
    ScalarKind.DURATION: _string,
    ScalarKind.BYTES: _bytes,
    ScalarKind.ANY: _any,
}
