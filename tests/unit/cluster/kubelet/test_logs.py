"""Selection of log lines, and following."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.cluster.kubelet.logs import ContainerLog, LogBuffer, LogOptions, LogSource, read_log
from kubesched.cluster.kubelet.pod_runs import PodRun
from tests.unit.cluster.kubelet.pod_world import NOW_S, SETTINGS, a_pod


class StillClock:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.time_s = NOW_S

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError(f"unexpected sleep: {delay_s}")


def shown(source: LogSource, clock: StillClock, options: LogOptions | None = None) -> str:
    async def read() -> bytes:
        return b"".join([data async for data in read_log(source, options or LogOptions(), clock)])

    return asyncio.run(read()).decode()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def log(clock: StillClock) -> LogBuffer:
    made = LogBuffer(clock, lines_max=4)
    for number in range(6):
        clock.time_s = NOW_S + number + 0.25
        made.append(f"line {number}")
    return made


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(LogOptions(), "line 2\nline 3\nline 4\nline 5\n", id="the retained lines"),
        pytest.param(LogOptions(tail_lines=1), "line 5\n", id="the last"),
        pytest.param(LogOptions(tail_lines=0), "", id="none"),
        pytest.param(LogOptions(since_s=NOW_S + 4), "line 4\nline 5\n", id="the newer"),
        pytest.param(LogOptions(limit_bytes=9), "line 2\nli", id="limit in bytes"),
        pytest.param(
            LogOptions(tail_lines=1, timestamps=True),
            "2027-01-15T08:00:05.250000000Z line 5\n",
            id="with their times",
        ),
    ],
)
def test_options(log: LogBuffer, clock: StillClock, options: LogOptions, expected: str) -> None:
    assert shown(log, clock, options) == expected


def test_following_shows_new_lines_until_the_end(log: LogBuffer, clock: StillClock) -> None:
    async def follow() -> list[bytes]:
        lines = read_log(log, LogOptions(follow=True, tail_lines=1), clock)
        found = [await anext(lines)]
        waiting = asyncio.ensure_future(anext(lines))
        done, _ = await asyncio.wait([waiting], timeout=0)
        assert not done
        log.append("line 6")
        found.append(await waiting)
        # More lines than are retained arrive at once: the last ones are shown.
        for number in range(7, 13):
            log.append(f"line {number}")
        log.close()
        return [*found, *[data async for data in lines]]

    found = asyncio.run(follow())
    assert [data.decode().strip() for data in found] == [
        "line 5",
        "line 6",
        "line 9",
        "line 10",
        "line 11",
        "line 12",
    ]


def test_a_container_prints_in_its_time(clock: StillClock) -> None:
    command = ["sh", "-c", "echo begin; sleep 5; echo end"]
    container = {"name": "main", "image": "i", "command": command}
    run = PodRun(a_pod(restartPolicy="Never", containers=[container]), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    source = ContainerLog(run, container, 0)
    clock.time_s = NOW_S + 2.0
    assert shown(source, clock) == "begin\n"
    assert source.next_s(clock.time_s) == NOW_S + 6.0
    assert not source.is_complete()
    clock.time_s = NOW_S + 7.0
    run.advance(clock.time_s)
    assert source.is_complete()
    assert shown(source, clock, LogOptions(follow=True)) == "begin\nend\n"


def test_a_killed_container_prints_no_more(clock: StillClock) -> None:
    command = ["sh", "-c", "echo begin; sleep 5; echo end"]
    container = {"name": "main", "image": "i", "command": command}
    run = PodRun(a_pod(restartPolicy="Never", containers=[container]), NOW_S, SETTINGS)
    run.advance(NOW_S + 1.0)
    run.vanish(NOW_S + 3.0)
    clock.time_s = NOW_S + 60.0
    assert shown(ContainerLog(run, container, 0), clock) == "begin\n"
