"""Extenders that answer as a test says, in place of HTTP; they note what they are asked.

Owns the double of one extender. Expected values are never computed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from kubesched.extender.http_extender import ExtenderError
from kubesched.extender.wire import ExtenderFilterResult, HostPriority, NodeList
from kubesched.model.pod_info import PodInfo

Wire = dict[str, Any]


@dataclass(slots=True, eq=False)
class ScriptedExtender:
    """Looks like an HTTPExtender."""

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
    """Makes the answer from names, or from nodes as documents; None passes all."""
    scores: dict[str, int] | list[tuple[str, int]] | ExtenderError = field(default_factory=dict)
    held: asyncio.Event | None = None
    """Nothing is answered until it is set."""
    asked: list[tuple[str, list[Any]]] = field(default_factory=list)
    """Verb and nodes of every question."""
    pods: list[Wire] = field(default_factory=list)
    is_closed: bool = False

    def is_interested(self, pod: PodInfo) -> bool:
        return self.interest(pod)

    async def filter(
        self, pod: Raw, *, node_names: list[str] | None, nodes: list[Raw] | None
    ) -> ExtenderFilterResult:
        given = await self._heard("filter", pod, node_names, nodes)
        if self.filters is not None:
            return self.filters(given)
        if node_names is not None:
            return names(*node_names)
        assert nodes is not None
        return ExtenderFilterResult(nodes=NodeList(items=nodes))

    async def prioritize(
        self, pod: Raw, *, node_names: list[str] | None, nodes: list[Raw] | None
    ) -> list[HostPriority]:
        await self._heard("prioritize", pod, node_names, nodes)
        if isinstance(self.scores, ExtenderError):
            raise self.scores
        entries = self.scores.items() if isinstance(self.scores, dict) else self.scores
        return [HostPriority(host=host, score=score) for host, score in entries]

    async def _heard(
        self, verb: str, pod: Raw, node_names: list[str] | None, nodes: list[Raw] | None
    ) -> list[Any]:
        assert (nodes is None) == self.node_cache_capable
        assert (node_names is None) != self.node_cache_capable
        given = node_names if nodes is None else [msgspec.json.decode(one) for one in nodes]
        assert given is not None
        self.asked.append((verb, list(given)))
        self.pods.append(msgspec.json.decode(pod))
        if self.held is not None:
            await self.held.wait()
        return given

    async def close(self) -> None:
        self.is_closed = True


def names(*left: str, **failed: str) -> ExtenderFilterResult:
    """Leave nodes over by name; the others fail with their reasons."""
    return ExtenderFilterResult(node_names=list(left), failed_nodes=failed)


def nodes(*left: Wire, **failed: str) -> ExtenderFilterResult:
    """Leave nodes over as documents; the others fail with their reasons."""
    items = [Raw(msgspec.json.encode(one)) for one in left]
    return ExtenderFilterResult(nodes=NodeList(items=items), failed_nodes=failed)


def failing(text: str) -> Callable[[list[Any]], ExtenderFilterResult]:
    """Fail instead of answering."""

    def fail(_given: list[Any]) -> ExtenderFilterResult:
        raise ExtenderError(text)

    return fail
