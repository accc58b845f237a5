"""Records of Python's logging become lines of ours."""

import asyncio
import json
import logging

import pytest

from kubesched.kit.log import LogFormat, LogHandler
from kubesched.kit.tasks import Tasks
from tests.unit.kit.log_world import Pages, a_log


def library_logger(log_format: LogFormat = "text") -> tuple[logging.Logger, Pages]:
    log, pages = a_log(format=log_format)
    logger = logging.Logger("library")  # noqa: LOG001  # Isolated: no parent.
    logger.addHandler(LogHandler(log))
    return logger, pages


@pytest.mark.parametrize(
    ("level", "severity"), [(logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "E")]
)
def test_a_record_becomes_a_line_with_its_place(level: int, severity: str) -> None:
    logger, pages = library_logger()
    logger.log(level, "lost %s", "it")
    head, _, text = pages.text.partition("] ")
    assert head[0] == severity
    assert "test_stdlib_logging.py:" in head
    assert text == "lost it\n"


def test_records_below_warning_are_dropped() -> None:
    logger, pages = library_logger()
    logger.info("chatter")
    assert pages.text == ""


def test_a_traceback_is_part_of_the_message() -> None:
    logger, pages = library_logger("json")
    try:
        raise ValueError("bad")
    except ValueError:
        logger.exception("failed")
    line = json.loads(pages.text)
    assert line["msg"].startswith("failed\nTraceback")
    assert line["msg"].endswith("ValueError: bad")


def test_a_failed_task_is_logged() -> None:
    log, pages = a_log()
    handler = LogHandler(log)
    logging.getLogger("kubesched.kit.tasks").addHandler(handler)

    async def fail() -> None:
        raise RuntimeError("a bug")

    async def run() -> None:
        tasks = Tasks()
        await asyncio.wait([tasks.start(fail(), name="worker")])

    try:
        asyncio.run(run())
    finally:
        logging.getLogger("kubesched.kit.tasks").removeHandler(handler)
    assert "tasks.py:" in pages.text
    assert "] task failed: worker\n" in pages.text
    assert "RuntimeError: a bug" in pages.text
