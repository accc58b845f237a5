"""The Reserve, Permit, PreBind, Bind and PostBind phases.

Owns the order of plugins and what a failure in each phase means. The caller waits for permits, and
supplies the runner of parallel PreBind plugins.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Logger
from kubesched.framework.interface import PreBindPreFlightResult
from kubesched.framework.runtime.adapters import as_status, call_plugin, guarded, status_of
from kubesched.framework.status import SKIP, SUCCESS, Code, Status, error
from kubesched.kit.log import Ref
from kubesched.snapshot.pod_info import PodInfo

PERMIT_WAIT_S_MAX = 15 * 60.0
WAITING = "one or more plugins asked to wait and no plugin rejected pod"

Plugins: TypeAlias = Sequence[Any]
Call: TypeAlias = "Coroutine[Any, Any, Status | None]"


@dataclass(frozen=True, slots=True)
class PermitOutcome:
    """The result of Permit: a rejection, or the plugins that make the pod wait, with timeouts."""

    status: Status = SUCCESS
    wait_s: dict[str, float] = field(default_factory=dict)


class Parallelizer(Protocol):
    """Runs PreBind plugins in parallel."""

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        """Return the position of the call that failed first, and its failure; None if none failed.

        The first failure cancels the other calls. None of them runs on after the return.
        """
        ...


def reserve(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> Status | None:
    """Run the Reserve plugins in order, until one fails."""
    for plugin in plugins:
        answer = call_plugin("Reserve", plugin.name, plugin.reserve, state, pod, node_name)
        if answer is None:
            continue
        status = as_status(answer, "reserve")
        if status is not None and not status.is_success:
            return _failed("Reserve", plugin.name, status, log, pod)
    return None


def unreserve(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> None:
    """Run Unreserve in reverse order, including plugins that did not reserve."""
    for plugin in reversed(plugins):
        if hasattr(plugin, "unreserve"):
            answer = call_plugin("Unreserve", plugin.name, plugin.unreserve, state, pod, node_name)
            _log_if_failed(log, "Unreserve", plugin.name, answer, pod)


async def permit(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> PermitOutcome:
    """Run the Permit plugins until one rejects the pod; collect the waits."""
    # Parity: runtime/framework.go RunPermitPlugins, v1.36: the last wait's reasons are kept.
    waits: dict[str, float] = {}
    waiting: Status | None = None
    for plugin in plugins:
        answer = await awaited("Permit", plugin.name, plugin.permit, state, pod, node_name)
        status, timeout_s = _permission(answer)
        if status is None or status.is_success:
            continue
        if status.code is not Code.WAIT:
            return PermitOutcome(_failed("Permit", plugin.name, status, log, pod))
        waits[plugin.name] = min(timeout_s, PERMIT_WAIT_S_MAX)
        waiting = status
    if waiting is not None:
        text = "One or more plugins asked to wait and no plugin rejected pod"
        log.info(text, level=4, pod=_ref(pod))
        return PermitOutcome(Status(Code.WAIT, (*waiting.reasons, WAITING)), waits)
    return PermitOutcome()


def _permission(answer: object) -> tuple[Status | None, float]:
    """Return a Permit plugin's status, and its timeout."""
    verdict, wait_s = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, 0.0)
    status = as_status(verdict, "permit")
    if isinstance(wait_s, (int, float)):
        return status, wait_s
    return error(f"permit() waits for a {type(wait_s).__name__}, expected seconds"), 0.0


def permit_result(status: Status, pod: PodInfo, log: Logger) -> Status:
    """Return the status of an attempt whose wait on Permit has ended; log a failure."""
    # Parity: runtime/framework.go WaitOnPermit, v1.36.
    if status.is_success:
        return SUCCESS
    if status.is_rejected:
        text = "Pod rejected while waiting on permit"
        log.info(text, level=4, pod=_ref(pod), status=status.message)
        return status
    log.error("Failed waiting on permit for pod", err=status.message, pod=_ref(pod))
    return error(f"waiting on permit for pod: {status.message}").by(status.plugin)


def pre_flight(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> Status | None:
    """Find out which PreBind plugins have work, and which may run in parallel.

    Writes both to the state, for `pre_bind`; returns Skip if none has work.
    """
    # Parity: runtime/framework.go RunPreBindPreFlights, v1.36.
    skipped: set[str] = set()
    parallel: set[str] = set()
    for plugin in plugins:
        if not hasattr(plugin, "pre_bind_pre_flight"):
            continue
        call = plugin.pre_bind_pre_flight
        answer = call_plugin("PreBindPreFlight", plugin.name, call, state, pod, node_name)
        allows_parallel, status = _pre_flight(answer)
        if allows_parallel:
            parallel.add(plugin.name)
        if isinstance(status, Status) and status.is_skip:
            skipped.add(plugin.name)
        elif status is not None and not (isinstance(status, Status) and status.is_success):
            return _pre_flight_failed(plugin.name, status, log, pod, node_name)
    state.skip_pre_bind_plugins = frozenset(skipped)
    state.parallel_pre_bind_plugins = frozenset(parallel)
    return SKIP if len(skipped) == len(plugins) else None


async def pre_bind(
    plugins: Plugins,
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    parallelizer: Parallelizer | None,
    log: Logger,
) -> Status | None:
    """Run the PreBind plugins that have work, in order; in parallel where they allow it."""
    for group in _groups(plugins, state):
        calls = (_pre_bind_status(plugin, state, pod, node_name) for plugin in group)
        running = _run_in_order(calls) if parallelizer is None else parallelizer.run(list(calls))
        failure = await running
        if failure is not None:
            index, status = failure
            return _failed("PreBind", group[index].name, status, log, pod, node_name)
    return None


async def _run_in_order(calls: Iterable[Call]) -> tuple[int, Status] | None:
    for index, call in enumerate(calls):
        status = await call
        if status is not None:
            return index, status
    return None


async def bind(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> Status:
    """Run the Bind plugins until one does not skip."""
    skipped = SKIP
    for plugin in plugins:
        answer = await awaited("Bind", plugin.name, plugin.bind, state, pod, node_name)
        status = as_status(answer, "bind")
        if status is None or status.is_success:
            return SUCCESS
        if not status.is_skip:
            return _failed("Bind", plugin.name, status, log, pod, node_name)
        skipped = status
    return skipped


async def post_bind(
    plugins: Plugins, state: CycleState, pod: PodInfo, node_name: str, log: Logger
) -> None:
    """Run the PostBind plugins; failures are only logged."""
    for plugin in plugins:
        answer = await awaited("PostBind", plugin.name, plugin.post_bind, state, pod, node_name)
        _log_if_failed(log, "PostBind", plugin.name, answer, pod)


async def _pre_bind_status(
    plugin: Any, state: CycleState, pod: PodInfo, node_name: str
) -> Status | None:
    answer = await awaited("PreBind", plugin.name, plugin.pre_bind, state, pod, node_name)
    status = as_status(answer, "pre_bind")
    return None if status is None or status.is_success else status


def _groups(plugins: Sequence[Any], state: CycleState) -> list[list[Any]]:
    """Return the plugins that have work, in groups that may run in parallel."""
    # Parity: runtime/framework.go getPreBindPluginGroups, v1.36: a plugin that must run alone
    # separates its neighbours, even if it has no work itself.
    groups: list[list[Any]] = []
    group: list[Any] = []
    for plugin in plugins:
        has_work = plugin.name not in state.skip_pre_bind_plugins
        if plugin.name in state.parallel_pre_bind_plugins:
            group += [plugin] if has_work else []
            continue
        groups += [group, [plugin] if has_work else []]
        group = []
    return list(filter(None, (*groups, group)))


async def awaited(
    point: str, plugin: str, call: Callable[..., Any], state: CycleState, *rest: Any
) -> Any:
    """Call a plugin that may await, timed if this attempt is; never raises."""
    if state.plugin_times is None:
        return await _guarded_await(call, state, *rest)
    return await state.plugin_times.wait(point, plugin, _guarded_await(call, state, *rest))


async def _guarded_await(call: Callable[..., Any], *arguments: Any) -> Any:
    answer = guarded(call, *arguments)
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await answer
    except Exception as problem:  # noqa: BLE001 - a fault of a plugin ends its call only
        return status_of(problem)


def _pre_flight(answer: object) -> tuple[bool, object]:
    """Return whether a PreBind plugin may run in parallel, and its status."""
    result, verdict = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, answer)
    if isinstance(result, PreBindPreFlightResult):
        return result.allow_parallel, None if verdict is result else verdict
    return False, verdict


def _pre_flight_failed(
    plugin: str, answer: object, log: Logger, pod: PodInfo, node_name: str
) -> Status:
    if isinstance(answer, Status) and answer.code is Code.ERROR:
        log.error("Plugin failed", err=answer.message, plugin=plugin, pod=_ref(pod), node=node_name)
        return error(f'running PreBindPreFlight "{plugin}": {answer.message}').by(plugin)
    got = answer.code.wire_name if isinstance(answer, Status) else type(answer).__name__
    return error(
        f'PreBindPreFlight {plugin} returned "{got}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    ).by(plugin)


def _failed(
    point: str, plugin: str, status: Status, log: Logger, pod: PodInfo, node_name: str = ""
) -> Status:
    """Log a status that ends the attempt; return a rejection as it is, all else as an error."""
    # Upstream's messages differ from point to point.
    node = {"node": node_name} if node_name else {}
    if status.is_rejected:
        text = f"Pod rejected by {point + ' ' if node else ''}plugin"
        log.info(text, level=4, pod=_ref(pod), **node, plugin=plugin, status=status.message)
        return status.by(plugin)
    text = "Plugin Failed" if point == "Bind" else "Plugin failed"
    log.error(text, err=status.message, plugin=plugin, pod=_ref(pod), **node)
    return error(f'running {point} plugin "{plugin}": {status.message}').by(plugin)


def _log_if_failed(log: Logger, point: str, plugin: str, answer: object, pod: PodInfo) -> None:
    """Log a failure of a plugin whose status is not used."""
    if isinstance(answer, Status) and not answer.is_success:
        text = answer.message
        log.error("Plugin failed", err=text, plugin=plugin, extensionPoint=point, pod=_ref(pod))


def _ref(pod: PodInfo) -> Ref:
    return Ref(pod.namespace, pod.name)
