"""The verbs of an extender: a request's body in, the answer's out.

Owns what is answered when something goes wrong, the line in the log and the count, one for each
call. What nodes are refused and how they are scored is the service's. Never reads a socket.
Upstream: pkg/scheduler/extender.go send (the other end)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.app.extender_binding import ExtenderBinder
from kubesched.app.extender_preemption import preempt
from kubesched.app.extender_service import ExtenderService, PodsUnknownError, ServiceError
from kubesched.extender.host_priorities import HostPriorities
from kubesched.extender.wire import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    WireError,
    decode_args,
    decode_binding_args,
    decode_preemption_args,
    encode,
)
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.extender_metrics import ExtenderMetrics
from kubesched.objects.errors import MalformedObject

FILTER: Final = "filter"
PRIORITIZE: Final = "prioritize"
PREEMPT: Final = "preempt"
BIND: Final = "bind"
# Published examples call it by either name.
VERBS: Final = {
    "filter": FILTER,
    "prioritize": PRIORITIZE,
    "priority": PRIORITIZE,
    "preempt": PREEMPT,
    "bind": BIND,
}
"""The verbs by the last part of a path."""
_NO_BIND: Final = "bind is off: start the extender with --bind"
_WANTS_PODS: Final = "wants pods"
_BAD: Final = (WireError, MalformedObject)


class Said(NamedTuple):
    """An answer, and what the log says of it."""

    body: bytes
    fields: dict[str, object]
    code: int = 200
    problem: str = ""
    result: str = "ok"


AtOnce: TypeAlias = Callable[[bytes], Said]


class ExtenderVerbs:
    """Answers calls."""

    def __init__(
        self,
        service: ExtenderService,
        binder: ExtenderBinder | None,
        *,
        metrics: ExtenderMetrics,
        clock: Clock,
        log: Log,
    ) -> None:
        """Answer by a service; binding is refused without a binder."""
        self._service = service
        self._binder = binder
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._priorities = HostPriorities(service.max_score)
        self._at_once: dict[str, AtOnce] = {
            FILTER: self._filter,
            PRIORITIZE: self._prioritize,
            PREEMPT: self._preempt,
        }
        durations, nodes = metrics.call_duration_seconds, metrics.nodes_total
        self._took = {verb: durations.labels(verb) for verb in (*self._at_once, BIND)}
        self._answered = {verb: metrics.calls_total.labels(verb, "ok") for verb in self._took}
        self._kept = nodes.labels(FILTER, "kept")
        self._refused = nodes.labels(FILTER, "refused")
        self._scored = nodes.labels(PRIORITIZE, "scored")

    def call(self, verb: str, body: bytes) -> Said | Awaitable[Said]:
        """Answer a verb other than bind; whatever happens, there is an answer, a line and a count.

        Nothing is waited for, but for pods at the first call for which a plugin looks at them: the
        cluster does not change while plugins look at it.
        """
        start_s = self._clock.monotonic_s()
        said = self._at_once[verb](body)
        if said.result == _WANTS_PODS:
            return self._call_with_pods(verb, body, said, start_s)
        return self._noted(verb, said, start_s)

    async def _call_with_pods(self, verb: str, body: bytes, said: Said, start_s: float) -> Said:
        if await self._service.world.learn_pods():
            return self._noted(verb, self._at_once[verb](body), start_s)
        return self._noted(verb, said._replace(result="error"), start_s)

    async def bind(self, body: bytes) -> Said:
        """Answer `bind`, with a line and a count as above."""
        start_s = self._clock.monotonic_s()
        return self._noted(BIND, await self._bind(body), start_s)

    def _noted(self, verb: str, said: Said, start_s: float) -> Said:
        took_s = self._clock.monotonic_s() - start_s
        self._took[verb].observe(took_s)
        fields: dict[str, Any] = said.fields
        if said.result == "ok":
            self._answered[verb].inc()
            self._log.info("Extender call", verb=verb, **fields, took=_shown(took_s))
        else:
            self._metrics.calls_total.labels(verb, said.result).inc()
            self._log.error(
                "Extender call failed", err=said.problem, verb=verb, **fields, took=_shown(took_s)
            )
        return said

    def refused(self, verb: str, why: str, **fields: object) -> None:
        """Take note of a request that leads to no verb."""
        self._metrics.calls_total.labels(verb, "refused").inc()
        self._log.error("Extender call refused", err=why, **fields)

    # -- verbs ------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> Said:
        try:
            done = self._service.filter(decode_args(body), body)
        except (*_BAD, ServiceError) as problem:
            return _failed(problem, encode(ExtenderFilterResult(error=_text(problem))))
        self._kept.inc(done.kept)
        self._refused.inc(done.asked - done.kept)
        pod = Ref(done.pod.namespace, done.pod.name)
        return Said(encode(done.result), {"pod": pod, "nodes": done.asked, "kept": done.kept})

    def _prioritize(self, body: bytes) -> Said:
        try:
            done = self._service.prioritize_next(body)
            if done is None:
                done = self._service.prioritize(decode_args(body))
        except _BAD as problem:
            return _failed(problem, b"[]")
        except ServiceError as problem:
            # There is no other way to say it: the list has no place for an error.
            return _failed(problem, f"{problem}\n".encode(), 500)
        self._scored.inc(len(done.hosts))
        pod = Ref(done.pod.namespace, done.pod.name)
        fields = {"pod": pod, "nodes": done.asked, "best": Ref("", done.best)}
        answer = self._priorities.encode(done.hosts, done.rows, done.scores, done.state)
        return Said(answer, fields)

    def _preempt(self, body: bytes) -> Said:
        try:
            done = preempt(self._service, decode_preemption_args(body))
        except _BAD as problem:
            return _failed(problem, f"{_text(problem)}\n".encode(), 400)
        except ServiceError as problem:
            return _failed(problem, f"{problem}\n".encode(), 500)
        pod, kept = Ref(done.pod.namespace, done.pod.name), done.result.node_name_to_meta_victims
        fields: dict[str, object] = {"pod": pod, "nodes": done.asked, "kept": len(kept or ())}
        return Said(encode(done.result), fields)

    async def _bind(self, body: bytes) -> Said:
        try:
            args = decode_binding_args(body)
        except WireError as problem:
            return _failed(problem, encode(ExtenderBindingResult(error=_text(problem))))
        pod = Ref(args.pod_namespace, args.pod_name)
        fields: dict[str, object] = {"pod": pod, "node": Ref("", args.node)}
        try:
            if self._binder is None:
                raise ServiceError(_NO_BIND)  # Told as all others are.
            await self._binder.bind(args)
        except (ServiceError, MalformedObject) as problem:
            answer = encode(ExtenderBindingResult(error=str(problem)))
            return Said(answer, fields, 200, str(problem), "error")
        return Said(encode(ExtenderBindingResult()), fields)


def _failed(problem: Exception, body: bytes, code: int = 200) -> Said:
    result = "error" if isinstance(problem, ServiceError) else "undecodable"
    if isinstance(problem, PodsUnknownError):
        result = _WANTS_PODS
    return Said(body, {}, code, _text(problem), result)


def _text(problem: Exception) -> str:
    if isinstance(problem, ServiceError):
        return str(problem)
    return f"the request cannot be decoded: {problem}"


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.2f}ms"
