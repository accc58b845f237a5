"""A long list does not keep the event loop to itself."""

from __future__ import annotations

import asyncio
import io

import pytest

from kubesched.client.mirror import Turn
from kubesched.client.reflector import Reflector
from kubesched.client.resources import PODS
from kubesched.kit.log import make_log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks
from kubesched.objects.pod import Pod
from tests.unit.client.reflector_world import (
    Answer,
    JumpClock,
    ScriptedServer,
    Told,
    added,
    bookmark,
    list_body,
    pod,
)


class SlowClock(JumpClock):
    """Whoever looks at it has worked for half a millisecond."""

    def monotonic_s(self) -> float:
        self.time_s += 0.0005
        return self.time_s


async def turns_of_others(answer: Answer, *, use_watch_list: bool) -> tuple[int, int]:
    """Return how many changes were told, and the longest run of them without others' turn."""
    clock, told = SlowClock(), Told()
    server = ScriptedServer(clock, [answer], told)
    reflector = Reflector(
        server,
        PODS,
        told,
        decode=Pod,
        use_watch_list=use_watch_list,
        clock=clock,
        rng=Generator(1, "test"),
        log=make_log(io.StringIO(), clock=clock),
    )
    tasks = Tasks()
    tasks.start(reflector.run(), name="reflector")
    seen, longest = 0, 0
    while not server.quiet.is_set():
        await Turn()
        longest = max(longest, len(told.changes) - seen)
        seen = len(told.changes)
    await tasks.stop()
    return len(told.changes), longest


@pytest.mark.parametrize("use_watch_list", [False, True], ids=["list", "watch"])
def test_others_have_a_turn_every_two_milliseconds(use_watch_list: bool) -> None:
    names = [f"p{number}" for number in range(1000)]
    lines = [added(name, 1) for name in names]
    data = b"".join([*lines, bookmark(9, ends_initial=True)])
    body = list_body(9, *(pod(name, 1) for name in names))
    answer = Answer([data if use_watch_list else body])
    told, longest = asyncio.run(turns_of_others(answer, use_watch_list=use_watch_list))
    assert told == 1000
    assert longest <= 5
