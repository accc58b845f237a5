"""The PostFilter phase: plugins try in order to make the pod schedulable, usually by preemption.

A plugin's awaitable is awaited only if the CycleState permits waiting.
Upstream: pkg/scheduler/framework/runtime/framework.go RunPostFilterPlugins
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NodeStatuses, PostFilterResult, PostFilterReturn
from kubesched.framework.runtime.adapters import call_plugin
from kubesched.framework.runtime.bind_phase import awaited
from kubesched.framework.status import Code, Status, error, unschedulable
from kubesched.snapshot.pod_info import PodInfo


def post_filter(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, statuses: NodeStatuses
) -> PostFilterReturn:
    """Run the plugins without waiting."""
    outcome = _Outcome()
    for plugin in plugins:
        answer = call_plugin("PostFilter", plugin.name, plugin.post_filter, state, pod, statuses)
        if inspect.iscoroutine(answer):
            answer.close()
        if outcome.take(plugin.name, answer):
            break
    return outcome.result()


async def post_filter_waiting(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, statuses: NodeStatuses
) -> PostFilterReturn:
    """Run the plugins, and await those that wait."""
    outcome, state.may_wait = _Outcome(), True
    try:
        for plugin in plugins:
            call = plugin.post_filter
            answer = await awaited("PostFilter", plugin.name, call, state, pod, statuses)
            if outcome.take(plugin.name, answer):
                break
    finally:
        state.may_wait = False
    return outcome.result()


class _Outcome:
    """The combined result of the plugins so far."""

    def __init__(self) -> None:
        self._result: PostFilterResult | None = None
        self._status: Status | None = None
        self._reasons: list[str] = []
        self._rejector = ""

    def take(self, plugin: str, answer: Any) -> bool:
        """Add one plugin's result; return whether it is final."""
        # Parity: runtime/framework.go RunPostFilterPlugins, v1.36.
        result, status = _checked(answer)
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

    def result(self) -> PostFilterReturn:
        """Return the result, if any, and the status."""
        return self._result, self._status or unschedulable(*self._reasons).by(self._rejector)


def _checked(answer: Any) -> PostFilterReturn:
    """Return a plugin's result and status; an error if it returned anything else."""
    pair = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, answer)
    result, status = pair
    if not isinstance(status, Status):
        got = type(answer).__name__
        return None, error(f"post_filter() returned {got}, expected a result and a status")
    return result, status
