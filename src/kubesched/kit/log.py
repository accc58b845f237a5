"""Structured log lines: a constant message and fields, as klog writes them.

Owns verbosity, the buffer, the two formats, and the handler for Python's own logging. Never raises.
A line at a disabled level costs one comparison.
Upstream: k8s.io/klog/v2/textlogger, k8s.io/klog/v2/internal/verbosity,
staging/src/k8s.io/component-base/logs/json
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Final, Literal, Protocol, TypeAlias

from kubesched.golang.strconv import go_quote, plain_float
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log_values import Ref, json_value, text_value, zap_string

__all__ = [
    "Log",
    "LogFormat",
    "LogHandler",
    "NullLog",
    "Ref",
    "make_log",
    "parse_vmodule",
    "route_logging",
]

LogFormat: TypeAlias = Literal["text", "json"]
Severity: TypeAlias = Literal["I", "W", "E"]
Fields: TypeAlias = dict[str, object]
Place: TypeAlias = tuple[str, int]
"""The path of a source file, and a line in it."""

_BUFFER_BYTES: Final = 64 * 1024
_frame: Final = sys._getframe  # noqa: SLF001  # inspect costs a hundred times as much.
_VMODULE_SYNTAX = "syntax error: expect comma-separated list of filename=N"


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class Log:
    """Writes lines; loggers made with `with_values` share verbosity and buffer."""

    __slots__ = ("_sink", "name", "values")

    def __init__(self, sink: Sink, values: tuple[tuple[str, object], ...] = (), name: str = ""):
        self._sink = sink
        self.values = values
        """The fields that all lines have."""
        self.name = name
        """The `logger` field of all lines; none if empty."""

    @property
    def verbosity(self) -> int:
        """Return the level up to which lines are written; may be set at any time."""
        return self._sink.verbosity

    @verbosity.setter
    def verbosity(self, verbosity: int) -> None:
        self._sink.verbosity = verbosity

    def enabled(self, level: int) -> bool:
        """Return whether lines of a level are written, for fields that are costly to compute."""
        sink = self._sink
        if level <= sink.verbosity:
            return True
        return bool(sink.modules) and sink.is_enabled_in(_caller(), level)

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        """Write a line if its level is enabled."""
        sink = self._sink
        if level > sink.verbosity and not (sink.modules and sink.is_enabled_in(_caller(), level)):
            return
        sink.put(sink.info_line(self, _caller(), message, level, fields), level <= 0)

    def error(
        self, message: str, /, err: BaseException | str | None = None, **fields: object
    ) -> None:
        """Write a line about an error, at any verbosity."""
        sink = self._sink
        sink.put(sink.error_line(self, _caller(), message, err, fields), is_urgent=True)

    def line(
        self, text: str, /, *, level: int = 0, severity: Severity = "I", place: Place | None = None
    ) -> None:
        """Write plain text, for the lines that upstream never made structured.

        Args:
            text: The text.
            level: The line is written if this level is enabled, or if it is no information.
            severity: Information, warning or error.
            place: Where the text comes from; the caller if None.
        """
        sink = self._sink
        if (
            severity != "I"
            or level <= sink.verbosity
            or (sink.modules and sink.is_enabled_in(place or _caller(), level))
        ):
            line = sink.plain_line(place or _caller(), text.removesuffix("\n"), level, severity)
            sink.put(line, severity != "I" or level <= 0)

    def with_values(self, **fields: object) -> Log:
        """Return a logger whose lines all have these fields."""
        return type(self)(self._sink, (*self.values, *fields.items()), self.name)

    def with_name(self, name: str) -> Log:
        """Return a logger whose lines have this `logger` field, after the present one."""
        return type(self)(self._sink, self.values, f"{self.name}.{name}" if self.name else name)

    def flush(self) -> None:
        """Write buffered lines; the process calls this every few seconds."""
        self._sink.flush()


def _caller() -> Place:
    """Return the place that called the function that calls this."""
    frame = _frame(2)
    return frame.f_code.co_filename, frame.f_lineno


class NullLog(Log):
    """Writes nothing: for offline runs, and for tests that do not read lines."""

    __slots__ = ()

    def __init__(self, *_: object) -> None:
        super().__init__(_NULL_SINK)

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None: ...

    def error(
        self, message: str, /, err: BaseException | str | None = None, **fields: object
    ) -> None: ...

    def line(
        self, text: str, /, *, level: int = 0, severity: Severity = "I", place: Place | None = None
    ) -> None: ...


def make_log(
    stream: Stream | None = None,
    *,
    format: LogFormat = "text",  # noqa: A002  # The flag is called --logging-format.
    verbosity: int = 0,
    vmodule: str = "",
    clock: Clock,
    buffer_bytes: int = _BUFFER_BYTES,
) -> Log:
    """Return a logger.

    Args:
        stream: The output; standard error if None.
        format: klog's text, or JSON.
        verbosity: The level up to which lines are written.
        vmodule: Levels for some files: `file=N`, comma-separated.
        clock: The source of timestamps.
        buffer_bytes: The size of the buffer; lines of level 0 and errors are written at once.
    """
    kind = TextSink if format == "text" else JsonSink
    output = sys.stderr if stream is None else stream
    return Log(kind(clock, verbosity, parse_vmodule(vmodule), output, buffer_bytes))


def parse_vmodule(text: str) -> list[tuple[str, int]]:
    """Return the patterns of files and their levels; ValueError with klog's text."""
    modules = []
    for part in filter(None, text.split(",")):
        pattern, equals, level = part.partition("=")
        if not (pattern and equals) or not re.fullmatch(r"[+-]?[0-9]+", level):
            raise ValueError(_VMODULE_SYNTAX)
        if int(level) < 0:
            raise ValueError("negative value for vmodule level")
        if int(level):
            modules.append((pattern, int(level)))
    return modules


class Sink:
    """The verbosity, the buffer and the stream; subclasses format lines."""

    def __init__(
        self,
        clock: Clock,
        verbosity: int,
        modules: list[tuple[str, int]],
        stream: Stream,
        buffer_bytes: int,
    ) -> None:
        self.verbosity = verbosity
        self.modules = [(re.compile(_glob(pattern)), level) for pattern, level in modules]
        self._module_levels: dict[str, int] = {}
        self._now_s: Callable[[], float] = clock.now_s
        self._stream = stream
        self._buffer: list[str] = []
        self._buffered_chars = 0
        self._buffer_chars_max = buffer_bytes

    def is_enabled_in(self, place: Place, level: int) -> bool:
        """Return whether the file of a place has a level of its own that is high enough."""
        path = place[0]
        own = self._module_levels.get(path)
        if own is None:
            stem = PurePath(path).stem
            own = next((own for pattern, own in self.modules if pattern.fullmatch(stem)), 0)
            self._module_levels[path] = own
        return own >= level

    def info_line(self, log: Log, place: Place, message: str, level: int, fields: Fields) -> str:
        raise NotImplementedError

    def error_line(
        self, log: Log, place: Place, message: str, err: BaseException | str | None, fields: Fields
    ) -> str:
        raise NotImplementedError

    def plain_line(self, place: Place, text: str, level: int, severity: Severity) -> str:
        raise NotImplementedError

    def put(self, line: str, is_urgent: bool) -> None:
        """Buffer a line, or write it at once with all buffered ones."""
        self._buffer.append(line)
        self._buffered_chars += len(line)
        if is_urgent or self._buffered_chars >= self._buffer_chars_max:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines; they are lost if the stream rejects them."""
        if not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer, self._buffered_chars = [], 0
        with contextlib.suppress(OSError, ValueError):
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                self._stream.write(text.encode("ascii", "backslashreplace").decode())
            self._stream.flush()


class TextSink(Sink):
    """Writes klog's text."""

    _second = -1
    _second_text = ""

    def _header(self, severity: str, place: Place) -> str:
        now = self._now_s()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%m%d %H:%M:%S", time.localtime(second))
        micros = int((now - second) * 1e6)
        file = place[0].rpartition("/")[2]
        return f"{severity}{self._second_text}.{micros:06d} {os.getpid():7d} {file}:{place[1]}] "

    def info_line(self, log: Log, place: Place, message: str, level: int, fields: Fields) -> str:
        first = _own_fields(log) if log.name or log.values else ()
        text = _text_fields(first, fields) if first or fields else ""
        return f"{self._header('I', place)}{go_quote(message)}{text}\n"

    def error_line(
        self, log: Log, place: Place, message: str, err: BaseException | str | None, fields: Fields
    ) -> str:
        """Return a line whose first field is the error."""
        first = _own_fields(log) if err is None else (("err", err), *_own_fields(log))
        return f"{self._header('E', place)}{go_quote(message)}{_text_fields(first, fields)}\n"

    def plain_line(self, place: Place, text: str, level: int, severity: Severity) -> str:
        return f"{self._header(severity, place)}{text}\n"


class JsonSink(Sink):
    """Writes JSON, one object per line."""

    def _head(self, place: Place, message: str, name: str) -> str:
        file = "/".join(place[0].rsplit("/", 2)[-2:])
        named = f',"logger":{zap_string(name)}' if name else ""
        return (
            f'{{"ts":{plain_float(self._now_s() * 1000)}{named}'
            f',"caller":"{file}:{place[1]}","msg":{zap_string(message)}'
        )

    def info_line(self, log: Log, place: Place, message: str, level: int, fields: Fields) -> str:
        head, values = self._head(place, message, log.name), _json_fields(log.values)
        return f'{head}{values},"v":{level}{_json_fields(fields.items())}}}\n'

    def error_line(
        self, log: Log, place: Place, message: str, err: BaseException | str | None, fields: Fields
    ) -> str:
        """Return a line whose last field is the error; it has no level."""
        last = () if err is None else (("err", err),)
        values = _json_fields((*log.values, *fields.items(), *last))
        return f"{self._head(place, message, log.name)}{values}}}\n"

    def plain_line(self, place: Place, text: str, level: int, severity: Severity) -> str:
        level_field = f',"v":{level}' if severity == "I" else ""
        return f"{self._head(place, text, '')}{level_field}}}\n"


_NULL_SINK = Sink(SystemClock(), -1, [], sys.stderr, 0)


def _own_fields(log: Log) -> tuple[tuple[str, object], ...]:
    return (("logger", log.name), *log.values) if log.name else log.values


def _text_fields(first: tuple[tuple[str, object], ...], fields: Fields) -> str:
    if not first:
        return "".join([f" {key}{text_value(value)}" for key, value in fields.items()])
    # Parity: serialize FormatKVs: of equal keys the last wins, unless it says the same.
    texts: dict[str, str] = {}
    for key, value in (*first, *fields.items()):
        text = text_value(value)
        if texts.get(key) != text:
            texts.pop(key, None)
            texts[key] = text
    return "".join([f" {key}{text}" for key, text in texts.items()])


def _json_fields(fields: Iterable[tuple[str, object]]) -> str:
    return "".join([f",{zap_string(key)}:{json_value(value)}" for key, value in fields])


def _glob(pattern: str) -> str:
    """Return a regular expression for a pattern of Go's filepath.Match."""
    parts = []
    rest = pattern
    while rest:
        char, rest = rest[0], rest[1:]
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "\\" and rest:
            parts.append(re.escape(rest[0]))
            rest = rest[1:]
        elif char == "[" and (inside := re.match(r"(\^?)((?:\\.|[^\]\\])+)\]", rest)):
            parts.append(f"[{inside[1]}{inside[2]}]")
            rest = rest[inside.end() :]
        else:
            parts.append(re.escape(char))
    return "".join(parts)


# -- Python's own logging -------------------------------------------------------------------------


class LogHandler(logging.Handler):
    """Writes records of Python's logging as plain lines, with the place they come from.

    Libraries log warnings and errors there, and `Tasks` its failures.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        # Only the message and the traceback: the line gets klog's header.
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        severity: Severity = "E" if record.levelno >= logging.ERROR else "W"
        place = (record.pathname, record.lineno)
        self._log.line(self.format(record), severity=severity, place=place)


def route_logging(log: Log) -> None:
    """Write the records of Python's logging to this logger."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LogHandler)]:
        root.removeHandler(handler)
    root.addHandler(LogHandler(log))
