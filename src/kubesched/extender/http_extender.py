"""One extender as the scheduler sees it: what it is asked about, and how.

Owns which verb is posted with what, and what an answer means. Never decides in which order
extenders are asked, nor what becomes of the attempt: whoever asks does.
Upstream: pkg/scheduler/extender.go, pkg/scheduler/scheduler.go buildExtenders
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Raw

from kubesched.columns.view import ClusterView
from kubesched.config.types import Extender
from kubesched.extender import wire
from kubesched.extender.errors import ExtenderError
from kubesched.extender.transport import ExtenderTransport
from kubesched.extender.victims import preemption_args, victims_of
from kubesched.framework.interface import Victims
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.kit.urls import without_password
from kubesched.model.pod_info import PodInfo
from kubesched.objects.pod import Container

ResultT = TypeVar("ResultT")

__all__ = ["ExtenderError", "HTTPExtender", "build"]


class HTTPExtender:
    """An HTTP service that takes part in decisions."""

    def __init__(
        self, config: Extender, *, clock: Clock | None = None, log: Log | None = None
    ) -> None:
        self._config = config
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._transport = ExtenderTransport(config, clock or SystemClock())
        self._log = log or NullLog()

    def __repr__(self) -> str:
        return f"<HTTPExtender {self.name}>"

    # -- what it is for ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Return the address that its verbs are under, which it is known by."""
        return without_password(self._config.url_prefix)

    @property
    def config(self) -> Extender:
        """Return what was configured."""
        return self._config

    @property
    def weight(self) -> int:
        """Return what its scores are multiplied by."""
        return self._config.weight

    @property
    def is_ignorable(self) -> bool:
        """Return whether scheduling goes on without it when it fails."""
        return self._config.ignorable

    @property
    def is_filter(self) -> bool:
        """Return whether it is asked which nodes fit."""
        return bool(self._config.filter_verb)

    @property
    def is_prioritizer(self) -> bool:
        """Return whether it is asked what nodes are worth."""
        return bool(self._config.prioritize_verb)

    @property
    def is_binder(self) -> bool:
        """Return whether it binds pods."""
        return bool(self._config.bind_verb)

    @property
    def supports_preemption(self) -> bool:
        """Return whether it is asked who may be evicted."""
        return bool(self._config.preempt_verb)

    @property
    def node_cache_capable(self) -> bool:
        """Return whether it knows the nodes, so that names are enough."""
        return self._config.node_cache_capable

    @property
    def needs_whole_pods(self) -> bool:
        """Return whether bound pods have to be kept whole, to be shown to it."""
        return self.supports_preemption and not self.node_cache_capable

    def is_interested(self, pod: PodInfo) -> bool:
        """Return whether it has a say in a pod: one that names a resource it manages."""
        # Parity: extender.go IsInterested, v1.36: how much is asked for does not matter.
        if not self._managed:
            return True
        spec = pod.spec
        return self._manages(spec.containers or ()) or self._manages(spec.init_containers or ())

    def _manages(self, containers: Iterable[Container]) -> bool:
        return any(
            not self._managed.isdisjoint(named)
            for container in containers
            if container.resources is not None
            for named in (container.resources.requests or {}, container.resources.limits or {})
        )

    # -- asking -----------------------------------------------------------------------------------

    async def filter(
        self,
        pod: Raw,
        *,
        node_names: Sequence[str] | None = None,
        nodes: Sequence[Raw] | None = None,
    ) -> wire.ExtenderFilterResult:
        """Ask which nodes fit; ExtenderError also if it says that it failed."""
        body = _args(pod, node_names, nodes)
        result = await self._post(self._config.filter_verb, body, wire.decode_filter_result)
        if result.error:
            raise ExtenderError(result.error)
        return result

    async def prioritize(
        self,
        pod: Raw,
        *,
        node_names: Sequence[str] | None = None,
        nodes: Sequence[Raw] | None = None,
    ) -> list[wire.HostPriority]:
        """Ask what nodes are worth."""
        body = _args(pod, node_names, nodes)
        return await self._post(self._config.prioritize_verb, body, wire.decode_host_priorities)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Have a pod bound; ExtenderError if it was not."""
        args = wire.ExtenderBindingArgs(
            pod_name=pod.name, pod_namespace=pod.namespace, pod_uid=pod.uid, node=node_name
        )
        body = wire.encode(args)
        result = await self._post(self._config.bind_verb, body, wire.decode_binding_result)
        if result.error:
            raise ExtenderError(result.error)

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], view: ClusterView
    ) -> dict[str, Victims]:
        """Ask which nodes may be freed, and of whom; a node may come back without victims."""
        body = wire.encode(preemption_args(pod, victims, by_name=self.node_cache_capable))
        result = await self._post(self._config.preempt_verb, body, wire.decode_preemption_result)
        return victims_of(result, view, self.name)

    async def close(self) -> None:
        """Close all connections to it."""
        await self._transport.close()

    async def _post(self, verb: str, body: bytes, decode: Callable[[bytes], ResultT]) -> ResultT:
        try:
            return await self._transport.post(verb, body, decode)
        except ExtenderError as problem:
            self._log.info(
                "Extender call failed", level=5, extender=self.name, verb=verb, err=str(problem)
            )
            raise


def build(
    configs: Iterable[Extender], *, clock: Clock | None = None, log: Log | None = None
) -> tuple[HTTPExtender, ...]:
    """Return the extenders in the order in which they are asked: those that matter first."""
    # Parity: scheduler.go buildExtenders, v1.36.
    made: list[HTTPExtender] = []
    for config in configs:
        extender = HTTPExtender(config, clock=clock, log=log)
        if log is not None:
            log.info("Creating extender", level=2, extender=extender.name)
        made.append(extender)
    return tuple(sorted(made, key=lambda extender: extender.is_ignorable))


def _args(pod: Raw, node_names: Sequence[str] | None, nodes: Sequence[Raw] | None) -> bytes:
    return wire.encode(
        wire.ExtenderArgs(
            pod=pod,
            nodes=None if nodes is None else wire.NodeList(items=list(nodes)),
            node_names=None if node_names is None else list(node_names),
        )
    )
