"""A long list or watch yields to the event loop."""

from __future__ import annotations

import asyncio
import io

import pytest

from kubesched.api.pod import Pod
from kubesched.client.resources import PODS
from kubesched.client.watch.changes import LoopTurn
from kubesched.client.watch.reflector import Reflector
from kubesched.kit.log import make_log
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks
from tests.unit.client.reflector_world import (
    Answer,
    JumpClock,
    RecordingSink,
    ScriptedServer,
    added,
    listed,
    pod,
    watched,
)


class SlowClock(JumpClock):
    """A clock that advances half a millisecond per reading."""

    def monotonic_s(self) -> float:
        self.time_s += 0.0005
        return self.time_s


async def report_counts(answers: list[Answer]) -> tuple[int, int]:
    """Return the number of changes, and the most that were reported within one loop turn."""
    clock, sink = SlowClock(), RecordingSink()
    server = ScriptedServer(clock, answers, sink)
    reflector = Reflector(
        server,
        PODS,
        sink,
        decode=Pod,
        clock=clock,
        rng=RandomStream(1, "test"),
        log=make_log(io.StringIO(), clock=clock),
    )
    tasks = Tasks()
    tasks.start(reflector.run(), name="reflector")
    seen, longest = 0, 0
    while not server.quiet.is_set():
        await LoopTurn()
        longest = max(longest, len(sink.changes) - seen)
        seen = len(sink.changes)
    await tasks.stop()
    return len(sink.changes), longest


@pytest.mark.parametrize("is_watch", [False, True], ids=["list", "watch"])
def test_the_loop_gets_a_turn_every_two_milliseconds(is_watch: bool) -> None:
    names = [f"p{number}" for number in range(1000)]
    if is_watch:
        answers = [listed(1), watched(*(added(name, 2) for name in names))]
    else:
        answers = [listed(9, *(pod(name, 1) for name in names))]
    count, longest = asyncio.run(report_counts(answers))
    assert count == 1000
    assert longest <= 5
