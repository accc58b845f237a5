"""Post-filter: one plugin after the other tries to make room.

Owns their order and what their verdicts come to. Waiting itself is the caller's: only where a state
says that somebody waits is a plugin's awaitable awaited.
Upstream: pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeAlias

from kubesched.framework.adapt import asked
from kubesched.framework.bind_phase import awaited
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NodeStatuses, PostFilterResult
from kubesched.framework.status import Code, Status, error, unschedulable
from kubesched.model.pod_info import PodInfo

Room: TypeAlias = "tuple[PostFilterResult | None, Status]"


def post_filter(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, statuses: NodeStatuses
) -> Room:
    """Return what the plugins come to, where nobody waits for one."""
    heard = _Heard()
    for plugin in plugins:
        answer = asked("PostFilter", plugin.name, plugin.post_filter, state, pod, statuses)
        if inspect.iscoroutine(answer):
            answer.close()
        if heard.take(plugin.name, answer):
            break
    return heard.result()


async def post_filter_waiting(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, statuses: NodeStatuses
) -> Room:
    """Return what the plugins come to; one that waits is waited for."""
    heard, state.may_wait = _Heard(), True
    try:
        for plugin in plugins:
            call = plugin.post_filter
            answer = await awaited("PostFilter", plugin.name, call, state, pod, statuses)
            if heard.take(plugin.name, answer):
                break
    finally:
        state.may_wait = False
    return heard.result()


class _Heard:
    """What the plugins asked so far come to."""

    def __init__(self) -> None:
        self._result: PostFilterResult | None = None
        self._status: Status | None = None
        self._reasons: list[str] = []
        self._rejector = ""

    def take(self, plugin: str, answer: Any) -> bool:
        """Take one plugin's answer; return whether it settles the matter."""
        # Parity: runtime/framework.go RunPostFilterPlugins, v1.36.
        result, status = _room(answer)
        if status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self._result, self._status = result, status.by(plugin)
            return True
        if not status.is_rejected:
            self._result, self._status = None, error(status.message).by(plugin)
            return True
        self._result = result if result is not None else self._result
        self._reasons += status.reasons
        self._rejector = self._rejector or plugin
        return False

    def result(self) -> Room:
        """Return the plan, if there is one, and the verdict."""
        return self._result, self._status or unschedulable(*self._reasons).by(self._rejector)


def _room(answer: Any) -> Room:
    """Return what a plugin found and its verdict; an error in place of nonsense."""
    pair = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, answer)
    result, status = pair
    if not isinstance(status, Status):
        got = type(answer).__name__
        return None, error(f"post_filter() returned {got}, expected a result and a status")
    return result, status
