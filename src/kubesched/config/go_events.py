"""The events of YAML text, as Go's YAML library has them.

Owns the parser and the words of its errors. The C parser is a port of the same scanner as Go's, so
that its messages are the same; later it learned to read plain scalars in brackets and braces
otherwise, which is undone here. The Python parser serves where PyYAML was built without the other.
Upstream: go.yaml.in/yaml/v2 scannerc.go, parserc.go and decode.go
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import yaml

from kubesched.config.yaml_scalars import YamlError

_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COLON_PROBLEM: Final = "found unexpected ':'"
_CLOSING: Final = {"{": "}", "[": "]"}
_STAND_INS: Final = range(0xE000, 0xF900)


def go_events(data: bytes) -> Iterator[yaml.Event]:
    """Yield the events of a text, in UTF-8 with or without a mark, or in UTF-16.

    Raises:
        YamlError: With Go's text, where Go's parser would stop.
    """
    stand_in, seen, brackets = "", 0, _Brackets()
    while True:
        try:
            for event in islice(yaml.parse(data or b"\n", Loader=_PARSER), seen, None):
                seen += 1
                if stand_in and isinstance(event, yaml.ScalarEvent):
                    event.value = event.value.replace(stand_in, ":")
                brackets.check(event, data)
                yield event
        except yaml.MarkedYAMLError as error:
            text = _text(data) if error.problem == _COLON_PROBLEM else ""
            place = error.problem_mark.index if error.problem_mark is not None else 0
            if text[place : place + 1] != ":":
                raise YamlError(_problem(error)) from None
            # Parity: scannerc.go yaml_parser_scan_plain_scalar: in `{a:[b]}` the colon belongs to
            # the scalar. Another letter takes its place, and all is read again.
            stand_in = stand_in or next(chr(one) for one in _STAND_INS if chr(one) not in text)
            data = (text[:place] + stand_in + text[place + 1 :]).encode()
        except yaml.reader.ReaderError as error:
            raise YamlError(f"yaml: {error.reason}") from None
        except UnicodeDecodeError as error:
            raise YamlError(f"yaml: {error.reason}") from None
        else:
            return


def event_line(event: yaml.Event) -> int:
    """Return the line that an event starts in, the first being 0."""
    return event.start_mark.line if event.start_mark is not None else 0


def _text(data: bytes) -> str:
    """Return the text without its mark, in which places of events count; empty if not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""


def _problem(error: yaml.MarkedYAMLError) -> str:
    # Parity: go.yaml.in/yaml/v2 decode.go parser.fail: only scanner errors count lines from one.
    line = 0
    if error.problem_mark is not None and error.problem_mark.line != 0:
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    return _told(line, error.problem or "unknown problem parsing YAML content")


def _told(line: int, problem: str) -> str:
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{problem}"


class _Brackets:
    """The collections that are open, to tell where a question mark ends a plain scalar."""

    def __init__(self) -> None:
        self._open: list[yaml.CollectionStartEvent] = []

    def check(self, event: yaml.Event, data: bytes) -> None:
        """Follow the events; YamlError at a question mark where Go's parser expects an end.

        Parity: scannerc.go yaml_parser_scan_plain_scalar: in `{a: b?c}` a question mark starts a
        key, though there is no comma before it.
        """
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif (
            isinstance(event, yaml.ScalarEvent)
            and "?" in event.value
            and not event.style
            and self._open
            and self._open[-1].flow_style
        ):
            text = _text(data)
            place = text.find("?", *_span(event))
            # A pair in brackets without braces of its own is a mapping that nothing closes.
            around = next(one for one in reversed(self._open) if text[_span(one)[0]] in _CLOSING)
            line = text.count("\n", 0, place) or event_line(around)
            closing = _CLOSING[text[_span(around)[0]]]
            raise YamlError(_told(line, f"did not find expected ',' or '{closing}'"))


def _span(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index
