"""Structured log lines: a constant message and fields, as klog writes them.

Owns verbosity, the buffer and the two forms of a line. Never raises, and never decides what is
worth a line. Lines at a level that is off cost one comparison.
Upstream: k8s.io/klog/v2/textlogger, k8s.io/klog/v2/internal/verbosity,
staging/src/k8s.io/component-base/logs/json
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Final, Literal, Protocol, TypeAlias

from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.go_text import go_quote, plain_float
from kubesched.kit.log_values import Ref, json_value, text_value, zap_string

__all__ = ["Log", "LogFormat", "NullLog", "Ref", "make_log", "parse_vmodule"]

LogFormat: TypeAlias = Literal["text", "json"]
Fields: TypeAlias = dict[str, object]

_BUFFER_BYTES: Final = 64 * 1024
_frame: Final = sys._getframe  # noqa: SLF001  # inspect costs a hundred times as much.
_MESSAGES_MAX: Final = 1000
_VMODULE_SYNTAX = "syntax error: expect comma-separated list of filename=N"


class Code(Protocol):
    """The code of a place, as much of it as is needed."""

    @property
    def co_filename(self) -> str: ...


class Place(Protocol):
    """Where a line was written: a frame of the interpreter is one."""

    @property
    def f_code(self) -> Code: ...
    @property
    def f_lineno(self) -> int: ...


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
        """Who writes, or nothing."""

    @property
    def verbosity(self) -> int:
        """Return the level up to which lines are written; may be set at any time."""
        return self._sink.verbosity

    @verbosity.setter
    def verbosity(self, verbosity: int) -> None:
        self._sink.verbosity = verbosity

    @property
    def lost_line_count(self) -> int:
        """Return how many lines the stream refused."""
        return self._sink.lost_line_count

    def enabled(self, level: int) -> bool:
        """Return whether lines of a level are written, for fields that are dear to work out."""
        sink = self._sink
        if level <= sink.verbosity:
            return True
        return bool(sink.modules) and sink.is_on_in(_frame(1), level)

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        """Write a line if its level is on."""
        sink = self._sink
        if level > sink.verbosity and not (sink.modules and sink.is_on_in(_frame(1), level)):
            return
        sink.info(self, _frame(1), message, level, fields)

    def error(
        self, message: str, /, err: BaseException | str | None = None, **fields: object
    ) -> None:
        """Write a line about an error, whatever the verbosity."""
        self._sink.error(self, _frame(1), message, err, fields)

    def line(self, text: str, /, *, level: int = 0, severity: Literal["I", "W", "E"] = "I") -> None:
        """Write plain text, for the lines that upstream never made structured."""
        sink = self._sink
        if (
            severity != "I"
            or level <= sink.verbosity
            or (sink.modules and sink.is_on_in(_frame(1), level))
        ):
            sink.line(_frame(1), text, level, severity)

    def line_from(self, place: Place, text: str, severity: Literal["I", "W", "E"]) -> None:
        """Write plain text that was said elsewhere."""
        self._sink.line(place, text, 0, severity)

    def with_values(self, **fields: object) -> Log:
        """Return a logger whose lines all have these fields."""
        return type(self)(self._sink, (*self.values, *fields.items()), self.name)

    def with_name(self, name: str) -> Log:
        """Return a logger whose lines say who writes them."""
        return type(self)(self._sink, self.values, f"{self.name}.{name}" if self.name else name)

    def flush(self) -> None:
        """Write what is buffered; whoever runs the process calls this every few seconds."""
        self._sink.flush()


class NullLog(Log):
    """Writes nothing: for what runs offline, and for tests that do not read lines."""

    __slots__ = ()

    def __init__(self, *_: object) -> None:
        super().__init__(_NULL_SINK)

    def enabled(self, level: int) -> bool:
        """Return False."""
        return False

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        """Do nothing."""

    def error(
        self, message: str, /, err: BaseException | str | None = None, **fields: object
    ) -> None:
        """Do nothing."""

    def line(self, text: str, /, *, level: int = 0, severity: Literal["I", "W", "E"] = "I") -> None:
        """Do nothing."""

    def line_from(self, place: Place, text: str, severity: Literal["I", "W", "E"]) -> None:
        """Do nothing."""


def make_log(  # noqa: PLR0913  # One argument for each of upstream's logging options.
    stream: Stream | None = None,
    *,
    format: LogFormat = "text",  # noqa: A002  # The flag is called --logging-format.
    verbosity: int = 0,
    vmodule: str = "",
    clock: Clock,
    info_stream: Stream | None = None,
    buffer_bytes: int = _BUFFER_BYTES,
) -> Log:
    """Return a logger.

    Args:
        stream: Where lines go; standard error if None.
        format: klog's text, or JSON.
        verbosity: The level up to which lines are written.
        vmodule: Levels for some files: `file=N`, comma-separated.
        clock: What lines are dated by.
        info_stream: Where lines that are not errors go, if elsewhere.
        buffer_bytes: How much is held back before it is written; lines of level 0 and errors are
            always written at once.
    """
    modules = parse_vmodule(vmodule)
    errors = sys.stderr if stream is None else stream
    kind = TextSink if format == "text" else JsonSink
    return Log(kind(clock, verbosity, modules, errors, info_stream or errors, buffer_bytes))


def parse_vmodule(text: str) -> list[tuple[str, int]]:
    """Return the patterns of files and their levels; ValueError with klog's text."""
    found = []
    for part in text.split(","):
        if not part:
            continue
        pattern, equals, level = part.partition("=")
        if not (pattern and equals) or not re.fullmatch(r"[+-]?[0-9]+", level):
            raise ValueError(_VMODULE_SYNTAX)
        if int(level) < 0:
            raise ValueError("negative value for vmodule level")
        if int(level):
            found.append((pattern, int(level)))
    return found


class Sink:
    """The buffer, the verbosity and one form of a line."""

    def __init__(
        self,
        clock: Clock,
        verbosity: int,
        modules: list[tuple[str, int]],
        errors: Stream | None,
        infos: Stream | None,
        buffer_bytes: int,
    ) -> None:
        self.verbosity = verbosity
        self.modules = [(re.compile(_glob(pattern)), level) for pattern, level in modules]
        self.lost_line_count = 0
        self._module_levels: dict[str, int] = {}
        self._now_s: Callable[[], float] = clock.now_s
        self._errors = errors
        self._infos = infos
        self._held: list[str] = []
        self._held_chars = 0
        self._buffer_chars = buffer_bytes
        self._callers: dict[str, str] = {}
        self._messages: dict[str, str] = {}

    def is_on_in(self, frame: Place, level: int) -> bool:
        """Return whether the file of a frame has a level of its own that is high enough."""
        path = frame.f_code.co_filename
        own = self._module_levels.get(path)
        if own is None:
            stem = PurePath(path).stem
            own = next((own for pattern, own in self.modules if pattern.fullmatch(stem)), 0)
            self._module_levels[path] = own
        return own >= level

    def info(self, log: Log, frame: Place, message: str, level: int, fields: Fields) -> None:
        """Write a line."""
        raise NotImplementedError

    def error(
        self,
        log: Log,
        frame: Place,
        message: str,
        err: BaseException | str | None,
        fields: Fields,
    ) -> None:
        """Write a line about an error."""
        raise NotImplementedError

    def line(self, frame: Place, text: str, level: int, severity: str) -> None:
        """Write plain text."""
        raise NotImplementedError

    def _put(self, line: str, is_urgent: bool) -> None:
        self._held.append(line)
        self._held_chars += len(line)
        if is_urgent or self._held_chars >= self._buffer_chars:
            self.flush()

    def _put_error(self, line: str) -> None:
        if self._errors is self._infos:
            self._put(line, is_urgent=True)
            return
        self.flush()
        self._write(self._errors, line, 1)

    def flush(self) -> None:
        """Write what is held back."""
        if self._held:
            held, self._held, self._held_chars = self._held, [], 0
            self._write(self._infos, "".join(held), len(held))

    def _write(self, stream: Stream | None, text: str, line_count: int) -> None:
        if stream is None:
            return
        try:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                stream.write(text.encode("ascii", "backslashreplace").decode())
            stream.flush()
        except (OSError, ValueError):
            # The place where this would be said is the one that is gone.
            self.lost_line_count += line_count


class TextSink(Sink):
    """klog's text."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # Passed through as they came.
        self._pid = f"{os.getpid():7d}"
        self._second = -1
        self._second_text = ""

    def _header(self, severity: str, frame: Place) -> str:
        now = self._now_s()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%m%d %H:%M:%S", time.localtime(second))
        path = frame.f_code.co_filename
        file = self._callers.get(path)
        if file is None:
            file = self._callers[path] = PurePath(path).name
        micros = int((now - second) * 1e6)
        return f"{severity}{self._second_text}.{micros:06d} {self._pid} {file}:{frame.f_lineno}] "

    def info(self, log: Log, frame: Place, message: str, level: int, fields: Fields) -> None:
        """Write a line."""
        first = _named(log) if log.name or log.values else ()
        text = _text_fields(first, fields) if first or fields else ""
        quoted = self._messages.get(message) or self._quoted(message)
        self._put(f"{self._header('I', frame)}{quoted}{text}\n", level <= 0)

    def error(
        self,
        log: Log,
        frame: Place,
        message: str,
        err: BaseException | str | None,
        fields: Fields,
    ) -> None:
        """Write a line about an error, which comes first."""
        first = _named(log) if err is None else (("err", err), *_named(log))
        text = _text_fields(first, fields)
        self._put_error(f"{self._header('E', frame)}{go_quote(message)}{text}\n")

    def line(self, frame: Place, text: str, level: int, severity: str) -> None:
        """Write plain text."""
        line = self._header(severity, frame) + text.removesuffix("\n") + "\n"
        if severity == "I":
            self._put(line, level <= 0)
        else:
            self._put_error(line)

    def _quoted(self, message: str) -> str:
        quoted = go_quote(message)
        # Messages are constant, and so are few, unless somebody's are not.
        if len(self._messages) < _MESSAGES_MAX:
            self._messages[message] = quoted
        return quoted


class JsonSink(Sink):
    """JSON, one object a line."""

    def _head(self, frame: Place, message: str, name: str) -> str:
        path = frame.f_code.co_filename
        file = self._callers.get(path)
        if file is None:
            file = self._callers[path] = "/".join(PurePath(path).parts[-2:])
        named = f',"logger":{zap_string(name)}' if name else ""
        return (
            f'{{"ts":{plain_float(self._now_s() * 1000)}{named}'
            f',"caller":"{file}:{frame.f_lineno}","msg":{zap_string(message)}'
        )

    def info(self, log: Log, frame: Place, message: str, level: int, fields: Fields) -> None:
        """Write a line."""
        values = _json_fields(log.values) if log.values else ""
        own = _json_fields(fields.items()) if fields else ""
        head = self._head(frame, message, log.name)
        self._put(f'{head}{values},"v":{level}{own}}}\n', level <= 0)

    def error(
        self,
        log: Log,
        frame: Place,
        message: str,
        err: BaseException | str | None,
        fields: Fields,
    ) -> None:
        """Write a line about an error, which comes last and has no level."""
        last = "" if err is None else _json_fields((("err", err),))
        head = self._head(frame, message, log.name)
        values = _json_fields(log.values) + _json_fields(fields.items())
        self._put_error(f"{head}{values}{last}}}\n")

    def line(self, frame: Place, text: str, level: int, severity: str) -> None:
        """Write plain text."""
        head = self._head(frame, text.removesuffix("\n"), "")
        if severity == "I":
            self._put(f'{head},"v":{level}}}\n', level <= 0)
        else:
            self._put_error(f"{head}}}\n")


_NULL_SINK = Sink(SystemClock(), -1, [], None, None, 0)


def _named(log: Log) -> tuple[tuple[str, object], ...]:
    return (("logger", log.name), *log.values) if log.name else log.values


def _text_fields(first: tuple[tuple[str, object], ...], fields: Fields) -> str:
    if not first:
        return "".join(
            [
                f" {key}={value}" if type(value) is int else f" {key}{text_value(value)}"
                for key, value in fields.items()
            ]
        )
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
