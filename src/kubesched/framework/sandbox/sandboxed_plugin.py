"""The proxy around an out-of-tree plugin: times its methods, checks results, protects arguments.

Every method that the framework calls runs in the sandbox, with read-only arguments; all other
attributes are those of the plugin. `filter` and `score`, which judge one node, are not wrapped:
their adapters call them for many nodes at once, inside the sandbox.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kubesched.framework.interface import EventRegistration
from kubesched.framework.runtime.adapters import has_out_of_range
from kubesched.framework.runtime.registry import MAY_BE_ASYNC
from kubesched.framework.sandbox import results
from kubesched.framework.sandbox.budget import Budgets, Guard, Sandbox
from kubesched.framework.sandbox.read_only import as_read_only
from kubesched.framework.status import Status, StatusError


class _Method(NamedTuple):
    """How the framework calls a method."""

    point: str
    """The extension point, as metrics name it."""
    check: results.Check | None = results.check_status
    fails_if_slow: bool = True
    """Not for calls whose effect has already happened."""


_METHODS: Final = {
    "pre_enqueue": _Method("PreEnqueue"),
    "less": _Method("QueueSort", None, fails_if_slow=False),
    "sort_key": _Method("QueueSort", None, fails_if_slow=False),
    "pre_filter": _Method("PreFilter", results.check_pre_filter),
    "add_pod": _Method("PreFilterExtensionAddPod"),
    "add_pods": _Method("PreFilterExtensionAddPod"),
    "remove_pod": _Method("PreFilterExtensionRemovePod"),
    "remove_pods": _Method("PreFilterExtensionRemovePod"),
    "filter_nodes": _Method("Filter", results.check_filter),
    "post_filter": _Method("PostFilter", results.check_post_filter),
    "pre_score": _Method("PreScore"),
    "score_nodes": _Method("Score", results.check_scores),
    "normalize_scores": _Method("ScoreExtensionNormalize", results.check_scores),
    "reserve": _Method("Reserve"),
    "unreserve": _Method("Unreserve", None, fails_if_slow=False),
    "permit": _Method("Permit", results.check_permit),
    "pre_bind_pre_flight": _Method("PreBindPreFlight", results.check_pre_flight),
    "pre_bind": _Method("PreBind"),
    "bind": _Method("Bind", fails_if_slow=False),
    "post_bind": _Method("PostBind", None, fails_if_slow=False),
    "reads": _Method("Reads", results.check_reads),
    "generate_placements": _Method("PlacementGenerate", None),
    "score_placement": _Method("PlacementScore", None),
}


class SandboxedPlugin:
    """An out-of-tree plugin in its sandbox."""

    def __init__(self, inner: Any, sandbox: Sandbox) -> None:
        self.inner = inner
        """The plugin object itself."""
        self.name: str = inner.name
        self.kubesched_sandbox = sandbox
        for method in _METHODS:
            if callable(getattr(inner, method, None)):
                setattr(self, method, self._sandboxed(method))
        if callable(getattr(inner, "events_to_register", None)):
            self.events_to_register = self._events_to_register

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the plugin."""
        if name == "inner":  # Read before it is set, for example by copy.copy.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{self.name} in a sandbox: {self.inner!r}>"

    def _sandboxed(self, method: str) -> Callable[..., Any]:
        run, sandbox = getattr(self.inner, method), self.kubesched_sandbox
        point, check, fails_if_slow = _METHODS[method]
        has_normalize = hasattr(self.inner, "normalize_scores")
        is_final_score = method == ("normalize_scores" if has_normalize else "score_nodes")

        def checked(result: Any, arguments: Sequence[Any]) -> Any:
            problem = None if check is None else check(method, result, arguments)
            if problem is not None:
                raise sandbox.invalid_result(point, problem, arguments)
            if is_final_score and not isinstance(result, Status) and has_out_of_range(result):
                sandbox.count_out_of_range(point, arguments[0])  # The score phase rejects them.
            return result

        def call(*arguments: Any) -> Any:
            arguments = tuple([as_read_only(argument) for argument in arguments])
            result = sandbox.call(point, method, run, *arguments, fails_if_slow=fails_if_slow)
            if method in MAY_BE_ASYNC and inspect.isawaitable(result):
                steps = _Steps(sandbox, method, result)
                return _then(steps, lambda awaited: checked(awaited, arguments))
            return checked(result, arguments)

        return call

    def _events_to_register(self) -> Sequence[EventRegistration]:
        """Return the plugin's registrations, with their hints in the sandbox."""
        return [
            replace(event, hint=self._hint(event.hint), reads=self._hint(event.reads))
            if isinstance(event, EventRegistration)
            else event
            for event in self.inner.events_to_register() or ()
        ]

    def _hint(self, hint: Any) -> Any:
        """Return a function that runs in the sandbox; anything else unchanged."""
        if not callable(hint):
            return hint
        sandbox = self.kubesched_sandbox

        def call(*arguments: Any) -> Any:
            protected = map(as_read_only, arguments)
            return sandbox.call("QueueingHint", "hint", hint, *protected, fails_if_slow=False)

        return call


def sandboxed(guard: Guard, budgets: Budgets, profile: str, plugin: Any) -> SandboxedPlugin:
    """Return an out-of-tree plugin in its sandbox; ValueError if its budget is invalid."""
    return SandboxedPlugin(plugin, guard.sandbox(profile, plugin.name, budgets.of(plugin)))


class _Steps:
    """An awaitable of a plugin: its steps between two awaits run in the sandbox.

    A step over the budget ends it, as it ends a method that does not await.
    """

    def __init__(self, sandbox: Sandbox, method: str, answer: Awaitable[Any]) -> None:
        self._sandbox = sandbox
        self._method = method
        self._answer = answer

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the steps in order."""
        steps = self._answer.__await__()
        step: Callable[..., Any] = steps.__next__
        arguments: tuple[Any, ...] = ()
        while True:
            is_done, value = self._step(steps, step, arguments)
            if is_done:
                return value
            try:
                sent = yield value
            except GeneratorExit:
                _close(steps)
                raise
            except BaseException as problem:  # noqa: BLE001 - the plugin may catch it
                step, arguments = getattr(steps, "throw", _raise), (problem,)
            else:
                step = steps.__next__ if sent is None else steps.send
                arguments = () if sent is None else (sent,)

    def _step(
        self, steps: Any, step: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[bool, Any]:
        """Return whether it is done, and its result or the value that it yields."""
        point, _, fails_if_slow = _METHODS[self._method]
        try:
            result: tuple[bool, Any] = self._sandbox.call(
                point, self._method, _stepped, step, *arguments, fails_if_slow=fails_if_slow
            )
        except StatusError:
            _close(steps)
            raise
        return result


def _stepped(step: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    try:
        return False, step(*arguments)
    except StopIteration as end:
        return True, end.value


async def _then(answer: Awaitable[Any], use: Callable[[Any], Any]) -> Any:
    return use(await answer)


def _raise(problem: BaseException) -> Any:
    raise problem


def _close(steps: Any) -> None:
    close = getattr(steps, "close", None)
    if close is not None:
        close()
