"""Texts read as Go reads them: numbers, truth values, addresses, one line of CSV, files.

Owns the acceptance rules and the error texts of Go's strconv, encoding/csv, net.ParseIP and os, as
far as command-line flags meet them. Never decides what a value is for.
Upstream: Go's strconv, encoding/csv/reader.go, net/ip.go, os
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubesched.config.gotext import float32
from kubesched.objects.field_errors import go_quote

_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
# A sign, a prefix that names the base, and digits which underscores may part.
_INTEGER: Final = re.compile(
    r"([+-]?)(?:(0[xX])(_?[0-9a-fA-F])+|(0[bB])(_?[01])+|(0[oO])(_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)"
)
_DECIMAL: Final = re.compile(r"[0-9]+")
_DIGITS: Final = r"[0-9](?:_?[0-9])*"
_HEX_DIGITS: Final = r"[0-9a-f](?:_?[0-9a-f])*"
_FLOAT: Final = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    rf"[+-]?0x(?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})p[+-]?{_DIGITS}",
    re.IGNORECASE,
)
# More digits than any number has that fits: Python reads no longer ones.
_DIGITS_MAX: Final = 1_000
_BASES: Final = {"x": 16, "b": 2, "o": 8}


def parse_bool(text: str) -> bool:
    """Return the truth value of a text; raise ValueError with strconv's words."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _syntax("ParseBool", text)


def parse_int(text: str, bits: int) -> int:
    """Return the integer of a text in any base that Go's literals have."""
    if _INTEGER.fullmatch(text) is None:
        raise _syntax("ParseInt", text)
    digits = text.lstrip("+-").replace("_", "")
    if len(digits) > _DIGITS_MAX:
        raise _range("ParseInt", text)
    value = int(digits, _base(digits))
    value = -value if text.startswith("-") else value
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _range("ParseInt", text)
    return value


def _base(digits: str) -> int:
    if digits[:1] != "0" or len(digits) == 1:
        return 10
    return _BASES.get(digits[1].lower(), 8)


def parse_uint(text: str, bits: int) -> int:
    """Return the decimal number of a text that has no sign."""
    if _DECIMAL.fullmatch(text) is None:
        raise _syntax("ParseUint", text)
    if len(text) > _DIGITS_MAX or int(text) >= 1 << bits:
        raise _range("ParseUint", text)
    return int(text)


def parse_float32(text: str) -> float:
    """Return the nearest float32 of a text."""
    read: Callable[[str], float] = float
    if _FLOAT.fullmatch(text) is None:
        if _HEX_FLOAT.fullmatch(text) is None:
            raise _syntax("ParseFloat", text)
        read = float.fromhex
    try:
        return float32(read(text.replace("_", "")))
    except OverflowError:
        raise _range("ParseFloat", text) from None


def _syntax(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")


def _range(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {go_quote(text)}: value out of range")


def parse_ip(text: str) -> str:
    """Return an IP address in its canonical spelling; raise ValueError if it is none."""
    # net.ParseIP knows no zones.
    if "%" in text or "/" in text:
        raise ValueError(text)
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def csv_record(text: str) -> list[str]:
    """Return the fields of the first record of a text; raise ValueError with Go's words."""
    if not text:
        return []
    return _CsvReader(text).record()


def csv_line(fields: list[str]) -> str:
    """Return fields as one record, quoted where Go quotes."""
    return ",".join(map(_csv_field, fields))


def _csv_field(field: str) -> str:
    needs = field == r"\." or any(c in field for c in ',"\r\n') or field[:1].isspace()
    return '"' + field.replace('"', '""') + '"' if needs else field


@dataclass(slots=True)
class _CsvReader:
    """One record, read field by field; columns count bytes, as Go's do."""

    text: str
    at: int = 0
    line: int = 1
    line_start: int = 0

    def record(self) -> list[str]:
        self.text = self.text.replace("\r\n", "\n")
        while self.text.startswith("\n", self.at):
            self.at += 1
            self._new_line()
        if self.at == len(self.text):
            raise ValueError("EOF")
        first_line = self.line
        fields: list[str] = []
        while True:
            if self._peek() == '"':
                field, more = self._quoted(first_line)
            else:
                field, more = self._plain(first_line)
            fields.append(field)
            if not more:
                return fields

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _new_line(self) -> None:
        self.line += 1
        self.line_start = self.at

    def _plain(self, first_line: int) -> tuple[str, bool]:
        end = self.at
        while end < len(self.text) and self.text[end] not in ",\n":
            end += 1
        field = self.text[self.at : end]
        quote = field.find('"')
        if quote >= 0:
            raise self._error(first_line, self.at + quote, 'bare " in non-quoted-field')
        self.at = end + 1
        return field, self.text[end : end + 1] == ","

    def _quoted(self, first_line: int) -> tuple[str, bool]:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char != '"':
                parts.append(char)
                if char == "\n" and self.at < len(self.text):
                    self._new_line()
                continue
            following = self._peek()
            if following == '"':
                parts.append('"')
                self.at += 1
                continue
            if following in (",", "\n", ""):
                self.at += 1
                return "".join(parts), following == ","
            raise self._error(first_line, self.at - 1, 'extraneous or missing " in quoted-field')
        raise self._error(first_line, self.at, 'extraneous or missing " in quoted-field')

    def _error(self, first_line: int, at: int, what: str) -> ValueError:
        column = len(self.text[self.line_start : at].encode("utf-8", "surrogateescape")) + 1
        start = "" if first_line == self.line else f"record on line {first_line}; "
        return ValueError(f"{start}parse error on line {self.line}, column {column}: {what}")


def read_file(path: str) -> bytes:
    """Return a file's bytes; raise ValueError with the words of Go's os.ReadFile."""
    try:
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise ValueError(f"read {path}: is a directory") from None
    except (OSError, ValueError) as problem:
        raise ValueError(os_error("open", path, problem)) from None


def os_error(operation: str, path: str, problem: Exception) -> str:
    """Return how Go words what the system said about a file."""
    reason = getattr(problem, "strerror", None) or "invalid argument"
    return f"{operation} {path}: {reason[:1].lower()}{reason[1:]}"
