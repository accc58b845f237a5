"""Several changes or plugins are reported together if no single one opens a node."""

import pytest

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
    expression,
    node_terms,
    node_wire,
    on,
    ported,
    taint,
    term,
    unbound,
)


def test_the_smallest_set_of_changes_is_reported_if_no_single_one_helps() -> None:
    both = node_wire("a", taints=[taint("k")], cpu="1")
    all_three = node_wire("b", "b", taints=[taint("k")], cpu="1")
    world = World(a_pod(cpu=2000, nodeSelector={ZONE: "a"}), [both, all_three])
    changes = world.changes()
    reported = [(c.kind, c.plugin, c.text, c.nodes) for c in changes if c.kind != "too-large"]
    assert reported == [
        (
            "fields",
            "TaintToleration, NodeResourcesFit",
            "with a toleration of k:NoSchedule and requesting 1 cpu less",
            ("a",),
        ),
        (
            "plugins",
            "TaintToleration, NodeResourcesFit",
            "without TaintToleration and NodeResourcesFit together",
            ("a",),
        ),
    ]
    verified(world, changes)


def test_sets_that_open_more_nodes_come_first() -> None:
    tainted = [node_wire(name, "b", taints=[taint("k")]) for name in ("b", "c")]
    world = World(a_pod(cpu=2000, nodeSelector={ZONE: "z"}), [node_wire("a", cpu="1"), *tainted])
    changes = world.changes()
    together = [c for c in changes if c.kind == "plugins"]
    assert [(c.plugin, c.nodes) for c in together] == [
        ("TaintToleration, NodeAffinity", ("b", "c")),
        ("NodeAffinity, NodeResourcesFit", ("a",)),
    ]
    verified(world, changes)


@pytest.mark.parametrize("node", ["", "b"])
@pytest.mark.parametrize(
    ("objects", "plugins"),
    [
        pytest.param(
            [AT_ONCE, unbound("one"), unbound("two")], "VolumeBinding, VolumeZone", id="unbound"
        ),
        pytest.param(
            [],
            "VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone",
            id="missing",
        ),
    ],
)
def test_plugins_that_reject_the_pod_in_pre_filter_are_reported_together(
    objects: list[Wire], plugins: str, node: str
) -> None:
    world = World(claiming("one", "two"), [A, B], objects=objects)
    changes = world.changes(node)
    both = "without the volume v-one (claim one) and without the volume v-two (claim two)"
    assert [(c.kind, c.plugin, c.text) for c in changes[:1]] == [("fields", plugins, both)]
    assert [(c.kind, c.plugin) for c in changes[1:]] == [("plugins", plugins)]
    verified(world, changes, node)


def test_plugins_of_pre_filter_and_filter_are_reported_together() -> None:
    nodes = [node_wire("a", taints=[taint("k")]), node_wire("b", taints=[taint("k")], cpu="0")]
    world = World(claiming("one"), nodes, objects=[AT_ONCE, unbound("one")])
    changes = world.changes()
    plugins = "TaintToleration, VolumeBinding, VolumeZone"
    assert [(c.kind, c.plugin, c.nodes) for c in changes] == [
        ("fields", plugins, ("a",)),
        ("plugins", plugins, ("a",)),
    ]
    verified(world, changes)


def without_expressions(*keys: str) -> str:
    return " and ".join(f"without the node affinity {key} In (x)" for key in keys)


@pytest.mark.parametrize(
    ("world", "text"),
    [
        pytest.param(
            World(a_pod(), [node_wire("a", taints=[taint("k"), taint("l", "v", "NoExecute")])]),
            "with a toleration of k:NoSchedule and with a toleration of l=v:NoExecute",
            id="two taints",
        ),
        pytest.param(
            World(a_pod(nodeSelector={"disk": "ssd", "cpu": "new", ZONE: "a"}), [A]),
            "without the node selector cpu=new and without the node selector disk=ssd",
            id="two labels of three",
        ),
        pytest.param(
            World(
                a_pod(
                    affinity=node_terms(
                        {"matchExpressions": [expression(key, "x") for key in ("p", HOST, "q")]}
                    )
                ),
                [node_wire("x")],
            ),
            # All of the affinity opens it too, so that no two parts of it are reported.
            None,
            id="two expressions of three",
        ),
        pytest.param(
            World(
                a_pod(
                    nodeSelector={"disk": "ssd"},
                    affinity=node_terms(
                        {"matchExpressions": [expression(key, "x") for key in ("p", HOST, "q")]}
                    ),
                ),
                [node_wire("x")],
            ),
            f"without the node selector disk=ssd, {without_expressions('p', 'q')}",
            id="a label and two expressions of three",
        ),
        pytest.param(
            World(ported(80, 443), [A], [ported(80, 443, name="x", nodeName="a")]),
            "without host port 80/TCP and without host port 443/TCP",
            id="two host ports",
        ),
        pytest.param(
            World(
                ported(80, tolerations=[], nodeSelector={"disk": "ssd"}, cpu=900),
                [A],
                [ported(80, name="x", nodeName="a", cpu=3500)],
            ),
            "without the node selector disk=ssd, without host port 80/TCP and "
            "requesting 400m cpu less",
            id="a label, a host port and room",
        ),
        pytest.param(
            World(
                a_pod(cpu=300),
                [node_wire("a", cpu="2", unschedulable=True, taints=[CORDON, taint("k")])],
                [on("a", "x", 2100)],
            ),
            "once uncordoned, with a toleration of k:NoSchedule and requesting no cpu",
            id="a cordoned, tainted and overcommitted node",
        ),
    ],
)
def test_several_fields_are_changed_if_one_is_not_enough(world: World, text: str | None) -> None:
    changes = world.changes()
    assert [c.text for c in changes if c.kind == "fields"] == ([text] if text else [])
    verified(world, changes)


def test_a_plugin_without_pod_changes_is_reported_with_others() -> None:
    theirs = on("a", "w", affinity={"podAntiAffinity": {REQUIRED: [term(HOST)]}})
    world = World(a_pod(nodeSelector={"disk": "ssd"}), [A], [theirs])
    changes = world.changes()
    assert [(c.kind, c.plugin) for c in changes] == [("plugins", "NodeAffinity, InterPodAffinity")]
    verified(world, changes)
