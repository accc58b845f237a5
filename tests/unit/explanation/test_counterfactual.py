"""Counterfactuals of plugins, of one node, of nominated pods, and of random clusters."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.explanation.apply_changes import verified
from tests.unit.explanation.counterfactual_world import (
    AT_ONCE,
    CORDON,
    HOST,
    REQUIRED,
    ZONE,
    A,
    B,
    Wire,
    World,
    a_pod,
    claiming,
    node_wire,
    on,
    spread,
    taint,
    term,
    unbound,
)


def test_each_rejecting_plugin_is_disabled_alone() -> None:
    world = World(
        a_pod(nodeSelector={ZONE: "a"}),
        [A, B, node_wire("c", taints=[taint("k")]), node_wire("d", unschedulable=True)],
        [on("a", "full", 4000)],
    )
    changes = world.changes()
    plugins = [(c.plugin, c.nodes) for c in changes if c.kind == "plugin"]
    assert plugins == [
        ("NodeAffinity", ("b",)),
        ("NodeResourcesFit", ("a",)),
        ("NodeUnschedulable", ("d",)),
        ("TaintToleration", ("c",)),
    ]
    verified(world, changes)


def test_a_pod_that_fits_has_changes_for_more_nodes_only() -> None:
    world = World(a_pod(), [A, node_wire("c", taints=[taint("k")])])
    changes = world.changes()
    assert [(c.kind, c.nodes) for c in changes] == [("toleration", ("c",)), ("plugin", ("c",))]
    verified(world, changes)


def test_changes_for_one_node_open_that_node() -> None:
    world = World(
        a_pod(nodeSelector={"disk": "ssd"}),
        [A, node_wire("c", taints=[taint("k")])],
    )
    assert [c.kind for c in world.changes("a")] == ["node-selector", "plugin"]
    assert [(c.kind, c.plugin) for c in world.changes("c")] == [
        ("fields", "TaintToleration, NodeAffinity"),
        ("plugins", "TaintToleration, NodeAffinity"),
    ]
    for node in ("a", "c"):
        verified(world, world.changes(node), node)


def test_changes_for_one_node_if_pre_filter_rejects_the_pod() -> None:
    world = World(claiming("late"), [A, B], objects=[AT_ONCE, unbound("late")])
    changes = world.changes("a")
    assert [(c.kind, c.text, c.nodes) for c in changes] == [
        ("volume", "without the volume v-late (claim late)", ("a",))
    ]
    verified(world, changes, "a")


def test_a_nominated_pod_is_evaluated_on_all_nodes() -> None:
    pod = a_pod(status={"nominatedNodeName": "a"})
    world = World(pod, [A, B, node_wire("c", taints=[taint("k")])])
    changes = world.changes()
    assert {c.nodes for c in changes} == {("c",)}
    del pod["status"]
    verified(world, changes)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = [
        node_wire(
            f"n{number}",
            draw(st.sampled_from("ab")),
            cpu=str(draw(st.integers(1, 3))),
            pods=draw(st.sampled_from(["1", "9"])),
            taints=draw(
                st.lists(
                    st.sampled_from([taint("k", "v"), taint("k", "w"), CORDON]),
                    max_size=1,
                )
            ),
            unschedulable=draw(st.sampled_from([False, False, True])),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    bound = [
        on(f"n{draw(st.integers(0, len(nodes) - 1))}", f"p{number}", draw(st.integers(1, 20)) * 100)
        for number in range(draw(st.integers(0, 5)))
    ]
    spec: Wire = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.sampled_from([{ZONE: "a"}, {ZONE: "a", "disk": "ssd"}]))
    constraints = [spread(ZONE), spread(HOST), spread(ZONE, nodeTaintsPolicy="Honor")]
    spec["topologySpreadConstraints"] = draw(st.lists(st.sampled_from(constraints), max_size=2))
    kind = draw(st.sampled_from(["podAffinity", "podAntiAffinity"]))
    keys = draw(st.lists(st.sampled_from([ZONE, HOST]), max_size=2))
    spec["affinity"] = {kind: {REQUIRED: [term(key) for key in keys]}}
    pod = a_pod(cpu=draw(st.integers(1, 35)) * 100, **spec)
    return World(copy.deepcopy(pod), nodes, bound)


@given(worlds())
@settings(deadline=None, max_examples=150)
def test_changes_for_random_clusters_open_the_nodes_they_name(world: World) -> None:
    verified(world, world.changes())
    last = world.nodes[-1]["metadata"]["name"]
    verified(world, world.changes(last), last)
