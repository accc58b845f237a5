"""What would be decided on one pod, with everything that there is to ask about it.

Owns how the attempt is made: by the very plugins of a running scheduler, over the objects as they
are at this moment, as if the pod had no node. Never binds, evicts or queues anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from kubesched.app.build import Built
from kubesched.app.explain import choose_pod, prepare
from kubesched.app.live import LiveScheduler
from kubesched.engine.comparison import NodeReport, report_on
from kubesched.engine.counterfactual import changes_for
from kubesched.engine.explained import Explanation
from kubesched.engine.explanation import Attempt, attempt
from kubesched.objects.decode import KINDS, KubeObject, decode_object
from kubesched.scheduler.story import Story
from kubesched.testing.builders import Document
from kubesched.testing.cluster import Cluster
from kubesched.testing.http import Api

ResultT = TypeVar("ResultT")


class RunningScheduler(Protocol):
    """A scheduler in a thread of its own."""

    @property
    def live(self) -> LiveScheduler: ...
    def call(self, act: Callable[[], ResultT]) -> ResultT: ...


class RunningCluster(Protocol):
    """What the fixture `playground` is."""

    @property
    def api(self) -> Api: ...
    @property
    def scheduler(self) -> RunningScheduler: ...
    def node_of(self, key: str) -> str: ...
    def pod(self, key: str) -> Document: ...
    def until(self, is_so: Callable[[], object], what: str, timeout_s: float = ...) -> None: ...


Where: TypeAlias = Cluster | RunningCluster
"""The fixture `cluster` or the fixture `playground`."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision."""

    explanation: Explanation
    """All of it: every fitting node, and what would help a pod that fits nowhere."""
    nodes: Mapping[str, NodeReport]
    """What every plugin says of each node, by name."""

    @property
    def node(self) -> str:
        """Return the node that is taken; empty if there is none."""
        return self.explanation.node

    @property
    def fitting(self) -> list[str]:
        """Return the nodes that fit."""
        return [name for name, report in self.nodes.items() if report.fits]

    def points(self, node: str, plugin: str = "") -> int:
        """Return what a plugin gives a node, weighted, or the total; KeyError if it gives none."""
        report = self.nodes[node]
        if not plugin:
            if report.total is None:
                raise KeyError(node)
            return report.total
        return next(one.node for one in report.scores if one.plugin == plugin)


def decided(where: Where, pod: str) -> Decided:
    """Return what would be decided on a pod now.

    Args:
        where: the fixture `cluster` or `playground`.
        pod: `name` or `namespace/name`; one that has a node is tried as if it had none.
    """
    objects = list(_objects(where))
    return on_scheduler(where, lambda live: _decided(live.built, objects, key_of(pod)))


def story(where: Where, pod: str) -> Story | None:
    """Return what the scheduler says of a pod; None if it does not know it."""
    return on_scheduler(where, lambda live: live.teller.tell(key_of(pod)))


def on_scheduler(where: Where, act: Callable[[LiveScheduler], ResultT]) -> ResultT:
    """Do something between two steps of the scheduler."""
    if isinstance(where, Cluster):
        return act(where.live)
    running = where.scheduler
    return running.call(lambda: act(running.live))


def key_of(pod: str) -> str:
    """Return `namespace/name` of a pod."""
    return pod if "/" in pod else f"default/{pod}"


def _decided(built: Built, objects: Sequence[KubeObject], key: str) -> Decided:
    # The handles see the cluster that is decided on, for as long as that takes.
    views = {name: handle.view for name, handle in built.handles.items()}
    try:
        one = attempt(*prepare(built, choose_pod(objects, key)))
        explanation = one.explanation(top=None, examples=len(objects))
        changes = () if explanation.outcome == "placed" else changes_for(one)
        return Decided(replace(explanation, changes=changes), dict(_reports(one)))
    finally:
        for name, handle in built.handles.items():
            handle.view = views[name]


def _reports(one: Attempt) -> Iterator[tuple[str, NodeReport]]:
    for name in one.view.all_nodes().names:
        yield name, report_on(one, name)


def _objects(where: Where) -> Iterator[KubeObject]:
    documents = where.documents() if isinstance(where, Cluster) else _stored(where)
    for one in documents:
        if (one.get("apiVersion", "v1"), one["kind"]) in KINDS:
            yield decode_object(one)


def _stored(where: RunningCluster) -> Iterator[Mapping[str, Any]]:
    for resource in on_scheduler(where, lambda live: list(live.resources)):
        found = where.api.get(f"{resource.root}{resource.plural}").must(200).json
        for one in found["items"]:
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **one}
