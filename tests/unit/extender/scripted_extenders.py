"""Extenders with scripted responses, without HTTP; they record their calls.

Owns the double of one extender. Expected values are never computed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from kubesched.extender.wire import ExtenderArgs, ExtenderFilterResult, HostPriority, NodeList
from kubesched.framework.handle import ExtenderError
from kubesched.snapshot.pod_info import PodInfo

Wire = dict[str, Any]


@dataclass(slots=True, eq=False)
class ScriptedExtender:
    """Has the interface of HTTPExtender."""

    name: str = "http://extender"
    weight: int = 1
    is_ignorable: bool = False
    is_filter: bool = True
    is_prioritizer: bool = True
    node_cache_capable: bool = True
    is_binder: bool = False
    supports_preemption: bool = False
    needs_whole_pods: bool = False
    interest: Callable[[PodInfo], bool] = lambda _pod: True
    filters: Callable[[list[Any]], ExtenderFilterResult] | None = None
    """Returns the result for names, or for nodes as documents; None keeps all nodes."""
    scores: dict[str, int] | list[tuple[str, int]] | ExtenderError = field(default_factory=dict)
    held: asyncio.Event | None = None
    """Calls wait until it is set."""
    calls: list[tuple[str, list[Any]]] = field(default_factory=list)
    """Verb and nodes of every call."""
    pods: list[Wire] = field(default_factory=list)
    is_closed: bool = False

    def is_interested(self, pod: PodInfo) -> bool:
        return self.interest(pod)

    async def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        nodes = await self._record("filter", args)
        if self.filters is not None:
            return self.filters(nodes)
        return ExtenderFilterResult(nodes=args.nodes, node_names=args.node_names)

    async def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        await self._record("prioritize", args)
        if isinstance(self.scores, ExtenderError):
            raise self.scores
        entries = self.scores.items() if isinstance(self.scores, dict) else self.scores
        return [HostPriority(host=host, score=score) for host, score in entries]

    async def _record(self, verb: str, args: ExtenderArgs) -> list[Any]:
        assert (args.nodes is None) == self.node_cache_capable
        assert (args.node_names is None) != self.node_cache_capable
        if args.nodes is None:
            nodes: list[Any] = list(args.node_names or ())
        else:
            nodes = [msgspec.json.decode(raw) for raw in args.nodes.items or ()]
        self.calls.append((verb, nodes))
        self.pods.append(msgspec.json.decode(args.pod))
        if self.held is not None:
            await self.held.wait()
        return nodes

    async def close(self) -> None:
        self.is_closed = True


def names(*left: str, **failed: str) -> ExtenderFilterResult:
    """Return a result that keeps nodes by name; the others fail with reasons."""
    return ExtenderFilterResult(node_names=list(left), failed_nodes=failed)


def nodes(*left: Wire, **failed: str) -> ExtenderFilterResult:
    """Return a result that keeps whole nodes; the others fail with reasons."""
    items = [Raw(msgspec.json.encode(node)) for node in left]
    return ExtenderFilterResult(nodes=NodeList(items=items), failed_nodes=failed)


def failing(text: str) -> Callable[[list[Any]], ExtenderFilterResult]:
    """Return a filter that raises."""

    def fail(_nodes: list[Any]) -> ExtenderFilterResult:
        raise ExtenderError(text)

    return fail
