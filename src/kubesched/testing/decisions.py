"""The decision for one pod of a test cluster, with every plugin's verdicts and scores.

Runs an attempt with the plugins of the running scheduler on the current objects, as if the pod were
pending. Never binds, preempts or queues anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from kubesched.api.decode import STRUCTS, KubeObject, decode_object
from kubesched.explanation.comparison import NodeReport, report_on
from kubesched.explanation.explain import attempt_subject, explain_attempt
from kubesched.explanation.report import Explanation, PodReport
from kubesched.manifests.scenario import choose_pod
from kubesched.profile.build import Built
from kubesched.run.live_scheduler import LiveScheduler
from kubesched.testing.cluster import Cluster, pod_key

if TYPE_CHECKING:
    from kubesched.cluster.playground.in_process import Playground

ResultT = TypeVar("ResultT")


Where: TypeAlias = "Cluster | Playground"
"""The fixture `cluster` or the fixture `playground`."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision."""

    explanation: Explanation
    """With all fitting nodes, and tested changes for a pod that fits nowhere."""
    nodes: Mapping[str, NodeReport]
    """Every plugin's verdicts and scores by node."""

    @property
    def node(self) -> str:
        """Return the chosen node; empty if there is none."""
        return self.explanation.node

    @property
    def fitting(self) -> list[str]:
        """Return the nodes that fit."""
        return [name for name, report in self.nodes.items() if report.fits]

    def points(self, node: str, plugin: str = "") -> int:
        """Return a plugin's weighted score, or the total; KeyError if there is none."""
        report = self.nodes[node]
        if not plugin:
            if report.total is None:
                raise KeyError(node)
            return report.total
        return next(score.node for score in report.scores if score.plugin == plugin)


def decided(where: Where, pod: str) -> Decided:
    """Return the decision that the scheduler would make for a pod now.

    Args:
        where: the fixture `cluster` or `playground`.
        pod: `name` or `namespace/name`; a bound pod is treated as pending.
    """
    objects = list(_objects(where))
    return on_scheduler(where, lambda live: _decided(live.built, objects, pod_key(pod)))


def pod_report(where: Where, pod: str) -> PodReport | None:
    """Return the scheduler's report of a pod; None if it does not know the pod."""
    return on_scheduler(where, lambda live: live.pod_reporter.report(pod_key(pod)))


def on_scheduler(where: Where, act: Callable[[LiveScheduler], ResultT]) -> ResultT:
    """Run a function between two steps of the scheduler."""
    if isinstance(where, Cluster):
        return act(where.live)
    running = where.scheduler
    return running.call(lambda: act(running.live))


def _decided(built: Built, objects: Sequence[KubeObject], key: str) -> Decided:
    # The handles see the attempt's snapshot until it is done.
    views = {name: handle.view for name, handle in built.handles.items()}
    try:
        record = attempt_subject(built, choose_pod(objects, key))
        explanation = explain_attempt(
            record, top=None, examples=len(objects), changes=record.result is None
        )
        if explanation.changes is None:
            explanation = replace(explanation, changes=())
        reports = {name: report_on(record, name) for name in record.view.all_nodes().names}
        return Decided(explanation, reports)
    finally:
        for name, handle in built.handles.items():
            handle.view = views[name]


def _objects(where: Where) -> Iterator[KubeObject]:
    documents = where.documents() if isinstance(where, Cluster) else _stored(where)
    for document in documents:
        if (document.get("apiVersion", "v1"), document["kind"]) in STRUCTS:
            yield decode_object(document)


def _stored(where: Playground) -> Iterator[Mapping[str, Any]]:
    for resource in on_scheduler(where, lambda live: list(live.resources)):
        stored = where.api.get(f"{resource.root}{resource.plural}").must(200).json
        for item in stored["items"]:
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}
