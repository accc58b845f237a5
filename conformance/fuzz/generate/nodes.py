"""Nodes: names, labels, capacity, images, declared features.

Owns the fields of a node except taints. Never reads pods.
Upstream: staging/src/k8s.io/api/core/v1/types.go (NodeStatus).
"""

from collections.abc import Callable

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

NAME_STYLES: tuple[Callable[[int], str], ...] = (
    lambda i: f"w{i + 1}",
    lambda i: f"node-{i:02d}",
    lambda i: f"ip-10-0-{i % 3}-{3 + i * 7}.ec2.internal",
    lambda i: f"gke-c1-pool-{i % 2}-{i:03x}",
)


def add_nodes(world: World) -> None:
    """Add the cluster's nodes: mostly four to eight, now and then up to thirty."""
    draw = world.draw
    low, high = draw.weighted([((4, 8), 70), ((9, 14), 16), ((15, 30), 10), ((1, 3), 4)])
    style = draw.pick(NAME_STYLES)
    bare = draw.chance(0.08)  # a cluster without zones
    zones = draw.pick([["z1", "z2"], ["z1", "z2", "z3"], ["z1", "z2", "z3", "z4"], ["z1"]])
    for index in range(draw.number(low, high)):
        world.nodes.append(_node(draw, style(index), [] if bare else zones))


def _node(draw: Draw, name: str, zones: list[str]) -> Obj:
    node: Obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": draw.uid(), "labels": _labels(draw, name, zones)},
        "spec": {},
        "status": {
            **_resources(draw),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    if draw.chance(0.4):
        node["status"]["images"] = _images(draw)
    if draw.chance(0.05):
        node["status"]["declaredFeatures"] = sorted(draw.subset(words.FEATURES, 0.5))
    return node


def _labels(draw: Draw, name: str, zones: list[str]) -> dict[str, str]:
    labels = {"kubernetes.io/arch": draw.pick(["amd64", "amd64", "arm64"])}
    labels["kubernetes.io/os"] = "linux"
    if draw.chance(0.985):
        labels[words.HOSTNAME] = name
    if zones and draw.chance(0.95):
        labels[words.ZONE] = draw.pick(zones)
        labels[words.REGION] = draw.weighted([("r1", 9.0), ("r2", 1.0)])
    if zones and draw.chance(0.03):
        labels[words.BETA_ZONE] = draw.pick(zones)
    optional: list[tuple[str, float, list[str]]] = [
        ("node-role.kubernetes.io/worker", 0.2, [""]),
        ("node.kubernetes.io/instance-type", 0.3, ["m5.large", "m5.xlarge", "c6g.large"]),
        ("pool", 0.66, ["a", "b", "c"]),
        ("rack", 0.5, ["r1", "r2", "r3"]),
        ("disktype", 0.4, ["ssd", "hdd", "nvme"]),
        ("gen", 0.35, ["0", "1", "2", "5", "7", "10", "007", "x3", "1e1", "3.5"]),
        ("gpu", 0.15, ["true", "false", ""]),
    ]
    for key, probability, values in optional:
        if draw.chance(probability):
            labels[key] = draw.pick(values)
    return labels


def _resources(draw: Draw) -> Obj:
    cpu, memory = draw.weighted(list(zip(words.NODE_SIZES, words.NODE_SIZE_WEIGHTS, strict=True)))
    pods = draw.weighted([("110", 38), ("58", 19), ("250", 17), ("29", 15), ("few", 11)])
    if pods == "few":
        pods = str(draw.number(0 if draw.chance(0.1) else 1, 8))
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    if draw.chance(0.75):
        allocatable["ephemeral-storage"] = draw.pick(words.NODE_STORAGE)
    for name in words.EXTENDED:
        if draw.chance(0.08):
            allocatable[name] = str(draw.number(0, 8))
    for name, sizes in words.HUGEPAGES.items():
        if draw.chance(0.07):
            allocatable[name] = draw.pick(sizes)
    capacity = dict(allocatable)
    if draw.chance(0.5):
        capacity["cpu"] = "64"
    if draw.chance(0.01):
        del allocatable[draw.pick(["cpu", "memory", "pods"])]
    return {"allocatable": allocatable, "capacity": capacity}


def _images(draw: Draw) -> list[Obj]:
    images: list[Obj] = []
    for names, size in draw.subset(words.NODE_IMAGES, 0.3):
        # One image may be listed under some of its names only.
        kept = list(names) if draw.chance(0.8) else [draw.pick(names)]
        images.append({"names": kept, "sizeBytes": size})
    return draw.shuffled(images)
