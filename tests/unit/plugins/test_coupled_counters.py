"""Spread and affinity: incremental counts and fresh counts give the same results."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.affinity import TopologySpreadConstraint
from kubesched.cache import compaction
from kubesched.config.types import InterPodAffinityArgs, PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import SKIP
from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread
from kubesched.snapshot import change_log
from kubesched.snapshot import pod_counts as counts
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.tables import ClusterTables
from tests.unit.plugins.builders import statuses_of
from tests.unit.plugins.growing_cluster import (
    GrowingCluster,
    Wire,
    a_namespace,
    a_service,
    by_name,
    in_words,
    node,
    pod,
)

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = ("n0", "n1", "n2", "n3", "n4")
NAMESPACES = ("default", "other")
CLAIMING = "kubesched.test/team"


def selector(app: str) -> Wire:
    return {"matchLabels": {"app": app}}


def spread(key: str, when: str, app: str = "a", **more: Any) -> Wire:
    body = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}
    return {**body, "labelSelector": selector(app), **more}


def term(key: str, app: str = "a", **more: Any) -> Wire:
    return {"topologyKey": key, "labelSelector": selector(app), **more}


def weighted(key: str, app: str, weight: int) -> Wire:
    return {"weight": weight, "podAffinityTerm": term(key, app)}


FAR = {"podAntiAffinity": {REQUIRED: [term(HOST)]}}
FAR_SPEC: dict[str, Any] = {"affinity": FAR}
EVERYWHERE: Wire = {"namespaceSelector": {"matchLabels": {CLAIMING: "red"}}}

TEMPLATES: dict[str, dict[str, Any]] = {
    "plain": {},
    "hard zone": {"topologySpreadConstraints": [spread(ZONE, "DoNotSchedule")]},
    "hard host and zone": {
        "topologySpreadConstraints": [
            spread(HOST, "DoNotSchedule", nodeTaintsPolicy="Honor"),
            spread(ZONE, "DoNotSchedule", minDomains=3),
        ]
    },
    "hard zone on some nodes": {
        "topologySpreadConstraints": [spread(ZONE, "DoNotSchedule")],
        "nodeSelector": {"disk": "ssd"},
    },
    "hard zone over all pods": {
        "topologySpreadConstraints": [spread(ZONE, "DoNotSchedule", labelSelector={})]
    },
    "soft": {
        "topologySpreadConstraints": [
            spread(HOST, "ScheduleAnyway"),
            spread(ZONE, "ScheduleAnyway", "b", maxSkew=2),
        ]
    },
    "near": {"affinity": {"podAffinity": {REQUIRED: [term(ZONE)]}}},
    "far": {"affinity": FAR},
    "far from two apps": {
        "affinity": {"podAntiAffinity": {REQUIRED: [term(ZONE, "b"), term(ZONE, "c")]}}
    },
    "far in red namespaces": {
        "affinity": {"podAntiAffinity": {REQUIRED: [term(HOST, **EVERYWHERE)]}}
    },
    "likes and dislikes": {
        "affinity": {
            "podAffinity": {PREFERRED: [weighted(ZONE, "a", 5)]},
            "podAntiAffinity": {PREFERRED: [weighted(HOST, "a", 7), weighted(ZONE, "b", 5)]},
        }
    },
}

PODS = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(NAMESPACES),
    st.sampled_from(sorted(TEMPLATES)),
)
CHANGES = st.one_of(
    st.tuples(
        st.just("node"),
        st.sampled_from(NODES),
        st.sampled_from([None, "x", "y", "z"]),
        st.booleans(),
    ),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("pod"), PODS, st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("no pod"), st.integers(0, 30)),
    st.tuples(st.just("namespace"), st.sampled_from(NAMESPACES), st.sampled_from(["red", "blue"])),
    st.tuples(st.just("service"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("evaluate"), st.sets(st.sampled_from(NODES), max_size=2)),
    st.tuples(st.just("evaluate"), st.just(frozenset[str]())),
)


class World:
    """A cluster that changes, and plugins that are evaluated between changes."""

    def __init__(self) -> None:
        self.cluster = GrowingCluster()
        hard_default = TopologySpreadConstraint(
            topology_key=ZONE, when_unsatisfiable="DoNotSchedule", max_skew=1
        )
        by_list = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(hard_default,))
        self.plugins: tuple[Any, ...] = (
            PodTopologySpread(PodTopologySpreadArgs(), self.cluster.handle),
            InterPodAffinity(InterPodAffinityArgs(hard_pod_affinity_weight=3), self.cluster.handle),
            PodTopologySpread(by_list, self.cluster.handle),
        )
        self._names: list[str] = []
        self._incoming: dict[tuple[str, str, str], PodInfo] = {}
        self._pod_count = 0

    def change(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("node", name, zone, ssd):
                labels = {HOST: name, **({ZONE: zone} if zone else {})}
                taints = [] if ssd else [{"key": "k", "effect": "NoSchedule"}]
                labels |= {"disk": "ssd"} if ssd else {}
                self.cluster.add(node(name, labels, taints=taints))
            case ("no node", name):
                self.cluster.remove_node(name)
            case ("pod", (app, namespace, template), at, terminating):
                self._pod_count += 1
                new_pod = new_pod_of(
                    f"p{self._pod_count}", app, namespace, template, at, terminating=terminating
                )
                self.cluster.add(new_pod)
                if namespace == "default":
                    self._names.append(new_pod.name)
            case ("no pod", number) if self._names:
                self.cluster.remove_pod(self._names.pop(number % len(self._names)))
            case ("namespace", name, team):
                self.cluster.add(a_namespace(name, {CLAIMING: team}))
            case ("service", app):
                self.cluster.add(a_service(app, {"app": app}))

    def evaluate(
        self, app: str, namespace: str, template: str, unfit: Set[str] = frozenset()
    ) -> list[Any]:
        """Return all results of the plugins for a pod; another plugin rejects the unfit nodes."""
        # One pod for all evaluations of a template: results are kept by template.
        incoming_pod = self._incoming.setdefault(
            (app, namespace, template), new_pod_of("incoming", app, namespace, template)
        )
        return [
            outcome
            for plugin in self.plugins
            for outcome in self._evaluate_one(plugin, incoming_pod, unfit)
        ]

    def _evaluate_one(self, plugin: Any, incoming_pod: PodInfo, unfit: Set[str]) -> list[Any]:
        state, nodes = CycleState(), self.cluster.nodes
        outcome: list[Any] = [plugin.pre_filter(state, incoming_pod, nodes)]
        rejected: dict[str, Any] = {}
        if outcome[0] is None:
            rejected = statuses_of(plugin.filter_nodes(state, incoming_pod, nodes), nodes.names)
            outcome.append(in_words(rejected))
        fits = [name for name in nodes.names if name not in rejected and name not in unfit]
        fitting = nodes if fits == nodes.names else self.cluster.table(*fits)
        outcome.append(plugin.pre_score(state, incoming_pod, fitting))
        if outcome[-1] is None and len(fitting):
            raw = plugin.score_nodes(state, incoming_pod, fitting)
            outcome.append(by_name(raw, fitting))
            outcome.append(by_name(plugin.normalize_scores(state, incoming_pod, raw), fitting))
        return outcome


def new_pod_of(
    name: str, app: str, namespace: str, template: str, at: str = "", *, terminating: bool = False
) -> PodInfo:
    spec = TEMPLATES[template]
    return pod(name, {"app": app}, namespace=namespace, at=at, terminating=terminating, **spec)


def reassign_ids_often(patch: pytest.MonkeyPatch) -> None:
    """Have ids reassigned whenever more are unused than in use."""
    patch.setattr(compaction, "CHECK_EVERY", 1)
    patch.setattr(compaction, "SPARE", 0)
    patch.setattr(
        ClusterTables, "compact_at", property(lambda _: 0, lambda *_: None), raising=False
    )


@pytest.mark.parametrize("reassigns_often", [False, True], ids=["ids stay", "ids are reassigned"])
@pytest.mark.parametrize("log_length", [change_log.LENGTH_MAX, 3])
@given(steps=st.lists(CHANGES, max_size=30), requests=st.lists(PODS, min_size=1, max_size=2))
def test_kept_counts_and_fresh_counts_give_the_same_results(
    log_length: int,
    reassigns_often: bool,
    steps: list[tuple[Any, ...]],
    requests: list[tuple[str, str, str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_log, "LENGTH_MAX", log_length)
        if reassigns_often:
            reassign_ids_often(patch)
        patch.setattr(counts, "CHANGES_ONE_BY_ONE_MAX", 2)
        world = World()
        for name in NODES[:3]:
            world.change(("node", name, "x", True))
        counters = world.cluster.view.counters
        for step in steps:
            world.change(step)
            if step[0] != "evaluate":
                continue
            for request in requests:
                kept = world.evaluate(*request, step[1])
                counters.keeps = False
                fresh = world.evaluate(*request, step[1])
                counters.keeps = True
                assert kept == fresh


@given(steps=st.lists(CHANGES, max_size=25), requests=st.lists(PODS, min_size=1, max_size=4))
def test_a_budget_of_zero_changes_no_result(
    steps: list[tuple[Any, ...]], requests: list[tuple[str, str, str]]
) -> None:
    world = World()
    for step in steps:
        world.change(step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "BYTES_MAX", 0)
        without_caches = [world.evaluate(*request) for request in (*requests, *requests)]
    assert without_caches == [world.evaluate(*request) for request in (*requests, *requests)]


def test_indexes_of_removed_pods_are_ignored_after_ids_are_reassigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.change(("node", "n0", "x", True))
    world.change(("node", "n1", "x", True))
    many = [pod(f"p{n}", {"app": "a", "own": str(n)}, at="n0", **FAR_SPEC) for n in range(40)]
    world.cluster.add(*many)
    for n in range(30):
        world.cluster.remove_pod(f"p{n}")
    reassign_ids_often(monkeypatch)
    world.cluster.add(pod("last", {"app": "b"}, at="n1"))
    assert len(world.cluster.view.label_classes) == 11
    # More classes match than are compared one by one.
    rejected = {"n0": "U node(s) didn't match pod anti-affinity rules"}
    assert world.evaluate("a", "default", "far")[2:4] == [None, rejected]


def test_a_plain_pod_is_skipped_while_no_term_in_the_cluster_selects_it() -> None:
    world = World()
    world.change(("node", "n0", "x", True))
    assert world.evaluate("a", "default", "plain") == [SKIP] * 6
    world.change(("pod", ("a", "default", "far"), "n0", False))
    assert world.evaluate("a", "default", "plain")[2:4] == [
        None,
        {"n0": "U node(s) didn't satisfy existing pods anti-affinity rules"},
    ]
    assert world.evaluate("b", "default", "plain") == [SKIP] * 6


def test_a_namespace_that_changes_its_labels_is_selected_from_then_on() -> None:
    world = World()
    world.change(("node", "n0", "x", True))
    world.change(("node", "n1", "x", True))
    world.change(("namespace", "other", "blue"))
    world.change(("pod", ("a", "other", "plain"), "n0", False))
    template = "far in red namespaces"
    assert world.evaluate("a", "default", template)[2:4] == [None, {}]
    world.change(("namespace", "other", "red"))
    rejected = {"n0": "U node(s) didn't match pod anti-affinity rules"}
    assert world.evaluate("a", "default", template)[2:4] == [None, rejected]
    # In the opposite direction, the existing pod's term selects the incoming pod's namespace.
    world.change(("pod", ("b", "default", template), "n1", False))
    unwanted = {"n1": "U node(s) didn't satisfy existing pods anti-affinity rules"}
    assert world.evaluate("a", "other", "plain")[2:4] == [None, unwanted]
    world.change(("namespace", "other", "blue"))
    assert world.evaluate("a", "other", "plain")[2] == SKIP


def test_a_service_that_changes_its_selector_spreads_other_pods() -> None:
    world = World()
    for name, zone in (("n0", "x"), ("n1", "y")):
        world.change(("node", name, zone, True))
    pods = [pod(f"p{i}", {"app": "a", "tier": f"t{i}"}, at="n0") for i in range(2)]
    world.cluster.add(*pods, a_service("s", {"app": "a"}))
    plugin = world.plugins[0]
    incoming_pod = pod("incoming", {"app": "a", "tier": "t0"})

    def raw() -> dict[str, int]:
        state, nodes = CycleState(), world.cluster.nodes
        assert plugin.pre_score(state, incoming_pod, nodes) is None
        return by_name(plugin.score_nodes(state, incoming_pod, nodes), nodes)

    # Two hosts and two zones: a pod weighs ln 4 in each; a host adds 2 and a zone 4.
    assert raw() == {"n0": 12, "n1": 6}
    world.cluster.add(a_service("s", {"tier": "t0"}))
    assert raw() == {"n0": 9, "n1": 6}


def test_a_service_that_changes_its_selector_changes_hard_default_constraints() -> None:
    world = World()
    for name, zone in (("n0", "x"), ("n1", "y")):
        world.change(("node", name, zone, True))
    world.cluster.add(pod("p", {"app": "a", "tier": "t"}, at="n0"))
    plugin, incoming_pod = world.plugins[2], pod("incoming", {"app": "a", "tier": "u"})

    def rejected() -> list[str]:
        state, nodes = CycleState(), world.cluster.nodes
        assert plugin.pre_filter(state, incoming_pod, nodes) is None
        return list(statuses_of(plugin.filter_nodes(state, incoming_pod, nodes), nodes.names))

    world.cluster.add(a_service("s", {"app": "a"}))
    assert rejected() == ["n0"]
    world.cluster.add(a_service("s", {"tier": "u"}))
    assert rejected() == []


def test_the_weight_of_a_pod_depends_on_the_number_of_fitting_nodes() -> None:
    world = World()
    for number, name in enumerate(NODES):
        world.change(("node", name, "xyz"[number % 3], True))
    for _ in range(3):
        world.change(("pod", ("a", "default", "plain"), "n0", False))
    soft = ("a", "default", "soft")
    # Three pods weigh ln (5 + 2) each, or ln (3 + 2) if only three hosts fit; the zone adds 1.
    assert world.evaluate(*soft)[2]["n0"] == 7
    assert world.evaluate(*soft, {"n3", "n4"})[2] == {"n0": 6, "n1": 1, "n2": 1}
    assert world.evaluate(*soft)[2]["n0"] == 7


def test_weights_that_cancel_out_give_scores_of_zero_and_no_skip() -> None:
    world = World()
    world.change(("node", "n0", "x", True))
    world.change(("node", "n1", "y", True))
    world.change(("pod", ("b", "default", "plain"), "n1", False))
    likes = {"podAffinity": {PREFERRED: [weighted(ZONE, "a", 5)]}}
    dislikes = {"podAntiAffinity": {PREFERRED: [weighted(ZONE, "a", 5)]}}
    world.cluster.add(
        pod("likes", {"app": "c"}, at="n0", affinity=likes),
        pod("dislikes", {"app": "c"}, at="n0", affinity=dislikes),
    )
    zeros = {"n0": 0, "n1": 0}
    assert world.evaluate("a", "default", "plain")[2:6] == [SKIP, None, zeros, zeros]
    world.cluster.remove_pod("likes")
    world.cluster.remove_pod("dislikes")
    assert world.evaluate("a", "default", "plain")[2:4] == [SKIP, SKIP]
