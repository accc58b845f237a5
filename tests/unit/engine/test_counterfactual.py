"""Every change that is printed, made for real: to the pod, the nodes or the configuration.

The changed cluster is then decided on anew, by a scheduler built from scratch, and must open just
the nodes that were promised.
"""

import copy
import re
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.app.build import Built, build
from kubesched.columns.view import ClusterView
from kubesched.config.load import load_config_object
from kubesched.engine.counterfactual import changes_for
from kubesched.engine.decide import decide
from kubesched.engine.explanation import Change, attempt
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo, PodShapes
from kubesched.objects.decode import decode_as, decode_object
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod
from kubesched.objects.quantity import parse_quantity
from tests.unit.builders import a_cluster, a_config, pod_wire

Wire = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
WEB = {"matchLabels": {"app": "web"}}
DB = {"matchLabels": {"app": "db"}}


# -- a cluster as documents, so that it can be changed as a user would ----------------------------


def node_wire(name: str, zone: str = "a", *, cpu: str = "4", pods: str = "9", **spec: Any) -> Wire:
    labels = {HOST: name, ZONE: zone}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
    }


class World:
    """Nodes, bound pods, other objects, promised pods, and the pod in question."""

    def __init__(
        self,
        pod: Wire,
        nodes: list[Wire],
        bound: list[Wire] | None = None,
        objects: list[Wire] | None = None,
        promised: dict[str, Wire] | None = None,
    ) -> None:
        self.pod = pod
        self.nodes = nodes
        self.bound = bound or []
        self.objects = objects or []
        self.promised = promised or {}

    def compiled(self) -> tuple[ClusterView, PodInfo]:
        """Return the cluster and the pod, which may share its shape with others there."""
        shapes = PodShapes()

        def info(wire: Wire) -> PodInfo:
            return shapes.pod_info(decode_as(Pod, wire))

        pods: dict[str, list[PodInfo]] = {}
        for wire in self.bound:
            pods.setdefault(wire["spec"]["nodeName"], []).append(info(wire))
        view = a_cluster(
            [NodeInfo(decode_as(Node, wire)) for wire in self.nodes],
            pods,
            [decode_object(wire) for wire in self.objects],
            {node: [info(wire)] for node, wire in self.promised.items()},
        )
        return view, info(self.pod)

    def changes(self, node: str = "") -> tuple[Change, ...]:
        built, (view, pod) = scheduler(), self.compiled()
        profile = built.profiles["default-scheduler"]
        built.handles[profile.name].view = view
        return changes_for(attempt(profile, view, pod), node=node)

    def feasible(self, *without: str) -> set[str]:
        """Return the nodes that fit, by a scheduler without some filters."""
        built, (view, pod) = scheduler(without), self.compiled()
        profile = built.profiles["default-scheduler"]
        built.handles[profile.name].view = view
        return set(decide(profile, view, pod).feasible)


@cache
def scheduler(without: tuple[str, ...] = ()) -> Built:
    disabled = {"disabled": [{"name": name} for name in without]}
    return build(load_config_object(a_config({"preFilter": disabled, "filter": disabled})))


# -- how each kind of change is made --------------------------------------------------------------


def drop(part: str) -> Callable[[World, Change], None]:
    def made(world: World, change: Change) -> None:
        found = re.search(rf"{part}\[(\d+)\]", change.field)
        assert found is not None
        del world.pod["spec"][part][int(found[1])]

    return made


def drop_term(world: World, change: Change) -> None:
    found = re.fullmatch(rf"spec\.affinity\.(\w+)\.{REQUIRED}\[(\d+)\]", change.field)
    assert found is not None
    del world.pod["spec"]["affinity"][found[1]][REQUIRED][int(found[2])]


def drop_label(world: World, change: Change) -> None:
    found = re.fullmatch(r"spec\.nodeSelector\[(.+)\]", change.field)
    assert found is not None
    del world.pod["spec"]["nodeSelector"][found[1]]


def drop_node_affinity(world: World, change: Change) -> None:
    found = re.search(r"\[0\]\.(\w+)\[(\d+)\]$", change.field)
    affinity = world.pod["spec"]["affinity"]["nodeAffinity"]
    if found is None:
        del affinity[REQUIRED]
        return
    term = affinity[REQUIRED]["nodeSelectorTerms"][0]
    del term[found[1]][int(found[2])]
    if not any(term.values()):
        del affinity[REQUIRED]


def tolerate(world: World, change: Change) -> None:
    found = re.fullmatch(
        r"with a toleration of ([^=:]+)(?:=([^:]*))?:(\w+)( \(any value\))?", change.text
    )
    assert found is not None
    toleration = {"key": found[1], "operator": "Equal", "effect": found[3]}
    toleration |= {"operator": "Exists"} if found[4] else {"value": found[2] or ""}
    world.pod["spec"].setdefault("tolerations", []).append(toleration)


def uncordon(world: World, change: Change) -> None:
    for node in world.nodes:
        node["spec"].pop("unschedulable", None)
        taints = node["spec"].get("taints", [])
        node["spec"]["taints"] = [t for t in taints if t["key"] != CORDON["key"]]


def drop_port(world: World, change: Change) -> None:
    found = re.fullmatch(r"without host port (?:\[?([^]/]+)]?:)?(\d+)/(\w+)", change.text)
    assert found is not None
    container = world.pod["spec"]["containers"][0]
    container["ports"] = [
        port
        for port in container["ports"]
        if (port.get("hostIP"), port["hostPort"], port["protocol"])
        != (found[1], int(found[2]), found[3])
    ]


def ask_for_less(world: World, change: Change) -> None:
    lacks = dict(change.lacks)
    node = next(n for n in world.nodes if n["metadata"]["name"] == change.nodes[0])
    offered = node["status"]["allocatable"]
    offered["pods"] = str(int(offered["pods"]) + lacks.pop("pods", 0))
    requests = world.pod["spec"]["containers"][0]["resources"]["requests"]
    for name, lacking in lacks.items():
        asked = int(requests[name].removesuffix("m"))
        assert name != "cpu" or requests[name].endswith("m"), "tests write millicores"
        assert lacking <= asked, "nobody can ask for less than nothing"
        requests[name] = f"{asked - lacking}{'m' if name == 'cpu' else ''}"


def assert_told(change: Change) -> None:
    """Fail unless whoever asks for as much less as the text says has asked for enough less."""
    for name, lacking in change.lacks.items():
        told = re.search(rf"(\S+) {re.escape(name)}\b", change.text)
        if name != "pods" and f" no {name}" not in change.text:
            assert told is not None
            assert units(name, told[1]) >= lacking


def assert_least(world: World, change: Change) -> None:
    """Fail if the node would open though a little less of something were left out."""
    for name, lacking in change.lacks.items():
        nearly = copy.deepcopy(world)
        ask_for_less(nearly, replace(change, lacks={**change.lacks, name: lacking - 1}))
        assert change.nodes[0] not in nearly.feasible(), (name, change)


def units(resource: str, text: str) -> int:
    """Return an amount in millicores, bytes or pieces."""
    return parse_quantity(text).milli_value() if resource == "cpu" else parse_quantity(text).value()


MADE: dict[str, Callable[[World, Change], None]] = {
    "spread-constraint": drop("topologySpreadConstraints"),
    "pod-affinity-term": drop_term,
    "pod-anti-affinity-term": drop_term,
    "node-selector": drop_label,
    "node-affinity": drop_node_affinity,
    "toleration": tolerate,
    "uncordon": uncordon,
    "host-port": drop_port,
    "volume": drop("volumes"),
    "resources": ask_for_less,
}


def made(world: World, change: Change) -> World:
    """Return a world in which a change of the pod's own fields is made."""
    world = copy.deepcopy(world)
    parts = [
        replace(change, kind=p.kind, field=p.field, text=p.text, lacks=p.lacks)
        for p in change.parts
    ]
    # From the end of each list to its beginning, so that places keep their meaning.
    for one in sorted(parts or [change], key=lambda one: one.field, reverse=True):
        assert_told(one)
        MADE[one.kind](world, one)
    return world


def assert_all_needed(world: World, change: Change) -> None:
    """Fail if the first node opens without one of the parts, or with a little more asked for."""
    for part in change.parts:
        others = tuple(one for one in change.parts if one is not part)
        assert change.nodes[0] not in made(world, replace(change, parts=others)).feasible(), part
        for name, lacking in part.lacks.items():
            less = replace(part, lacks={**part.lacks, name: lacking - 1})
            nearly = made(world, replace(change, parts=(*others, less)))
            assert change.nodes[0] not in nearly.feasible(), part


def verified(world: World, changes: tuple[Change, ...], node: str = "") -> None:
    """Fail unless each change, made for real, opens what it says, of all nodes or of one."""
    before = world.feasible()
    for change in changes:
        if change.kind == "too-large":
            assert_too_large(world, change)
            continue
        changed = copy.deepcopy(world)
        without: list[str] = []
        if change.kind in ("plugin", "plugins"):
            without = change.plugin.split(", ")
            assert change.text.startswith("without ")
            assert all(name in change.text for name in without)
        else:
            changed = made(world, change)
        if change.kind == "fields":
            assert all(part.text in change.text for part in change.parts)
            assert len(change.parts) > 1
            assert_all_needed(world, change)
        if change.kind == "resources":
            assert f" on {change.nodes[0]}" in change.text
            among = re.search(r", the least short of (\d+) nodes that would fit", change.text)
            otherwise = world.feasible("NodeResourcesFit") - before
            assert (1 if among is None else int(among[1])) == (1 if node else len(otherwise))
            assert_least(world, change)
        opened = changed.feasible(*without) - before
        if node:
            opened &= {node}
        assert len(opened) == change.opens, change
        assert set(change.nodes) <= opened, change
        assert change.opens > 0


def assert_too_large(world: World, change: Change) -> None:
    """Fail unless the pod stays out with every node empty, and comes in if it asks for less."""
    assert (change.opens, change.nodes) == (0, ())
    (name, excess), *others = change.lacks.items()
    assert not others
    empty = World(copy.deepcopy(world.pod), copy.deepcopy(world.nodes))
    empty.pod["spec"] = {"containers": empty.pod["spec"]["containers"]}
    for node in empty.nodes:
        node["spec"] = {}
    requests = empty.pod["spec"]["containers"][0]["resources"]["requests"]
    asked = units(name, requests[name])
    for other in set(requests) - {name}:
        del requests[other]
    assert empty.feasible() == set()
    told = re.fullmatch(
        rf"asks for (\S+) {re.escape(name)}; (?:the largest node has (\S+)|no node has any)",
        change.text,
    )
    assert told is not None
    assert units(name, told[1]) == asked
    assert units(name, told[2] or "0") == asked - excess
    suffix = "m" if name == "cpu" else ""
    requests[name] = f"{asked - excess}{suffix}"
    assert empty.feasible() != set()
    requests[name] = f"{asked - excess + 1}{suffix}"
    assert empty.feasible() == set()


# -- one of each kind -----------------------------------------------------------------------------


def a_pod(name: str = "new", cpu: int = 500, **spec: Any) -> Wire:
    return pod_wire(name, labels={"app": "web"}, requests={"cpu": f"{cpu}m"}, **spec)


def on(node: str, name: str, cpu: int = 100, app: str = "web", **spec: Any) -> Wire:
    return pod_wire(name, labels={"app": app}, requests={"cpu": f"{cpu}m"}, nodeName=node, **spec)


def spread(key: str, **rest: Any) -> Wire:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **rest,
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Wire:
    return {"key": key, "value": value, "effect": effect}


def term(key: str, app: str = "web") -> Wire:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def expression(key: str, *values: str) -> Wire:
    return {"key": key, "operator": "In", "values": list(values)}


def node_terms(*terms: Wire) -> Wire:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def ported(*ports: int, at: tuple[str, ...] = (), **rest: Any) -> Wire:
    """Return a pod with host ports: some of any address, and port 80 of each of some addresses."""
    wire = a_pod(**rest)
    wire["spec"]["containers"][0]["ports"] = [
        *({"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports),
        *({"containerPort": 8, "hostPort": 80, "protocol": "TCP", "hostIP": ip} for ip in at),
    ]
    return wire


CLAIM: Wire = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "data",
        "namespace": "default",
        "uid": "data",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
    "status": {"phase": "Bound"},
}
VOLUME: Wire = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk", "uid": "disk"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [expression(ZONE, "z")]}]}
        },
    },
    "status": {"phase": "Bound"},
}
OF_ONE_POD = [
    CLAIM | {"spec": {"volumeName": "disk", "accessModes": ["ReadWriteOncePod"]}},
    VOLUME | {"spec": {k: v for k, v in VOLUME["spec"].items() if k != "nodeAffinity"}},
]
AT_ONCE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "at-once"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "Immediate",
}


def unbound(name: str) -> Wire:
    """Return a claim that should have been bound by now, so that its pod is refused as a whole."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"storageClassName": "at-once", "accessModes": ["ReadWriteOnce"]},
    }


def claiming(*claims: str, **rest: Any) -> Wire:
    """Return a pod with a volume of each claim, named after it."""
    volumes = [{"name": f"v-{c}", "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return a_pod(volumes=volumes, **rest)


A, B = node_wire("a", "a"), node_wire("b", "b")
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
        id="a cordoned node before the taint has come",
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
        id="a claim that is not there",
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
            promised={"a": pod_wire("q", requests={"cpu": "2"})},
        ),
        ["resources fits: lacks 500m cpu on a"],
        id="room that is promised",
    ),
    pytest.param(
        World(a_pod(), [A], [on("a", "x", 3800)], promised={"a": a_pod()}),
        ["resources fits: lacks 300m cpu on a"],
        id="room that is promised to the pod itself",
    ),
    pytest.param(
        World(a_pod(cpu=300), [node_wire("a", cpu="2")], [on("a", "x", 2100)]),
        ["resources fits: lacks all of its 300m cpu on a (overcommitted by 100m cpu)"],
        id="a node of which more is taken than there is",
    ),
    pytest.param(
        World(
            pod_wire("new", requests={"cpu": "300m", "memory": f"{6 << 30}"}),
            [node_wire("a", pods="1")],
            [pod_wire("x", requests={"cpu": "5", "memory": "4Gi"}, nodeName="a")],
        ),
        [f"resources fits: lacks {SHORT_OF_ALL} on a (overcommitted by 1 cpu)"],
        id="a node that is short of everything",
    ),
    pytest.param(
        World(a_pod(cpu=300), [A, B], [on("a", "x", 4100), on("b", "y", 4200)]),
        [
            "resources fits: lacks all of its 300m cpu on a (overcommitted by 100m cpu), "
            + LEAST_SHORT
        ],
        id="nodes of which more is taken than there is",
    ),
    pytest.param(
        World(
            a_pod(cpu=100),
            [node_wire("a", cpu="1", pods="1"), node_wire("b", cpu="1")],
            [on("a", "x", 500), on("a", "y", 500), on("b", "z", 1200)],
        ),
        [f"resources fits: lacks 100m cpu and room for 2 more pods on a, {LEAST_SHORT}"],
        id="asking for less opens a node with room for pods as well",
    ),
    pytest.param(
        World(a_pod(cpu=9000), [A, B]),
        [
            "resources fits: lacks 5 cpu on a, the least short of 2 nodes that would fit otherwise",
            "too-large fits: asks for 9 cpu; the largest node has 4",
        ],
        id="larger than any node",
    ),
]


@pytest.mark.parametrize(("world", "expected"), CASES)
def test_a_change_opens_what_it_promises(world: World, expected: list[str]) -> None:
    changes = world.changes()
    told = [f"{c.kind} fits: {c.text}" for c in changes if not c.kind.startswith("plugin")]
    assert told == expected
    verified(world, changes)


def test_every_kind_is_shown_above() -> None:
    told = [text for case in CASES for text in cast("list[str]", case.values[1])]
    kinds = {text.partition(" ")[0] for text in told}
    assert kinds == {*MADE, "too-large"}


def test_each_refusing_plugin_is_passed_over_by_itself() -> None:
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


def test_where_no_single_change_helps_the_fewest_together_are_named() -> None:
    both = node_wire("a", taints=[taint("k")], cpu="1")
    all_three = node_wire("b", "b", taints=[taint("k")], cpu="1")
    world = World(a_pod(cpu=2000, nodeSelector={ZONE: "a"}), [both, all_three])
    changes = world.changes()
    told = [(c.kind, c.plugin, c.text, c.nodes) for c in changes if c.kind != "too-large"]
    assert told == [
        (
            "fields",
            "TaintToleration, NodeResourcesFit",
            "with a toleration of k:NoSchedule and asking for 1 cpu less",
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


def test_of_several_smallest_sets_those_that_open_more_nodes_come_first() -> None:
    tainted = [node_wire(name, "b", taints=[taint("k")]) for name in ("b", "c")]
    world = World(a_pod(cpu=2000, nodeSelector={ZONE: "z"}), [node_wire("a", cpu="1"), *tainted])
    changes = world.changes()
    together = [c for c in changes if c.kind == "plugins"]
    assert [(c.plugin, c.nodes) for c in together] == [
        ("TaintToleration, NodeAffinity", ("b", "c")),
        ("NodeAffinity, NodeResourcesFit", ("a",)),
    ]
    verified(world, changes)


def test_a_pod_that_fits_is_told_of_more_nodes_only() -> None:
    world = World(a_pod(), [A, node_wire("c", taints=[taint("k")])])
    changes = world.changes()
    assert [(c.kind, c.nodes) for c in changes] == [("toleration", ("c",)), ("plugin", ("c",))]
    verified(world, changes)


def test_one_node_is_told_of_what_opens_it() -> None:
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


def test_one_node_is_told_of_what_opens_it_though_the_pod_is_refused_as_a_whole() -> None:
    world = World(claiming("late"), [A, B], objects=[AT_ONCE, unbound("late")])
    changes = world.changes("a")
    assert [(c.kind, c.text, c.nodes) for c in changes] == [
        ("volume", "without the volume v-late (claim late)", ("a",))
    ]
    verified(world, changes, "a")


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
            id="not there",
        ),
    ],
)
def test_plugins_that_refuse_the_pod_as_a_whole_are_named_together(
    objects: list[Wire], plugins: str, node: str
) -> None:
    world = World(claiming("one", "two"), [A, B], objects=objects)
    changes = world.changes(node)
    both = "without the volume v-one (claim one) and without the volume v-two (claim two)"
    assert [(c.kind, c.plugin, c.text) for c in changes[:1]] == [("fields", plugins, both)]
    assert [(c.kind, c.plugin) for c in changes[1:]] == [("plugins", plugins)]
    verified(world, changes, node)


def test_those_that_refuse_the_pod_and_those_that_refuse_a_node_are_named_together() -> None:
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
            # All of the affinity opens it too, so that no two parts of it are told.
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
            "asking for 400m cpu less",
            id="a label, a host port and room",
        ),
        pytest.param(
            World(
                a_pod(cpu=300),
                [node_wire("a", cpu="2", unschedulable=True, taints=[CORDON, taint("k")])],
                [on("a", "x", 2100)],
            ),
            "once uncordoned, with a toleration of k:NoSchedule and asking for no cpu",
            id="a cordoned, tainted and overcommitted node",
        ),
    ],
)
def test_several_fields_are_changed_where_one_is_not_enough(world: World, text: str | None) -> None:
    changes = world.changes()
    assert [c.text for c in changes if c.kind == "fields"] == ([text] if text else [])
    verified(world, changes)


def test_a_plugin_that_reads_no_field_is_named_beside_others() -> None:
    theirs = on("a", "w", affinity={"podAntiAffinity": {REQUIRED: [term(HOST)]}})
    world = World(a_pod(nodeSelector={"disk": "ssd"}), [A], [theirs])
    changes = world.changes()
    assert [(c.kind, c.plugin) for c in changes] == [("plugins", "NodeAffinity, InterPodAffinity")]
    verified(world, changes)


def test_a_nominated_pod_is_judged_on_all_nodes() -> None:
    pod = a_pod(status={"nominatedNodeName": "a"})
    world = World(pod, [A, B, node_wire("c", taints=[taint("k")])])
    changes = world.changes()
    assert {c.nodes for c in changes} == {("c",)}
    del pod["status"]
    verified(world, changes)


def test_what_is_asked_is_told_as_asked_and_what_there_is_as_no_more() -> None:
    resources = {"requests": {"memory": "7.6Gi"}}
    node = node_wire("a")
    node["status"]["allocatable"]["memory"] = "7925956Ki"
    world = World(a_pod(containers=[{"name": "c", "resources": resources}]), [node])
    texts = [change.text for change in world.changes() if change.kind == "too-large"]
    assert texts == ["asks for 7.6Gi memory; the largest node has 7.55Gi"]


# -- any cluster ------------------------------------------------------------------------------


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
def test_whatever_is_printed_of_any_cluster_holds(world: World) -> None:
    verified(world, world.changes())
    last = world.nodes[-1]["metadata"]["name"]
    verified(world, world.changes(last), last)
