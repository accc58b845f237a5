"""A single change to a pod, of every kind, opens the nodes that it names."""

from typing import cast

import pytest

from tests.unit.builders import pod_wire
from tests.unit.explanation.apply_changes import APPLY, verified
from tests.unit.explanation.counterfactual_world import (
    CLAIM,
    CORDON,
    DB,
    HOST,
    OF_ONE_POD,
    REQUIRED,
    VOLUME,
    ZONE,
    A,
    B,
    World,
    a_pod,
    claiming,
    expression,
    node_terms,
    node_wire,
    on,
    ported,
    spread,
    taint,
    term,
)

LEAST_SHORT = "the least short of 2 nodes that would fit otherwise"
SHORT_OF_ALL = "all of its 300m cpu and 2Gi memory and room for one more pod"
FULL_B = on("b", "full", 4000, "db")

CASES = [
    pytest.param(
        World(
            a_pod(topologySpreadConstraints=[spread(ZONE), spread(HOST, maxSkew=5)]),
            [A, B],
            [on("a", "w"), FULL_B],
        ),
        [
            "resources fits: lacks 500m cpu on b",
            f"spread-constraint fits: without the spread constraint over {ZONE} (maxSkew 1)",
        ],
        id="one of two spread constraints",
    ),
    pytest.param(
        World(
            a_pod(topologySpreadConstraints=[spread(ZONE), spread(ZONE, labelSelector=DB)]),
            [A, B],
            [on("a", "w"), on("b", "x", app="db"), on("b", "y", app="db")],
        ),
        [
            f"spread-constraint fits: without the spread constraint over {ZONE} "
            f"(maxSkew 1, {label})"
            for label in ("app=web", "app=db")
        ],
        id="two spread constraints over one key",
    ),
    pytest.param(
        World(
            a_pod(affinity={"podAntiAffinity": {REQUIRED: [term(ZONE), term(ZONE, "db")]}}),
            [A, B],
            [on("a", "w"), on("b", "x", app="db")],
        ),
        [
            f"pod-anti-affinity-term fits: without the pod anti-affinity term over {ZONE} ({label})"
            for label in ("app=web", "app=db")
        ],
        id="two anti-affinity terms over one key",
    ),
    pytest.param(
        World(a_pod(affinity={"podAffinity": {REQUIRED: [term(ZONE, "db")]}}), [A, B]),
        ["pod-affinity-term fits: without the pod affinity term over " + ZONE],
        id="a pod affinity term",
    ),
    pytest.param(
        World(
            a_pod(affinity={"podAntiAffinity": {REQUIRED: [term(HOST, "db"), term(ZONE)]}}),
            [A, B],
            [on("a", "w"), on("b", "v")],
        ),
        ["pod-anti-affinity-term fits: without the pod anti-affinity term over " + ZONE],
        id="one of two anti-affinity terms",
    ),
    pytest.param(
        World(a_pod(nodeSelector={"disk": "ssd", ZONE: "a"}), [A, B]),
        ["node-selector fits: without the node selector disk=ssd"],
        id="a label of the node selector",
    ),
    pytest.param(
        World(
            a_pod(
                affinity=node_terms(
                    {"matchExpressions": [expression("disk", "ssd"), expression(ZONE, "a")]}
                )
            ),
            [A, B],
        ),
        [
            "node-affinity fits: without the node affinity disk In (ssd)",
            "node-affinity fits: without the required node affinity",
        ],
        id="an expression of the only term",
    ),
    pytest.param(
        World(
            a_pod(affinity=node_terms({"matchExpressions": [expression("disk", "ssd")]})), [A, B]
        ),
        ["node-affinity fits: without the node affinity disk In (ssd)"],
        id="the only expression of the only term",
    ),
    pytest.param(
        World(
            a_pod(
                affinity=node_terms(
                    {"matchExpressions": [expression("disk", "ssd")]},
                    {"matchFields": [expression("metadata.name", "z")]},
                )
            ),
            [A, B],
        ),
        ["node-affinity fits: without the required node affinity"],
        id="several terms",
    ),
    pytest.param(
        World(
            a_pod(),
            [
                node_wire("a", taints=[taint("dedicated", "db")]),
                node_wire("b", taints=[taint("dedicated", "db"), taint("other")]),
                node_wire("c", taints=[taint("gone", effect="NoExecute")]),
            ],
        ),
        [
            "toleration fits: with a toleration of dedicated=db:NoSchedule",
            "toleration fits: with a toleration of gone:NoExecute",
        ],
        id="tolerations",
    ),
    pytest.param(
        World(
            a_pod(),
            [node_wire(f"n{n}", taints=[taint("dedicated", f"team-{n}")]) for n in range(5)],
        ),
        ["toleration fits: with a toleration of dedicated:NoSchedule (any value)"],
        id="a key of many values",
    ),
    pytest.param(
        World(
            a_pod(),
            [node_wire("a", taints=[taint("gpu")]), node_wire("b", taints=[taint("gpu", "yes")])],
        ),
        [
            "toleration fits: with a toleration of gpu:NoSchedule",
            "toleration fits: with a toleration of gpu=yes:NoSchedule",
        ],
        id="a taint without a value beside one with",
    ),
    pytest.param(
        World(a_pod(), [node_wire("a", unschedulable=True, taints=[CORDON]), B], [FULL_B]),
        ["resources fits: lacks 500m cpu on b", "uncordon fits: once uncordoned"],
        id="a cordoned node with its taint",
    ),
    pytest.param(
        World(a_pod(), [node_wire("a", unschedulable=True)]),
        ["uncordon fits: once uncordoned"],
        id="a cordoned node without its taint",
    ),
    pytest.param(
        World(
            ported(80, 443),
            [A, B],
            [ported(80, name="x", nodeName="a"), ported(80, 443, name="y", nodeName="b")],
        ),
        ["host-port fits: without host port 80/TCP"],
        id="a host port",
    ),
    pytest.param(
        World(
            ported(at=("127.0.0.1", "10.0.0.1", "fd00::1")),
            [A, B],
            [
                ported(at=("10.0.0.1",), name="x", nodeName="a"),
                ported(at=("fd00::1",), name="y", nodeName="b"),
            ],
        ),
        [
            "host-port fits: without host port 10.0.0.1:80/TCP",
            "host-port fits: without host port [fd00::1]:80/TCP",
        ],
        id="one port of several addresses",
    ),
    pytest.param(
        World(
            a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
            [A, B],
            objects=[CLAIM, VOLUME],
        ),
        ["volume fits: without the volume v (claim data)"],
        id="a volume of another zone",
    ),
    pytest.param(
        World(
            a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]), [A, B]
        ),
        ["volume fits: without the volume v (claim gone)"],
        id="a missing claim",
    ),
    pytest.param(
        World(
            claiming("data"),
            [A],
            [
                a_pod(
                    "theirs",
                    nodeName="a",
                    volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "data"}}],
                )
            ],
            OF_ONE_POD,
        ),
        ["volume fits: without the volume v-data (claim data)"],
        id="a volume that another pod names differently",
    ),
    pytest.param(
        World(a_pod(cpu=1500), [A, B], [on("a", "x", 2800), on("b", "y", 3500)]),
        [
            f"resources fits: lacks 300m cpu on a, {LEAST_SHORT}",
        ],
        id="the nearest shortfall",
    ),
    pytest.param(
        World(a_pod(), [node_wire("a", pods="1")], [on("a", "x")]),
        ["resources fits: lacks room for one more pod on a"],
        id="too many pods",
    ),
    pytest.param(
        World(
            a_pod(cpu=1500),
            [A],
            [on("a", "x", 1000)],
            nominated={"a": pod_wire("q", requests={"cpu": "2"})},
        ),
        ["resources fits: lacks 500m cpu on a"],
        id="room that is nominated to another pod",
    ),
    pytest.param(
        World(a_pod(), [A], [on("a", "x", 3800)], nominated={"a": a_pod()}),
        ["resources fits: lacks 300m cpu on a"],
        id="room that is nominated to the pod itself",
    ),
    pytest.param(
        World(a_pod(cpu=300), [node_wire("a", cpu="2")], [on("a", "x", 2100)]),
        ["resources fits: lacks all of its 300m cpu on a (overcommitted by 100m cpu)"],
        id="an overcommitted node",
    ),
    pytest.param(
        World(
            pod_wire("new", requests={"cpu": "300m", "memory": f"{6 << 30}"}),
            [node_wire("a", pods="1")],
            [pod_wire("x", requests={"cpu": "5", "memory": "4Gi"}, nodeName="a")],
        ),
        [f"resources fits: lacks {SHORT_OF_ALL} on a (overcommitted by 1 cpu)"],
        id="a node that lacks all resources",
    ),
    pytest.param(
        World(a_pod(cpu=300), [A, B], [on("a", "x", 4100), on("b", "y", 4200)]),
        [
            "resources fits: lacks all of its 300m cpu on a (overcommitted by 100m cpu), "
            + LEAST_SHORT
        ],
        id="overcommitted nodes",
    ),
    pytest.param(
        World(
            a_pod(cpu=100),
            [node_wire("a", cpu="1", pods="1"), node_wire("b", cpu="1")],
            [on("a", "x", 500), on("a", "y", 500), on("b", "z", 1200)],
        ),
        [f"resources fits: lacks 100m cpu and room for 2 more pods on a, {LEAST_SHORT}"],
        id="lower requests open a node with free pod slots",
    ),
    pytest.param(
        World(a_pod(cpu=9000), [A, B]),
        [
            "resources fits: lacks 5 cpu on a, the least short of 2 nodes that would fit otherwise",
            "too-large fits: requests 9 cpu; the largest node has 4",
        ],
        id="larger than any node",
    ),
]


@pytest.mark.parametrize(("world", "expected"), CASES)
def test_a_change_opens_the_nodes_that_it_names(world: World, expected: list[str]) -> None:
    changes = world.changes()
    texts = [f"{c.kind} fits: {c.text}" for c in changes if not c.kind.startswith("plugin")]
    assert texts == expected
    verified(world, changes)


def test_every_kind_has_a_case() -> None:
    texts = [text for case in CASES for text in cast("list[str]", case.values[1])]
    kinds = {text.partition(" ")[0] for text in texts}
    assert kinds == {*APPLY, "too-large"}


def test_requests_are_exact_and_free_amounts_rounded_down() -> None:
    resources = {"requests": {"memory": "7.6Gi"}}
    node = node_wire("a")
    node["status"]["allocatable"]["memory"] = "7925956Ki"
    world = World(a_pod(containers=[{"name": "c", "resources": resources}]), [node])
    texts = [change.text for change in world.changes() if change.kind == "too-large"]
    assert texts == ["requests 7.6Gi memory; the largest node has 7.55Gi"]
