"""Lines are klog's, byte for byte, in text and in JSON."""

import gzip
import json
import os
import re
import time
from datetime import timedelta
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from kubesched.kit.log import LogFormat, Ref
from tests.unit.kit.log_world import NOON_S, a_log

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parent / "data" / "klog-lines.json.gz").read_bytes())
)["lines"]


def as_python(kind: str, value: Any) -> object:
    match kind:
        case "ref":
            return Ref(*value)
        case "refs":
            return [Ref(*pair) for pair in value]
        case "err":
            return ValueError(value)
        case "dur":
            return timedelta(microseconds=value)
        case "bytes":
            return bytes(value)
    return value


def line_of(case: dict[str, Any], log_format: LogFormat) -> str:
    log, pages = a_log(format=log_format, verbosity=10)
    if case["with"]:
        log = log.with_values(**{key: as_python(*rest) for key, *rest in case["with"]})
    fields = {key: as_python(*rest) for key, *rest in case["fields"]}
    if case["err"] is not None:
        log.error(case["msg"], ValueError(case["err"]), **fields)
    else:
        log.info(case["msg"], level=case["level"], **fields)
    log.flush()
    return pages.text


def test_text_is_what_klog_wrote() -> None:
    for recorded in RECORDED:
        severity, _, rest = recorded["text"].partition(" ")
        line = line_of(recorded["case"], "text")
        assert line[0] == severity
        assert line.partition("] ")[2] == rest


def test_json_is_what_zap_wrote() -> None:
    for recorded in RECORDED:
        line = line_of(recorded["case"], "json")
        rest = re.sub(r'^\{"ts":[0-9.]+,"caller":"[^"]+",', "{", line, count=1)
        assert rest == recorded["json"]


def test_the_head_of_a_text_line() -> None:
    log, pages = a_log()
    log.info("hello", pod=Ref("default", "a"))
    day = time.strftime("%m%d %H:%M:%S", time.localtime(NOON_S))
    head, _, rest = pages.text.partition("] ")
    assert re.fullmatch(rf"I{day}\.250000 {os.getpid():7d} test_log_lines\.py:[0-9]+", head), head
    assert rest == '"hello" pod="default/a"\n'


def test_the_head_of_a_json_line() -> None:
    log, pages = a_log(format="json")
    log.info("hello")
    line = json.loads(pages.text)
    assert pages.text.startswith('{"ts":1763294400250,"caller":"kit/test_log_lines.py:')
    assert list(line) == ["ts", "caller", "msg", "v"]


def test_a_line_has_the_place_of_its_call() -> None:
    log, pages = a_log()
    log.info("first")
    log.error("second")
    log.line("third")
    numbers = [int(line.partition(".py:")[2].partition("]")[0]) for line in pages.writes]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    YES = "yes"


class Number(IntEnum):
    ONE = 1


class Named:
    name = "a"
    namespace = "default"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        pytest.param(Colour.RED, '="red"', '"red"', id="an enum by its value"),
        pytest.param(Word.YES, '="yes"', '"yes"', id="an enum of strings"),
        pytest.param(Number.ONE, "=1", "1", id="an enum of numbers"),
        pytest.param(
            Named(),
            '="default/a"',
            '{"name":"a","namespace":"default"}',
            id="an object with name and namespace",
        ),
        pytest.param(
            {"b": {2, 1}, "a": Ref("", "n")},
            '={"a":{"name":"n"},"b":[1,2]}',
            '{"a":{"name":"n"},"b":[1,2]}',
            id="keys and sets in order",
        ),
        pytest.param(
            Broken(), '="<panic: no text>"', '"PANIC=no text"', id="a value whose text fails"
        ),
        pytest.param(float("inf"), "=+Inf", '"+Inf"', id="a number outside JSON"),
    ],
)
def test_python_values(value: object, text: str, as_json: str) -> None:
    log, pages = a_log()
    log.info("m", k=value)
    assert pages.text.endswith(f'] "m" k{text}\n')
    log, pages = a_log(format="json")
    log.info("m", k=value)
    assert pages.text.endswith(f'"msg":"m","v":0,"k":{as_json}}}\n')


@pytest.mark.parametrize(
    ("log_format", "ending"),
    [
        ("text", '] "m" err="bad" logger="UnhandledError.watch" pod="a"\n'),
        ("json", ',"msg":"m","pod":"a","err":"bad"}\n'),
    ],
)
def test_a_named_logger(log_format: LogFormat, ending: str) -> None:
    log, pages = a_log(format=log_format)
    log.with_name("UnhandledError").with_name("watch").error("m", "bad", pod="a")
    assert pages.text.endswith(ending)
    if log_format == "json":
        assert json.loads(pages.text)["logger"] == "UnhandledError.watch"


@pytest.mark.parametrize(
    ("severity", "text", "as_json"),
    [
        (
            "I",
            "Serving securely on [::]:10259\n",
            '"msg":"Serving securely on [::]:10259","v":0}\n',
        ),
        ("W", "Serving securely on [::]:10259\n", '"msg":"Serving securely on [::]:10259"}\n'),
    ],
)
def test_plain_lines(severity: Any, text: str, as_json: str) -> None:
    log, pages = a_log()
    log.line("Serving securely on [::]:10259", severity=severity)
    assert pages.text[0] == severity
    assert pages.text.partition("] ")[2] == text
    log, pages = a_log(format="json")
    log.line("Serving securely on [::]:10259", severity=severity)
    assert pages.text.endswith(as_json)
