"""The verbs of an extender: decode the request, run the verb, encode the response.

Owns error responses, and one log line and one count per call. Filtering and scoring are in service.
Never reads a socket.
Upstream: pkg/scheduler/extender.go send (the client)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kubesched.api.errors import MalformedObject
from kubesched.extender.server.binding import ExtenderBinder
from kubesched.extender.server.preemption import preempt
from kubesched.extender.server.prioritize_shortcuts import HostPriorities
from kubesched.extender.server.service import ExtenderService, PodsUnknownError, ServiceError
from kubesched.extender.wire import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    decode_args,
    decode_binding_args,
    decode_preemption_args,
    encode,
)
from kubesched.golang.json_unmarshal import WireError
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.metrics.extender import ExtenderMetrics
from kubesched.snapshot.pod_info import PodInfo

FILTER: Final = "filter"
PRIORITIZE: Final = "prioritize"
PREEMPT: Final = "preempt"
BIND: Final = "bind"
# Published examples use both names of prioritize.
VERBS: Final = {
    "filter": FILTER,
    "prioritize": PRIORITIZE,
    "priority": PRIORITIZE,
    "preempt": PREEMPT,
    "bind": BIND,
}
"""The verbs by the last segment of a path."""
_NO_BIND: Final = "bind is off: start the extender with --bind"
_NEEDS_PODS: Final = "needs pods"
_BAD: Final = (WireError, MalformedObject)


class VerbResult(NamedTuple):
    """The response of a verb, and the fields of its log line."""

    body: bytes
    fields: dict[str, object]
    code: int = 200
    problem: str = ""
    result: str = "ok"


class ExtenderVerbs:
    """Serves the verbs."""

    def __init__(
        self,
        service: ExtenderService,
        binder: ExtenderBinder | None,
        *,
        metrics: ExtenderMetrics,
        clock: Clock,
        log: Log,
    ) -> None:
        """Serve by a service; without a binder, bind returns an error."""
        self._service = service
        self._binder = binder
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._priorities = HostPriorities(service.max_score)
        self._sync_verbs: dict[str, Callable[[bytes], VerbResult]] = {
            FILTER: self._filter,
            PRIORITIZE: self._prioritize,
            PREEMPT: self._preempt,
        }
        durations, nodes = metrics.call_duration_seconds, metrics.nodes_total
        self._took = {verb: durations.labels(verb) for verb in (*self._sync_verbs, BIND)}
        self._succeeded = {verb: metrics.calls_total.labels(verb, "ok") for verb in self._took}
        self._kept = nodes.labels(FILTER, "kept")
        self._rejected = nodes.labels(FILTER, "rejected")
        self._scored = nodes.labels(PRIORITIZE, "scored")

    def call(self, verb: str, body: bytes) -> VerbResult | Awaitable[VerbResult]:
        """Run a verb; every call gets a response, a log line and a count.

        The result is awaitable only for bind, and for the first call for which a plugin reads pods.
        Otherwise nothing is awaited: the cluster state does not change during a call.
        """
        start_s = self._clock.monotonic_s()
        if verb == BIND:
            return self._call_bind(body, start_s)
        result = self._sync_verbs[verb](body)
        if result.result == _NEEDS_PODS:
            return self._call_with_pods(verb, body, result, start_s)
        return self._record(verb, result, start_s)

    async def _call_with_pods(
        self, verb: str, body: bytes, result: VerbResult, start_s: float
    ) -> VerbResult:
        if await self._service.cluster.learn_pods():
            return self._record(verb, self._sync_verbs[verb](body), start_s)
        return self._record(verb, result._replace(result="error"), start_s)

    async def _call_bind(self, body: bytes, start_s: float) -> VerbResult:
        return self._record(BIND, await self._bind(body), start_s)

    def _record(self, verb: str, result: VerbResult, start_s: float) -> VerbResult:
        took_s = self._clock.monotonic_s() - start_s
        self._took[verb].observe(took_s)
        fields: dict[str, Any] = {"verb": verb, **result.fields, "took": f"{took_s * 1000:.2f}ms"}
        if result.result == "ok":
            self._succeeded[verb].inc()
            self._log.info("Extender call", **fields)
        else:
            self._metrics.calls_total.labels(verb, result.result).inc()
            self._log.error("Extender call failed", err=result.problem, **fields)
        return result

    def count_rejection(self, verb: str, reason: str, **fields: object) -> None:
        """Log and count a request that reaches no verb."""
        self._metrics.calls_total.labels(verb, "rejected").inc()
        self._log.error("Extender call rejected", err=reason, **fields)

    # -- verbs ------------------------------------------------------------------------------------

    def _filter(self, body: bytes) -> VerbResult:
        try:
            outcome = self._service.filter(decode_args(body), body)
        except (*_BAD, ServiceError) as problem:
            return _failed(problem, encode(ExtenderFilterResult(error=_text(problem))))
        self._kept.inc(outcome.kept)
        self._rejected.inc(outcome.node_count - outcome.kept)
        fields = {"pod": _ref(outcome.pod), "nodes": outcome.node_count, "kept": outcome.kept}
        return VerbResult(encode(outcome.result), fields)

    def _prioritize(self, body: bytes) -> VerbResult:
        try:
            outcome = self._service.prioritize_next(body)
            if outcome is None:
                outcome = self._service.prioritize(decode_args(body))
        except _BAD as problem:
            return _failed(problem, b"[]")
        except ServiceError as problem:
            # The list has no field for an error.
            return _failed(problem, f"{problem}\n".encode(), 500)
        self._scored.inc(len(outcome.hosts))
        best = Ref("", outcome.best)
        fields = {"pod": _ref(outcome.pod), "nodes": outcome.node_count, "best": best}
        response = self._priorities.encode(
            outcome.hosts, outcome.rows, outcome.scores, outcome.state
        )
        return VerbResult(response, fields)

    def _preempt(self, body: bytes) -> VerbResult:
        try:
            outcome = preempt(self._service, decode_preemption_args(body))
        except _BAD as problem:
            return _failed(problem, f"{_text(problem)}\n".encode(), 400)
        except ServiceError as problem:
            return _failed(problem, f"{problem}\n".encode(), 500)
        kept = len(outcome.result.node_name_to_meta_victims or ())
        fields = {"pod": _ref(outcome.pod), "nodes": outcome.node_count, "kept": kept}
        return VerbResult(encode(outcome.result), fields)

    async def _bind(self, body: bytes) -> VerbResult:
        try:
            args = decode_binding_args(body)
        except WireError as problem:
            return _failed(problem, encode(ExtenderBindingResult(error=_text(problem))))
        pod = Ref(args.pod_namespace, args.pod_name)
        fields: dict[str, object] = {"pod": pod, "node": Ref("", args.node)}
        try:
            if self._binder is None:
                raise ServiceError(_NO_BIND)
            await self._binder.bind(args)
        except (ServiceError, MalformedObject) as problem:
            response = encode(ExtenderBindingResult(error=str(problem)))
            return VerbResult(response, fields, 200, str(problem), "error")
        return VerbResult(encode(ExtenderBindingResult()), fields)


def _failed(problem: Exception, body: bytes, code: int = 200) -> VerbResult:
    result = "error" if isinstance(problem, ServiceError) else "undecodable"
    if isinstance(problem, PodsUnknownError):
        result = _NEEDS_PODS
    return VerbResult(body, {}, code, _text(problem), result)


def _ref(pod: PodInfo) -> Ref:
    return Ref(pod.namespace, pod.name)


def _text(problem: Exception) -> str:
    if isinstance(problem, ServiceError):
        return str(problem)
    return f"the request cannot be decoded: {problem}"
