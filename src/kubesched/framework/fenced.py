"""A plugin of outside as the framework sees it: behind a fence.

Owns the standing in for a user's object: every method that the framework calls is timed and what it
answers is checked, all else is the object's own. What is handed to it cannot be written. Filters
and scores for one node stay as they are: their adapters ask about many nodes at once, and do so
through the fence.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from kubesched.framework.answers import CHECKS
from kubesched.framework.fence import Budgets, Fence, Guard
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN, EventRegistration
from kubesched.framework.sealed import sealed
from kubesched.framework.status import Status, StatusError


class _Method(NamedTuple):
    """How a method is called."""

    point: str
    """As metrics spell it."""
    ends: bool = True
    """Whether the attempt fails if it took too long; not where the deed is done by then."""


_METHODS: Final = {
    "pre_enqueue": _Method("PreEnqueue"),
    "less": _Method("QueueSort", ends=False),
    "sort_key": _Method("QueueSort", ends=False),
    "pre_filter": _Method("PreFilter"),
    "add_pod": _Method("PreFilterExtensionAddPod"),
    "add_pods": _Method("PreFilterExtensionAddPod"),
    "remove_pod": _Method("PreFilterExtensionRemovePod"),
    "remove_pods": _Method("PreFilterExtensionRemovePod"),
    "filter_nodes": _Method("Filter"),
    "post_filter": _Method("PostFilter"),
    "pre_score": _Method("PreScore"),
    "score_nodes": _Method("Score"),
    "normalize_scores": _Method("ScoreExtensionNormalize"),
    "reserve": _Method("Reserve"),
    "unreserve": _Method("Unreserve", ends=False),
    "permit": _Method("Permit"),
    "pre_bind_pre_flight": _Method("PreBindPreFlight"),
    "pre_bind": _Method("PreBind"),
    "bind": _Method("Bind", ends=False),
    "post_bind": _Method("PostBind", ends=False),
    "sign_pod": _Method("SignPod"),
    "reads": _Method("Reads"),
    "generate_placements": _Method("PlacementGenerate"),
    "score_placement": _Method("PlacementScore"),
}
_MAY_WAIT: Final = frozenset(("permit", "pre_bind", "bind", "post_bind"))


class FencedPlugin:
    """A user's plugin behind its fence."""

    def __init__(self, inner: Any, fence: Fence) -> None:
        self.inner = inner
        """The user's object."""
        self.name: str = inner.name
        self.kubesched_fence = fence
        for method in _METHODS:
            if callable(getattr(inner, method, None)):
                setattr(self, method, self._fenced(method))
        if callable(getattr(inner, "fragment", None)):
            self.fragment = self._fragment
        if callable(getattr(inner, "events_to_register", None)):
            self.events_to_register = self._events_to_register

    def __getattr__(self, name: str) -> Any:
        """Return what is the plugin's own."""
        if name == "inner":  # Asked for before it is there, as by whoever copies objects.
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{self.name} behind a fence: {self.inner!r}>"

    def _fenced(self, method: str) -> Callable[..., Any]:
        call, fence = getattr(self.inner, method), self.kubesched_fence
        point, ends = _METHODS[method]
        check = CHECKS.get(method)

        def checked(answer: Any, arguments: Sequence[Any]) -> Any:
            wrong = None if check is None else check(method, answer, arguments)
            if wrong is not None:
                raise fence.nonsense(point, wrong, arguments)
            return answer

        def ask(*arguments: Any) -> Any:
            arguments = tuple([sealed(one) for one in arguments])
            answer = fence.ask(point, method, call, *arguments, ends=ends)
            if method in _MAY_WAIT and inspect.isawaitable(answer):
                steps = _Steps(fence, method, answer)
                return _then(steps, lambda said: checked(said, arguments))
            return checked(answer, arguments)

        if method in ("score_nodes", "normalize_scores"):
            return self._noting_range(method, ask)
        return ask

    def _noting_range(self, method: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Have scores out of range counted; the score phase refuses them in upstream's words."""
        is_last = method == "normalize_scores" or not hasattr(self.inner, "normalize_scores")
        fence, point = self.kubesched_fence, _METHODS[method].point

        def ask_and_note(*arguments: Any) -> Any:
            answer = ask(*arguments)
            if is_last and not isinstance(answer, Status):
                scores = np.asarray(answer)
                if ((scores > NODE_SCORE_MAX) | (scores < NODE_SCORE_MIN)).any():
                    fence.count_out_of_range(point, arguments[0])
            return answer

        return ask_and_note

    def _fragment(self, pod: Any) -> Any:
        """Return what verdicts are shared by; nothing that any other pod has, if that fails."""
        fence = self.kubesched_fence
        try:
            found = fence.ask("Fragment", "fragment", self.inner.fragment, sealed(pod))
            wrong = CHECKS["fragment"]("fragment", found, ())
            if wrong is not None:
                raise fence.nonsense("Fragment", wrong)
        except Exception as problem:  # noqa: BLE001 - without it the plugin works, only slower
            fence.say("Fragment", f"{type(problem).__name__}: {problem}")
            return object()
        return found

    def _events_to_register(self) -> Sequence[EventRegistration]:
        """Return the plugin's registrations, their hints behind the fence."""
        return [
            replace(one, hint=self._hint(one.hint), reads=self._hint(one.reads))
            if isinstance(one, EventRegistration)
            else one
            for one in self.inner.events_to_register() or ()
        ]

    def _hint(self, hint: Any) -> Any:
        """Return a function behind the fence, anything else as it is."""
        if not callable(hint):
            return hint
        fence = self.kubesched_fence

        def ask(*told: Any) -> Any:
            return fence.ask("QueueingHint", "hint", hint, *map(sealed, told), ends=False)

        return ask


def fenced(guard: Guard, budgets: Budgets, profile: str, plugin: Any) -> FencedPlugin:
    """Return what stands for a plugin of outside; ValueError if its budget makes no sense."""
    return FencedPlugin(plugin, guard.fence(profile, plugin.name, budgets.of(plugin)))


class _Steps:
    """An awaitable of a plugin: what it does between two waits is behind the fence, waiting is not.

    A step that took too long ends it, as it would end a method that does not wait.
    """

    def __init__(self, fence: Fence, method: str, answer: Awaitable[Any]) -> None:
        self._fence = fence
        self._method = method
        self._answer = answer

    def __await__(self) -> Generator[Any, Any, Any]:
        """Take one step after the other."""
        steps = self._answer.__await__()
        step: Callable[..., Any] = steps.__next__
        arguments: tuple[Any, ...] = ()
        while True:
            is_done, said = self._step(steps, step, arguments)
            if is_done:
                return said
            try:
                sent = yield said
            except GeneratorExit:
                _close(steps)
                raise
            except BaseException as problem:  # noqa: BLE001 - it is the plugin's, who may catch it
                step, arguments = getattr(steps, "throw", _raise), (problem,)
            else:
                step = steps.__next__ if sent is None else steps.send
                arguments = () if sent is None else (sent,)

    def _step(
        self, steps: Any, step: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> tuple[bool, Any]:
        """Return whether it is done, and its answer or what it waits for."""
        point, ends = _METHODS[self._method]
        try:
            answer: tuple[bool, Any] = self._fence.ask(
                point, self._method, _stepped, step, *arguments, ends=ends
            )
        except StatusError:
            _close(steps)
            raise
        return answer


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
