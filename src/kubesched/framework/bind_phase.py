"""Reserve, permit, pre-bind, bind, post-bind.

Owns their order and what a failure of each means. Waiting itself is the caller's: a plugin's
awaitable is awaited here, nothing else; who can run things side by side is handed in.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from kubesched.framework.adapt import as_status, asked, guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Logger
from kubesched.framework.interface import PreBindPreFlightResult
from kubesched.framework.status import SKIP, SUCCESS, Code, Status, StatusError, error
from kubesched.kit.log import NullLog, Ref
from kubesched.model.pod_info import PodInfo

PERMIT_WAIT_S_MAX = 15 * 60.0
WAITING = "one or more plugins asked to wait and no plugin rejected pod"

_SILENT: Logger = NullLog()

Call: TypeAlias = "Coroutine[Any, Any, Status | None]"


@dataclass(frozen=True, slots=True)
class PermitOutcome:
    """What permit came to: a refusal, or who wants to wait for how long."""

    status: Status = SUCCESS
    wait_s: dict[str, float] = field(default_factory=dict)


class SideBySide(Protocol):
    """Runs the pre-bind of several plugins together."""

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        """Return the place of the call that failed first, and how; None if none did.

        The first failure ends the other calls. None of them runs any more afterwards.
        """
        ...


class _OneAfterTheOther:
    """Runs calls in their order, for who has nothing to run them together."""

    async def run(self, calls: Sequence[Call]) -> tuple[int, Status] | None:
        failed: tuple[int, Status] | None = None
        for place, call in enumerate(calls):
            if failed is not None:
                call.close()
                continue
            status = await call
            failed = None if status is None else (place, status)
        return failed


def reserve(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> Status | None:
    """Reserve in order; the first failure ends it."""
    for plugin in plugins:
        answer = asked("Reserve", plugin.name, plugin.reserve, state, pod, node_name)
        if answer is None:
            continue
        status = as_status(answer, "reserve")
        if status is not None and not status.is_success:
            return _Failure("Reserve", plugin.name, status).said(log, pod)
    return None


def unreserve(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> None:
    """Give back in reverse order, also what was never reserved."""
    for plugin in reversed(plugins):
        if hasattr(plugin, "unreserve"):
            answer = asked("Unreserve", plugin.name, plugin.unreserve, state, pod, node_name)
            _say_if_failed(log, "Unreserve", plugin.name, answer, pod)


async def permit(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> PermitOutcome:
    """Ask every plugin; the first refusal ends it, waits are collected."""
    # Parity: runtime/framework.go RunPermitPlugins, v1.36: the last to ask for a wait is heard.
    waits: dict[str, float] = {}
    waiting: Status | None = None
    for plugin in plugins:
        answer = await awaited("Permit", plugin.name, plugin.permit, state, pod, node_name)
        status, timeout_s = _permission(answer)
        if status is None or status.is_success:
            continue
        if status.code is not Code.WAIT:
            return PermitOutcome(_Failure("Permit", plugin.name, status).said(log, pod))
        waits[plugin.name] = min(timeout_s, PERMIT_WAIT_S_MAX)
        waiting = status
    if waiting is not None:
        text = "One or more plugins asked to wait and no plugin rejected pod"
        log.info(text, level=4, pod=_ref(pod))
        return PermitOutcome(Status(Code.WAIT, (*waiting.reasons, WAITING)), waits)
    return PermitOutcome()


def _permission(answer: object) -> tuple[Status | None, float]:
    """Return a permit plugin's verdict, and how long it waits at most."""
    said, wait_s = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, 0.0)
    status = as_status(said, "permit")
    if isinstance(wait_s, (int, float)):
        return status, wait_s
    return error(f"permit() waits for a {type(wait_s).__name__}, expected seconds"), 0.0


def permit_result(status: Status, pod: PodInfo | None = None, log: Logger = _SILENT) -> Status:
    """Return what the end of a wait means for the attempt, and log it if the pod is given."""
    # Parity: runtime/framework.go WaitOnPermit, v1.36.
    if status.is_success:
        return SUCCESS
    ref = None if pod is None else _ref(pod)
    if status.is_rejected:
        if ref is not None:
            text = "Pod rejected while waiting on permit"
            log.info(text, level=4, pod=ref, status=status.message)
        return status
    if ref is not None:
        log.error("Failed waiting on permit for pod", err=status.message, pod=ref)
    return error(f"waiting on permit for pod: {status.message}").by(status.plugin)


def pre_flight(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> Status | None:
    """Find out who has work (skip if nobody has) and who may run beside others.

    Both are kept in the state, for `pre_bind`.
    """
    # Parity: runtime/framework.go RunPreBindPreFlights, v1.36.
    skipped: set[str] = set()
    parallel: set[str] = set()
    for plugin in plugins:
        if not hasattr(plugin, "pre_bind_pre_flight"):
            continue
        call = plugin.pre_bind_pre_flight
        answer = asked("PreBindPreFlight", plugin.name, call, state, pod, node_name)
        allows_parallel, status = _flight(answer)
        if allows_parallel:
            parallel.add(plugin.name)
        if isinstance(status, Status) and status.is_skip:
            skipped.add(plugin.name)
        elif status is not None and not (isinstance(status, Status) and status.is_success):
            return _pre_flight_failure(plugin.name, status, pod, node_name, log)
    state.skip_pre_bind_plugins = frozenset(skipped)
    state.parallel_pre_bind_plugins = frozenset(parallel)
    return SKIP if len(skipped) == len(plugins) else None


async def pre_bind(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    side_by_side: SideBySide | None = None,
    log: Logger = _SILENT,
) -> Status | None:
    """Run the plugins that have work, in order; neighbours that allow it together."""
    runner = side_by_side or _OneAfterTheOther()
    for group in _groups(plugins, state):
        failed = await runner.run([_pre_bound(plugin, state, pod, node_name) for plugin in group])
        if failed is not None:
            place, status = failed
            return _Failure("PreBind", group[place].name, status).said(log, pod, node_name)
    return None


async def bind(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> Status:
    """Have the first plugin that does not skip write the binding."""
    skipped = SKIP
    for plugin in plugins:
        answer = await awaited("Bind", plugin.name, plugin.bind, state, pod, node_name)
        status = as_status(answer, "bind")
        if status is None or status.is_success:
            return SUCCESS
        if not status.is_skip:
            return _Failure("Bind", plugin.name, status).said(log, pod, node_name)
        skipped = status
    return skipped


async def post_bind(
    plugins: Sequence[Any],
    state: CycleState,
    pod: PodInfo,
    node_name: str,
    log: Logger = _SILENT,
) -> None:
    """Tell every plugin; the pod is bound, whatever they do."""
    for plugin in plugins:
        answer = await awaited("PostBind", plugin.name, plugin.post_bind, state, pod, node_name)
        _say_if_failed(log, "PostBind", plugin.name, answer, pod)


async def _pre_bound(plugin: Any, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
    answer = await awaited("PreBind", plugin.name, plugin.pre_bind, state, pod, node_name)
    status = as_status(answer, "pre_bind")
    return None if status is None or status.is_success else status


def _groups(plugins: Sequence[Any], state: CycleState) -> list[list[Any]]:
    """Return the plugins that have work, those together that may run side by side."""
    # Parity: runtime/framework.go getPreBindPluginGroups, v1.36: one that must run alone parts its
    # neighbours, even if it has no work itself.
    groups: list[list[Any]] = []
    together: list[Any] = []
    for plugin in plugins:
        has_work = plugin.name not in state.skip_pre_bind_plugins
        if plugin.name in state.parallel_pre_bind_plugins:
            together += [plugin] if has_work else []
            continue
        groups += [together, [plugin] if has_work else []]
        together = []
    return [group for group in (*groups, together) if group]


async def awaited(
    point: str, plugin: str, call: Callable[..., Any], state: CycleState, *rest: Any
) -> Any:
    """Call a plugin that may wait, measured if this attempt's plugins are; it never raises."""
    if state.plugin_times is None:
        return await _answered(call, state, *rest)
    return await state.plugin_times.wait(point, plugin, _answered(call, state, *rest))


async def _answered(call: Callable[..., Any], *arguments: Any) -> Any:
    answer = guarded(call, *arguments)
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await answer
    except StatusError as problem:
        return problem.status
    except Exception as problem:  # noqa: BLE001 - any fault of a plugin ends its call only
        return error(f"{type(problem).__name__}: {problem}")


def _flight(answer: object) -> tuple[bool, object]:
    """Return whether a plugin's pre-bind may run beside others, and its verdict."""
    result, verdict = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, answer)
    if isinstance(result, PreBindPreFlightResult):
        return result.allow_parallel, None if verdict is result else verdict
    return False, verdict


def _pre_flight_failure(
    plugin: str, answer: object, pod: PodInfo, node_name: str, log: Logger
) -> Status:
    if isinstance(answer, Status) and answer.code is Code.ERROR:
        log.error("Plugin failed", err=answer.message, plugin=plugin, pod=_ref(pod), node=node_name)
        return error(f'running PreBindPreFlight "{plugin}": {answer.message}').by(plugin)
    got = answer.code.wire_name if isinstance(answer, Status) else type(answer).__name__
    return error(
        f'PreBindPreFlight {plugin} returned "{got}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    ).by(plugin)


# Upstream's words for the same two things differ from point to point.
_REJECTED = {
    "PreBind": "Pod rejected by PreBind plugin",
    "Bind": "Pod rejected by Bind plugin",
}
_FAILED = {"Bind": "Plugin Failed"}


@dataclass(frozen=True, slots=True)
class _Failure:
    """A plugin's answer that ends the attempt."""

    point: str
    plugin: str
    status: Status

    def said(self, log: Logger, pod: PodInfo, node_name: str = "") -> Status:
        """Log it; return a refusal under its plugin's name, anything else as an error."""
        status, plugin = self.status, self.plugin
        fields: dict[str, object] = {"node": node_name} if node_name else {}
        if status.is_rejected:
            text = _REJECTED.get(self.point, "Pod rejected by plugin")
            fields |= {"plugin": plugin, "status": status.message}
            log.info(text, level=4, pod=_ref(pod), **fields)
            return status.by(plugin)
        text = _FAILED.get(self.point, "Plugin failed")
        log.error(text, err=status.message, plugin=plugin, pod=_ref(pod), **fields)
        return error(f'running {self.point} plugin "{plugin}": {status.message}').by(plugin)


def _say_if_failed(log: Logger, point: str, plugin: str, answer: object, pod: PodInfo) -> None:
    """Log that a plugin raised where nobody waits for its verdict."""
    if isinstance(answer, Status) and not answer.is_success:
        text = answer.message
        log.error("Plugin failed", err=text, plugin=plugin, extensionPoint=point, pod=_ref(pod))


def _ref(pod: PodInfo) -> Ref:
    return Ref(pod.namespace, pod.name)
