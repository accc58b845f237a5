"""Which lines are written, and when they are flushed."""

import io

import pytest

from kubesched.kit.log import NullLog, make_log, parse_vmodule
from tests.unit.kit.log_world import Pages, StillClock, a_log


def messages(pages: Pages) -> list[str]:
    return [line.split('"')[1] for line in pages.text.splitlines()]


def test_lines_up_to_the_verbosity_are_written_and_errors_always() -> None:
    log, pages = a_log(verbosity=2)
    for level, message in enumerate(("zero", "one", "two", "three")):
        log.info(message, level=level)
    log.error("error")
    assert messages(pages) == ["zero", "one", "two", "error"]


def test_derived_loggers_share_the_verbosity() -> None:
    log, pages = a_log(verbosity=0)
    child = log.with_values(pod="a")
    child.info("hidden", level=4)
    log.verbosity = 4
    assert child.enabled(4)
    assert not child.enabled(5)
    child.info("shown", level=4)
    log.flush()
    assert messages(pages) == ["shown"]


@pytest.mark.parametrize(
    ("vmodule", "is_on"),
    [
        pytest.param("test_log_levels=5", True, id="the name of the file"),
        pytest.param("test_log*=5", True, id="a star"),
        pytest.param("test_log_level?=5", True, id="a question mark"),
        pytest.param("test_[k-m]og_levels=5", True, id="a range of letters"),
        pytest.param("test_[^a-c]og_levels=5", True, id="a negated range"),
        pytest.param(
            "test_[^k-m]og_levels=5", False, id="a negated range that excludes the letter"
        ),
        pytest.param(r"test\_log_levels=5", True, id="an escaped letter"),
        pytest.param("test_log_levels=4", False, id="a level that is too low"),
        pytest.param("schedule_one=5", False, id="another file"),
        pytest.param("levels=9", False, id="a part of the name"),
        pytest.param("test_log*=4,test_log_levels=5", False, id="the first match wins"),
    ],
)
def test_vmodule_sets_the_level_of_a_file(vmodule: str, is_on: bool) -> None:
    log, pages = a_log(vmodule=vmodule)
    assert log.enabled(5) is is_on
    log.info("here", level=5)
    log.line("there", level=5)
    log.flush()
    assert pages.text.count("\n") == (2 if is_on else 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "syntax error: expect comma-separated list of filename=N"),
        ("=1", "syntax error: expect comma-separated list of filename=N"),
        ("a=", "syntax error: expect comma-separated list of filename=N"),
        ("a=b", "syntax error: expect comma-separated list of filename=N"),
        ("a=1=2", "syntax error: expect comma-separated list of filename=N"),
        ("a=-1", "negative value for vmodule level"),
    ],
)
def test_an_invalid_vmodule_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        parse_vmodule(text)


def test_empty_patterns_and_those_of_level_zero_are_ignored() -> None:
    assert parse_vmodule(",a=0,b=2,") == [("b", 2)]


def test_lines_are_buffered_until_an_urgent_one() -> None:
    log, pages = a_log(verbosity=3)
    log.info("one", level=3)
    log.info("two", level=1)
    assert pages.writes == []
    log.info("three")
    assert messages(pages) == ["one", "two", "three"]
    assert len(pages.writes) == 1
    log.info("four", level=2)
    log.error("five")
    assert messages(pages) == ["one", "two", "three", "four", "five"]
    assert pages.flush_count == 2


def test_a_full_buffer_or_flush_writes_the_lines() -> None:
    log, pages = a_log(verbosity=3, buffer_bytes=200)
    log.info("one", level=3)
    log.flush()
    assert messages(pages) == ["one"]
    for _ in range(3):
        log.info("another", level=3)
    assert len(pages.writes) == 1
    log.info("another" * 20, level=3)
    assert len(pages.writes) == 2


def test_lines_for_a_closed_stream_are_lost_without_an_error() -> None:
    stream = io.StringIO()
    log = make_log(stream, clock=StillClock(), verbosity=2)
    stream.close()
    log.info("one", level=1)
    log.error("two")
    log.flush()


def test_a_stream_of_ascii_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    log = make_log(stream, clock=StillClock())
    log.info("é")
    assert raw.getvalue().endswith(b'] "\\xe9"\n')


def test_the_null_log_writes_nothing() -> None:
    log = NullLog()
    log.info("one")
    log.with_values(pod="a").error("two", ValueError())
    log.with_name("n").line("three")
    log.flush()
    assert not log.enabled(0)
