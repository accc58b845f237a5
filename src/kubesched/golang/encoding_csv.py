"""One record of comma-separated values, as Go's encoding/csv reads and writes it.

Upstream: Go's encoding/csv/reader.go and writer.go
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def _error(self, first_line: int, at: int, problem: str) -> ValueError:
        column = len(self.text[self.line_start : at].encode("utf-8", "surrogateescape")) + 1
        start = "" if first_line == self.line else f"record on line {first_line}; "
        return ValueError(f"{start}parse error on line {self.line}, column {column}: {problem}")
