"""Parallel PreBind plugins: the first failure cancels the others, preemption cancels all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status, error
from kubesched.scheduler.parallel_calls import PreBindRun
from tests.unit.builders import a_pod, a_profile


class Work:
    """A PreBind plugin that ends on request of the test, and records how it ended."""

    def __init__(self, name: str, ended: list[str], answer: Status | None = None) -> None:
        self.name = name
        self._ended = ended
        self._answer = answer
        self.may_end = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.stays = False

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        return None

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        self.has_begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self._ended.append(f"{self.name} stopped")
            if not self.stays:
                raise
            return None
        self._ended.append(f"{self.name} done")
        return self._answer


def started(run: PreBindRun, *plugins: Work, parallel: str = "AB") -> asyncio.Task[Any]:
    state = CycleState()
    state.parallel_pre_bind_plugins = frozenset(parallel)
    call: Coroutine[Any, Any, Any] = a_profile(*plugins).run_pre_bind_plugins(
        state, a_pod(), "n1", run
    )
    return asyncio.get_running_loop().create_task(call)


def test_parallel_pre_bind_plugins_run_at_the_same_time() -> None:
    async def main() -> None:
        ended: list[str] = []
        a, b = Work("A", ended), Work("B", ended)
        task = started(PreBindRun(), a, b)
        await a.has_begun.wait()
        await b.has_begun.wait()
        b.may_end.set()
        a.may_end.set()
        assert await task is None
        assert sorted(ended) == ["A done", "B done"]

    asyncio.run(main())


def test_the_first_failure_cancels_the_others_and_is_the_result() -> None:
    async def main() -> None:
        ended: list[str] = []
        a, b, c = Work("A", ended), Work("B", ended, error("bad")), Work("C", ended)
        task = started(PreBindRun(), a, b, c)
        await a.has_begun.wait()
        b.may_end.set()
        assert await task == error('running PreBind plugin "B": bad').by("B")
        assert ended == ["B done", "A stopped"]
        assert not c.has_begun.is_set()

    asyncio.run(main())


def test_a_cancelled_run_ends_with_the_cause() -> None:
    async def main() -> None:
        ended: list[str] = []
        run, a, b = PreBindRun(), Work("A", ended), Work("B", ended)
        task = started(run, a, b)
        await b.has_begun.wait()
        run.cancel("preempted by DefaultPreemption")
        run.cancel("too late")
        text = 'running PreBind plugin "A": preempted by DefaultPreemption'
        assert await task == error(text).by("A")
        assert ended == ["A stopped", "B stopped"]

    asyncio.run(main())


def test_a_run_cancelled_between_two_groups_does_not_start_the_second() -> None:
    async def main() -> None:
        ended: list[str] = []
        run, a, b = PreBindRun(), Work("A", ended), Work("B", ended)
        a.stays = True
        task = started(run, a, b, parallel="")
        await a.has_begun.wait()
        run.cancel("preempted by DefaultPreemption")
        text = 'running PreBind plugin "B": preempted by DefaultPreemption'
        assert await task == error(text).by("B")
        assert ended == ["A stopped"]
        assert not b.has_begun.is_set()

    asyncio.run(main())


def test_no_plugin_runs_on_after_the_scheduler_ends() -> None:
    async def main() -> None:
        ended: list[str] = []
        a, b = Work("A", ended), Work("B", ended)
        task = started(PreBindRun(), a, b)
        await b.has_begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert ended == ["A stopped", "B stopped"]

    asyncio.run(main())
