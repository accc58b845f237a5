"""An extender with a long history gives the replies of one that has just started.

Nodes and pods are added, changed and deleted between calls, and names are reused. The second
extender is created for every call, from the current cluster.
"""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from kubesched.extender.server.verbs import ExtenderVerbs, VerbResult
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.metrics.extender import ExtenderMetrics
from kubesched.testing import a_node, a_pod
from tests.unit.extender.server_cases import (
    ByLabel,
    Document,
    Extender,
    InColumns,
    an_extender,
    as_served,
)

NAMES = ("a", "b", "c", "d")
LABELS = st.sampled_from(({}, {"never": ""}, {"spot": ""}, {"score": "30"}, {"score": "95"}))
SOME = st.lists(st.sampled_from(NAMES), unique=True)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NAMES), LABELS),
        st.tuples(st.just("no node"), st.sampled_from(NAMES)),
        st.tuples(
            st.just("replace nodes"), st.lists(st.sampled_from(NAMES), min_size=2, unique=True)
        ),
        st.tuples(st.just("pod"), st.sampled_from(NAMES), st.sampled_from(("web", "db"))),
        st.tuples(st.just("no pod"), st.sampled_from(NAMES)),
        st.tuples(st.just("call"), SOME, st.sampled_from(("web", "db")), st.booleans()),
        st.tuples(st.just("call"), st.just(list(NAMES)), st.just("web"), st.booleans()),
    ),
    min_size=10,
    max_size=25,
)


class Cluster:
    """The current nodes and pods, and an extender that has seen every change."""

    def __init__(self) -> None:
        self.nodes: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        self.extender, self.verbs = new_extender()

    def node(self, name: str, labels: dict[str, str]) -> None:
        self.nodes[name] = a_node(name, labels=labels)
        self.extender.put_node(self.nodes[name])

    def no_node(self, name: str) -> None:
        if name in self.nodes:
            self.extender.put_node(self.nodes.pop(name), "DELETED")

    def replace_nodes(self, names: list[str]) -> None:
        """Delete nodes, then add others with the same names."""
        for name in names:
            self.no_node(name)
        for name in names:
            self.node(name, {})

    def pod(self, node: str, app: str) -> None:
        self.no_pod(node)
        pod = a_pod(f"on-{node}", labels={"app": app}, node=node, requests={"cpu": "1"})
        self.pods[node] = pod
        self.extender.put_pod(pod)

    def no_pod(self, node: str) -> None:
        if node in self.pods:
            self.extender.put_pod(self.pods.pop(node), "DELETED")

    def call(self, names: list[str], app: str, is_whole: bool) -> None:
        """Call both as a scheduler does: filter, then prioritize the feasible nodes."""
        fresh, verbs = new_extender()
        for node in self.nodes.values():
            fresh.put_node(node)
        for pod in self.pods.values():
            fresh.put_pod(pod)
        whole = [name for name in names if name in self.nodes]
        body: Document = {"Pod": as_served(a_pod("new", labels={"app": app}), 7)}
        body |= (
            {"Nodes": {"metadata": {}, "items": self.served(whole)}, "NodeNames": None}
            if is_whole
            else {"Nodes": None, "NodeNames": names}
        )
        reply = answered(self.verbs, "filter", body)
        assert reply == answered(verbs, "filter", body)
        assert answered(self.verbs, "prioritize", body) == answered(verbs, "prioritize", body)
        left = body | {"Nodes": reply["Nodes"], "NodeNames": reply["NodeNames"]}
        assert answered(self.verbs, "filter", body) == reply
        assert answered(self.verbs, "prioritize", left) == answered(verbs, "prioritize", left)

    def served(self, names: list[str]) -> list[Document]:
        versions = self.extender.world.versions
        return [as_served(self.nodes[name], int(versions[name])) for name in names]


def new_extender() -> tuple[Extender, ExtenderVerbs]:
    extender = an_extender(ByLabel, InColumns)
    metrics, clock = ExtenderMetrics(), SystemClock()
    return extender, ExtenderVerbs(
        extender.service, None, metrics=metrics, clock=clock, log=NullLog()
    )


def answered(verbs: ExtenderVerbs, verb: str, body: Document) -> Any:
    # As Go encodes JSON: no spaces.
    result = verbs.call(verb, json.dumps(body, separators=(",", ":")).encode())
    assert isinstance(result, VerbResult), "pods are known"
    assert result.code == 200, result.body
    return json.loads(result.body)


@pytest.mark.timeout(240)
@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_replies_do_not_depend_on_earlier_requests(steps: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    for name, *arguments in [*steps, ("call", list(NAMES), "web", False)]:
        getattr(cluster, name.replace(" ", "_"))(*arguments)
