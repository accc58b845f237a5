"""Reserve, permit, pre-bind, bind, post-bind.

Owns their order and what a failure of each means. Waiting itself is the caller's: a plugin's
awaitable is awaited here, nothing else.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubesched.framework.adapt import as_status, guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreBindPreFlightResult
from kubesched.framework.status import SKIP, SUCCESS, Code, Status, StatusError, error
from kubesched.model.pod_info import PodInfo

PERMIT_WAIT_S_MAX = 15 * 60.0
WAITING = "one or more plugins asked to wait and no plugin rejected pod"


@dataclass(frozen=True, slots=True)
class PermitOutcome:
    """What permit came to: a refusal, or who wants to wait for how long."""

    status: Status = SUCCESS
    wait_s: dict[str, float] = field(default_factory=dict)


def reserve(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    """Reserve in order; the first failure ends it."""
    for plugin in plugins:
        answer = guarded(plugin.reserve, state, pod, node_name)
        if answer is None:
            continue
        status = as_status(answer, "reserve")
        if status is not None and not status.is_success:
            return _failure("Reserve", plugin.name, status)
    return None


def unreserve(plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str) -> None:
    """Give back in reverse order, also what was never reserved."""
    for plugin in reversed(plugins):
        if hasattr(plugin, "unreserve"):
            guarded(plugin.unreserve, state, pod, node_name)


async def permit(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str
) -> PermitOutcome:
    """Ask every plugin; the first refusal ends it, waits are collected."""
    # Parity: runtime/framework.go RunPermitPlugins, v1.36: the last to ask for a wait is heard.
    waits: dict[str, float] = {}
    waiting: Status | None = None
    for plugin in plugins:
        answer = await _awaited(plugin.permit, state, pod, node_name)
        said, timeout_s = answer if isinstance(answer, tuple) else (answer, 0.0)
        status = as_status(said, "permit")
        if status is None or status.is_success:
            continue
        if status.is_rejected:
            return PermitOutcome(status.by(plugin.name))
        if status.code is not Code.WAIT:
            return PermitOutcome(_failure("Permit", plugin.name, status))
        waits[plugin.name] = min(timeout_s, PERMIT_WAIT_S_MAX)
        waiting = status
    if waiting is not None:
        return PermitOutcome(Status(Code.WAIT, (*waiting.reasons, WAITING)), waits)
    return PermitOutcome()


def pre_flight(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str
) -> tuple[Status | None, frozenset[str]]:
    """Return success if any plugin has work (skip if none), and those that may run in parallel."""
    skipped: set[str] = set()
    parallel: set[str] = set()
    for plugin in plugins:
        if not hasattr(plugin, "pre_bind_pre_flight"):
            continue
        answer = guarded(plugin.pre_bind_pre_flight, state, pod, node_name)
        if isinstance(answer, PreBindPreFlightResult):
            if answer.allow_parallel:
                parallel.add(plugin.name)
        elif isinstance(answer, Status) and answer.is_skip:
            skipped.add(plugin.name)
        elif answer is not None and not (isinstance(answer, Status) and answer.is_success):
            return _pre_flight_failure(plugin.name, answer).by(plugin.name), frozenset()
    state.skip_pre_bind_plugins = frozenset(skipped)
    return (SKIP if len(skipped) == len(plugins) else None), frozenset(parallel)


async def pre_bind(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    """Run the plugins that have work, in order."""
    for plugin in plugins:
        if plugin.name in state.skip_pre_bind_plugins:
            continue
        status = as_status(await _awaited(plugin.pre_bind, state, pod, node_name), "pre_bind")
        if status is not None and not status.is_success:
            return _failure("PreBind", plugin.name, status)
    return None


async def bind(plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Have the first plugin that does not skip write the binding."""
    for plugin in plugins:
        status = as_status(await _awaited(plugin.bind, state, pod, node_name), "bind")
        if status is None or status.is_success:
            return SUCCESS
        if not status.is_skip:
            return _failure("Bind", plugin.name, status)
    return SKIP


async def post_bind(
    plugins: Sequence[Any], state: CycleState, pod: PodInfo, node_name: str
) -> None:
    """Tell every plugin."""
    for plugin in plugins:
        await _awaited(plugin.post_bind, state, pod, node_name)


async def _awaited(call: Callable[..., Any], *arguments: Any) -> Any:
    answer = guarded(call, *arguments)
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await answer
    except StatusError as problem:
        return problem.status
    except Exception as problem:  # noqa: BLE001 - any fault of a plugin ends its call only
        return error(f"{type(problem).__name__}: {problem}")


def _pre_flight_failure(plugin: str, answer: object) -> Status:
    # Parity: runtime/framework.go RunPreBindPreFlights, v1.36.
    if isinstance(answer, Status) and answer.code is Code.ERROR:
        return error(f'running PreBindPreFlight "{plugin}": {answer.message}')
    got = answer.code.wire_name if isinstance(answer, Status) else type(answer).__name__
    return error(
        f'PreBindPreFlight {plugin} returned "{got}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )


def _failure(point: str, plugin: str, status: Status) -> Status:
    """Return a refusal under its plugin's name, anything else as an error in upstream's words."""
    if status.is_rejected:
        return status.by(plugin)
    return error(f'running {point} plugin "{plugin}": {status.message}').by(plugin)
