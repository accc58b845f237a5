"""Client of one extender: filter, prioritize, preempt and bind.

Owns the arguments and results of the verbs, and the JSON of pods, nodes and victims in them. Never
decides the order of extenders or the result of an attempt: extenders and schedule_pod do.
Upstream: pkg/scheduler/extender.go, pkg/scheduler/scheduler.go buildExtenders
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from kubesched.api.pod import Container
from kubesched.config.types import Extender
from kubesched.extender import wire
from kubesched.extender.client.transport import ExtenderTransport
from kubesched.framework.handle import ExtenderError
from kubesched.framework.interface import Victims
from kubesched.golang.strconv import go_quote
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.kit.urls import without_password
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView

ResultT = TypeVar("ResultT")

_NODE_HEAD: Final = b'{"kind":"Node","apiVersion":"v1",'
_TYPE_KEYS: Final = ("kind", "apiVersion")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
REACH_S_MAX: Final = 2.0
_PORTS: Final = {"http": 80, "https": 443}


class HTTPExtender:
    """An extender with its configuration and connections."""

    def __init__(
        self, config: Extender, *, clock: Clock | None = None, log: Log | None = None
    ) -> None:
        self.config = config
        self.name = without_password(config.url_prefix)
        """The URL prefix, which identifies it."""
        self.weight = config.weight
        """The factor of its scores."""
        self.is_ignorable = config.ignorable
        """Whether scheduling continues when it fails."""
        self.is_filter = bool(config.filter_verb)
        self.is_prioritizer = bool(config.prioritize_verb)
        self.is_binder = bool(config.bind_verb)
        self.supports_preemption = bool(config.preempt_verb)
        self.node_cache_capable = config.node_cache_capable
        """Whether it caches nodes, so that it is sent names only."""
        self.needs_whole_pods = self.supports_preemption and not self.node_cache_capable
        """Whether it needs the whole JSON of bound pods."""
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._transport = ExtenderTransport(config, clock or SystemClock())
        self._log = log or NullLog()

    def __repr__(self) -> str:
        return f"<HTTPExtender {self.name}>"

    def is_interested(self, pod: PodInfo) -> bool:
        """Return whether a pod names a resource that it manages."""
        # Parity: extender.go IsInterested, v1.36: the quantity does not matter.
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

    # -- verbs ------------------------------------------------------------------------------------

    async def filter(self, args: wire.ExtenderArgs) -> wire.ExtenderFilterResult:
        """Call the filter verb; ExtenderError also if the result has an error."""
        result = await self._post(self.config.filter_verb, args, wire.decode_filter_result)
        if result.error:
            raise ExtenderError(result.error)
        return result

    async def prioritize(self, args: wire.ExtenderArgs) -> list[wire.HostPriority]:
        """Call the prioritize verb."""
        return await self._post(self.config.prioritize_verb, args, wire.decode_host_priorities)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Call the bind verb; ExtenderError if the pod was not bound."""
        args = wire.ExtenderBindingArgs(
            pod_name=pod.name, pod_namespace=pod.namespace, pod_uid=pod.uid, node=node_name
        )
        result = await self._post(self.config.bind_verb, args, wire.decode_binding_result)
        if result.error:
            raise ExtenderError(result.error)

    async def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, Victims], view: ClusterView
    ) -> dict[str, Victims]:
        """Call the preempt verb; the result may have nodes without victims."""
        args = preemption_args(pod, victims, by_name=self.node_cache_capable)
        result = await self._post(self.config.preempt_verb, args, wire.decode_preemption_result)
        return victims_of(result, view, self.name)

    async def close(self) -> None:
        """Close all connections to it."""
        await self._transport.close()

    async def _post(self, verb: str, args: object, decode: Callable[[bytes], ResultT]) -> ResultT:
        try:
            return await self._transport.post(verb, wire.encode(args), decode)
        except ExtenderError as problem:
            self._log.info(
                "Extender call failed", level=5, extender=self.name, verb=verb, err=str(problem)
            )
            raise


def build(
    configs: Iterable[Extender], *, clock: Clock | None = None, log: Log | None = None
) -> tuple[HTTPExtender, ...]:
    """Return the extenders in call order: ignorable ones last."""
    # Parity: scheduler.go buildExtenders, v1.36.
    extenders = [HTTPExtender(config, clock=clock, log=log) for config in configs]
    if log is not None:
        for extender in extenders:
            log.info("Creating extender", level=2, extender=extender.name)
    return tuple(sorted(extenders, key=lambda extender: extender.is_ignorable))


def preemption_args(
    pod: PodInfo, victims: Mapping[str, Victims], *, by_name: bool
) -> wire.ExtenderPreemptionArgs:
    """Return the arguments of the preempt verb, with uids or whole pods."""
    args = wire.ExtenderPreemptionArgs(pod=pod_json(pod))
    if by_name:
        args.node_name_to_meta_victims = {
            name: wire.MetaVictims(
                pods=[wire.MetaPod(uid=victim.uid) for victim in on_node.pods],
                num_pdb_violations=on_node.pdb_violation_count,
            )
            for name, on_node in victims.items()
        }
    else:
        args.node_name_to_victims = {
            name: wire.Victims(
                pods=[bound_pod_json(victim) for victim in on_node.pods],
                num_pdb_violations=on_node.pdb_violation_count,
            )
            for name, on_node in victims.items()
        }
    return args


def victims_of(
    result: wire.ExtenderPreemptionResult, view: ClusterView, extender_name: str
) -> dict[str, Victims]:
    """Return the victims of a result by node name; ExtenderError if one is not found."""
    victims: dict[str, Victims] = {}
    for node_name, named in (result.node_name_to_meta_victims or {}).items():
        row = view.row_of(node_name)
        if row < 0:
            raise ExtenderError(f"nodeinfo not found for node name {go_quote(node_name)}")
        # Differs: upstream panics at a null in place of victims or of a pod.
        if named is None:
            raise ExtenderError(f"extender: {extender_name} names no victims on node: {node_name}")
        by_uid = {pod.uid: pod for pod in map(view.bound_pod, view.pods_on(row))}
        pods = tuple(_victim(by_uid, pod, extender_name, node_name) for pod in named.pods or ())
        victims[node_name] = Victims(node_name, pods, named.num_pdb_violations)
    return victims


def _victim(
    by_uid: Mapping[str, BoundPod], named: wire.MetaPod | None, extender_name: str, node_name: str
) -> BoundPod:
    pod = None if named is None else by_uid.get(named.uid)
    if pod is None:
        # Upstream prints the pod as a struct.
        shown = "<nil>" if named is None else f"&{{{named.uid}}}"
        raise ExtenderError(
            f"extender: {extender_name} claims to preempt pod (UID: {shown}) on node: {node_name}, "
            "but the pod is not found on that node"
        )
    return pod


def pod_json(pod: PodInfo) -> Raw:
    """Return the JSON of a pod for extenders."""
    return stored_pod_json(pod.raw)


def stored_pod_json(raw: bytes) -> Raw:
    """Return the JSON of a pod for extenders, from the JSON of the API server."""
    fields = _OBJECT.decode(raw)
    for key in _TYPE_KEYS:
        fields.pop(key, None)
    if "metadata" in fields:
        metadata = _OBJECT.decode(fields["metadata"])
        metadata.pop("managedFields", None)
        fields["metadata"] = Raw(msgspec.json.encode(metadata))
    return Raw(msgspec.json.encode(fields))


def bound_pod_json(pod: BoundPod) -> Raw:
    """Return the JSON of a bound pod for extenders; LookupError if its JSON is not kept."""
    stored = stored_pod_json(pod.raw)
    fields = _OBJECT.decode(stored)
    spec = _OBJECT.decode(fields.get("spec", Raw(b"{}")))
    if "nodeName" in spec:
        return stored
    # An assumed pod: upstream's copy has the node name.
    spec["nodeName"] = Raw(msgspec.json.encode(pod.node_name))
    fields["spec"] = Raw(msgspec.json.encode(spec))
    return Raw(msgspec.json.encode(fields))


def node_json(node: NodeInfo) -> Raw:
    """Return the JSON of a node for extenders."""
    raw = node.raw
    # Without decoding: every node is sent to every extender in every attempt.
    return Raw(b"{" + raw[len(_NODE_HEAD) :] if raw.startswith(_NODE_HEAD) else raw)


async def connection_problem(url: str) -> str:
    """Try to connect to an extender without sending a request; return the problem, or ``""``."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as problem:
        return str(problem)
    if not parts.hostname or not port:
        return "not a server address"
    try:
        opening = asyncio.open_connection(parts.hostname, port)
        _, writer = await asyncio.wait_for(opening, REACH_S_MAX)
    except TimeoutError:
        return f"no connection within {REACH_S_MAX:.0f} s"
    except OSError as problem:
        return problem.strerror or str(problem)
    writer.close()
    return ""
