"""String formats of OpenAPI schemas. Unknown formats are not checked.

Upstream: k8s.io/kube-openapi pkg/validation/strfmt,
staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from kubesched.api.times import parse_time
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems

_HEX: Final = "[0-9a-f]"


def fits_format(name: str, text: str) -> bool:
    """Return whether a text matches a format; True if the format is unknown."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def is_known_format(name: str) -> bool:
    """Return whether a format is known."""
    return name.replace("-", "") in _CHECKS


def _matches(pattern: str, *, ignores_case: bool = False) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE | re.ASCII if ignores_case else re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _raises_nothing(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _parse_cidr(text: str) -> None:
    if "/" not in text:
        raise ValueError("no prefix length")
    ipaddress.ip_network(text, strict=False)


def _parse_date(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise ValueError("not a date")
    parse_time(f"{text}T00:00:00Z")


def _parse_datetime(text: str) -> None:
    # Unlike time.Parse, the format requires two digits for the hour.
    if text[13:14] != ":":
        raise ValueError("not a datetime")
    parse_time(text)


def _parse_base64(text: str) -> None:
    try:
        base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _parse_uri(text: str) -> None:
    # Parity: Go's url.ParseRequestURI: an absolute path or a scheme; no spaces or controls.
    if any(char <= " " or char == "\x7f" for char in text):
        raise ValueError("a control character")
    parts = urlsplit(text)
    if not (text.startswith("/") or (parts.scheme and text.partition(":")[2])):
        raise ValueError("neither absolute nor with a scheme")


_NAME: Final = r"[a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_EMAIL: Final = r"(?:[^<>]*<)?[^\s@<>]+@[^\s@<>]+>?"
_UNIT: Final = (
    r"(ns|us|µs|μs|ms|s|m|h|d|w|nanos?|micros?|millis?|milliseconds?|microseconds?|"
    r"nanoseconds?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?)"
)
_CARD: Final = (
    r"\D*(?:4(?:\D*\d){12}(?:(?:\D*\d){3})?|5\D*[1-5](?:\D*\d){14}|"
    r"6\D*(?:0\D*1\D*1|5\D*\d\D*\d)(?:\D*\d){12}|3\D*[47](?:\D*\d){13})\D*"
)

_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}", ignores_case=True),
    "uri": _raises_nothing(_parse_uri),
    "email": _matches(_EMAIL),
    "hostname": _matches(rf"(?=.{{1,255}}$){_NAME}(\.{_NAME})*\.?"),
    "ipv4": _raises_nothing(ipaddress.IPv4Address),
    "ipv6": _raises_nothing(ipaddress.IPv6Address),
    "cidr": _raises_nothing(_parse_cidr),
    "mac": _matches(r"([0-9a-f]{2}([:-])([0-9a-f]{2}\2){4}[0-9a-f]{2})", ignores_case=True),
    "uuid": _matches(rf"{_HEX}{{8}}-?({_HEX}{{4}}-?){{3}}{_HEX}{{12}}", ignores_case=True),
    "uuid3": _matches(
        rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}", ignores_case=True
    ),
    "uuid4": _matches(
        rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}",
        ignores_case=True,
    ),
    "uuid5": _matches(
        rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}",
        ignores_case=True,
    ),
    "isbn": _matches(r"(\d[- ]?){9}[\dX]|(\d[- ]?){12}\d"),
    "isbn10": _matches(r"(\d[- ]?){9}[\dX]"),
    "isbn13": _matches(r"(\d[- ]?){12}\d"),
    "creditcard": _matches(_CARD),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)"),
    "byte": _raises_nothing(_parse_base64),
    "password": lambda text: True,
    "date": _raises_nothing(_parse_date),
    "duration": _matches(rf"[+-]?(0|(\d+(\.\d*)?|\.\d+)\s*{_UNIT}(\s*(\d+(\.\d*)?)\s*{_UNIT})*)"),
    "datetime": _raises_nothing(_parse_datetime),
    "k8sshortname": lambda text: not label_problems(text),
    "k8slongname": lambda text: not subdomain_problems(text),
}
