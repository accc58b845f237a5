"""Applies each explained change to the pod, the nodes or the configuration.

A scheduler built from scratch then decides on the changed cluster, and must open just the nodes
that the explanation names.
"""

import copy
import re
from collections.abc import Callable

from msgspec.structs import replace

from kubesched.api.quantity import parse_quantity
from kubesched.explanation.report import Change
from tests.unit.explanation.counterfactual_world import (
    CORDON,
    REQUIRED,
    World,
)


def drop(part: str) -> Callable[[World, Change], None]:
    def apply(world: World, change: Change) -> None:
        match = re.search(rf"{part}\[(\d+)\]", change.field)
        assert match is not None
        del world.pod["spec"][part][int(match[1])]

    return apply


def drop_term(world: World, change: Change) -> None:
    match = re.fullmatch(rf"spec\.affinity\.(\w+)\.{REQUIRED}\[(\d+)\]", change.field)
    assert match is not None
    del world.pod["spec"]["affinity"][match[1]][REQUIRED][int(match[2])]


def drop_label(world: World, change: Change) -> None:
    match = re.fullmatch(r"spec\.nodeSelector\[(.+)\]", change.field)
    assert match is not None
    del world.pod["spec"]["nodeSelector"][match[1]]


def drop_node_affinity(world: World, change: Change) -> None:
    match = re.search(r"\[0\]\.(\w+)\[(\d+)\]$", change.field)
    affinity = world.pod["spec"]["affinity"]["nodeAffinity"]
    if match is None:
        del affinity[REQUIRED]
        return
    term = affinity[REQUIRED]["nodeSelectorTerms"][0]
    del term[match[1]][int(match[2])]
    if not any(term.values()):
        del affinity[REQUIRED]


def tolerate(world: World, change: Change) -> None:
    match = re.fullmatch(
        r"with a toleration of ([^=:]+)(?:=([^:]*))?:(\w+)( \(any value\))?", change.text
    )
    assert match is not None
    toleration = {"key": match[1], "operator": "Equal", "effect": match[3]}
    toleration |= {"operator": "Exists"} if match[4] else {"value": match[2] or ""}
    world.pod["spec"].setdefault("tolerations", []).append(toleration)


def uncordon(world: World, change: Change) -> None:
    for node in world.nodes:
        node["spec"].pop("unschedulable", None)
        taints = node["spec"].get("taints", [])
        node["spec"]["taints"] = [t for t in taints if t["key"] != CORDON["key"]]


def drop_port(world: World, change: Change) -> None:
    match = re.fullmatch(r"without host port (?:\[?([^]/]+)]?:)?(\d+)/(\w+)", change.text)
    assert match is not None
    container = world.pod["spec"]["containers"][0]
    container["ports"] = [
        port
        for port in container["ports"]
        if (port.get("hostIP"), port["hostPort"], port["protocol"])
        != (match[1], int(match[2]), match[3])
    ]


def lower_requests(world: World, change: Change) -> None:
    lacks = dict(change.lacks)
    node = next(n for n in world.nodes if n["metadata"]["name"] == change.nodes[0])
    offered = node["status"]["allocatable"]
    offered["pods"] = str(int(offered["pods"]) + lacks.pop("pods", 0))
    requests = world.pod["spec"]["containers"][0]["resources"]["requests"]
    for name, lacking in lacks.items():
        requested = int(requests[name].removesuffix("m"))
        assert name != "cpu" or requests[name].endswith("m"), "tests write millicores"
        assert lacking <= requested, "a request cannot be negative"
        requests[name] = f"{requested - lacking}{'m' if name == 'cpu' else ''}"


def assert_amount_in_text(change: Change) -> None:
    """Fail unless lowering the request by the amount in the text is enough."""
    for name, lacking in change.lacks.items():
        match = re.search(rf"(\S+) {re.escape(name)}\b", change.text)
        if name != "pods" and f" no {name}" not in change.text:
            assert match is not None
            assert units(name, match[1]) >= lacking


def assert_least(world: World, change: Change) -> None:
    """Fail if the node would open with a slightly smaller reduction."""
    for name, lacking in change.lacks.items():
        nearly = copy.deepcopy(world)
        lower_requests(nearly, replace(change, lacks={**change.lacks, name: lacking - 1}))
        assert change.nodes[0] not in nearly.feasible(), (name, change)


def units(resource: str, text: str) -> int:
    """Return an amount in millicores, bytes or pieces."""
    return parse_quantity(text).milli_value() if resource == "cpu" else parse_quantity(text).value()


APPLY: dict[str, Callable[[World, Change], None]] = {
    "spread-constraint": drop("topologySpreadConstraints"),
    "pod-affinity-term": drop_term,
    "pod-anti-affinity-term": drop_term,
    "node-selector": drop_label,
    "node-affinity": drop_node_affinity,
    "toleration": tolerate,
    "uncordon": uncordon,
    "host-port": drop_port,
    "volume": drop("volumes"),
    "resources": lower_requests,
}


def apply_change(world: World, change: Change) -> World:
    """Return a copy of the world with a change of the pod's own fields."""
    world = copy.deepcopy(world)
    parts = [
        replace(change, kind=p.kind, field=p.field, text=p.text, lacks=p.lacks)
        for p in change.parts
    ]
    # From the end of each list to its beginning, so that indexes stay valid.
    for part in sorted(parts or [change], key=lambda part: part.field, reverse=True):
        assert_amount_in_text(part)
        APPLY[part.kind](world, part)
    return world


def assert_all_needed(world: World, change: Change) -> None:
    """Fail if the first node opens without one of the parts, or with slightly higher requests."""
    for part in change.parts:
        others = tuple(other_part for other_part in change.parts if other_part is not part)
        assert (
            change.nodes[0] not in apply_change(world, replace(change, parts=others)).feasible()
        ), part
        for name, lacking in part.lacks.items():
            less = replace(part, lacks={**part.lacks, name: lacking - 1})
            nearly = apply_change(world, replace(change, parts=(*others, less)))
            assert change.nodes[0] not in nearly.feasible(), part


def verified(world: World, changes: tuple[Change, ...], node: str = "") -> None:
    """Fail unless each change, applied to the documents, opens the nodes that it names."""
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
            changed = apply_change(world, change)
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
    """Fail unless the pod fits on no empty node, and fits with lower requests."""
    assert (change.opens, change.nodes) == (0, ())
    (name, excess), *others = change.lacks.items()
    assert not others
    empty = World(copy.deepcopy(world.pod), copy.deepcopy(world.nodes))
    empty.pod["spec"] = {"containers": empty.pod["spec"]["containers"]}
    for node in empty.nodes:
        node["spec"] = {}
    requests = empty.pod["spec"]["containers"][0]["resources"]["requests"]
    requested = units(name, requests[name])
    for other in set(requests) - {name}:
        del requests[other]
    assert empty.feasible() == set()
    match = re.fullmatch(
        rf"requests (\S+) {re.escape(name)}; (?:the largest node has (\S+)|no node has any)",
        change.text,
    )
    assert match is not None
    assert units(name, match[1]) == requested
    assert units(name, match[2] or "0") == requested - excess
    suffix = "m" if name == "cpu" else ""
    requests[name] = f"{requested - excess}{suffix}"
    assert empty.feasible() != set()
    requests[name] = f"{requested - excess + 1}{suffix}"
    assert empty.feasible() == set()
