"""Theme: taints, tolerations and cordoned nodes.

Owns both sides of toleration. Never touches labels.
Upstream: pkg/scheduler/framework/plugins/{tainttoleration,nodeunschedulable}
"""

from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
TAINTS = (
    ("dedicated", ("gpu", "infra")),
    ("spot", ("true", "")),
    ("maint", ("soon",)),
    ("team", ("a",)),
    ("level", ("5", "3")),
    ("node.kubernetes.io/disk-pressure", ("",)),
    ("node.kubernetes.io/not-ready", ("",)),
    ("node.kubernetes.io/unreachable", ("",)),
)


def apply(world: World) -> None:
    """Taint most nodes and let the pod tolerate some of it."""
    taint_nodes(world, draw_probability(world.draw))
    for toleration in tolerations(world, world.draw.number(0, 5)):
        world.spec["tolerations"].append(toleration)
    if world.draw.chance(0.08):
        world.spec["tolerations"] = []
    elif world.draw.chance(0.05):
        del world.spec["tolerations"]


def noise(world: World) -> None:
    """Taint a few nodes."""
    if world.draw.chance(0.6):
        taint_nodes(world, 0.12)
    if world.draw.chance(0.15):
        world.spec["tolerations"].extend(tolerations(world, 2))


def draw_probability(draw: Draw) -> float:
    """Return the probability of a tainted node in this case."""
    return draw.pick([0.3, 0.5, 0.8, 1.0])


def taint_nodes(world: World, probability: float) -> None:
    """Taint and cordon nodes."""
    draw = world.draw
    for node in draw.subset(world.nodes, probability):
        taints = [_taint(draw) for _ in range(draw.weighted([(1, 6), (2, 3), (3, 1)]))]
        if draw.chance(0.25):
            cordon(draw, node, taints)
        node["spec"]["taints"] = _distinct(taints)


def cordon(draw: Draw, node: Obj, taints: list[Obj]) -> None:
    """Cordon the node, usually with the taint the node controller adds."""
    node["spec"]["unschedulable"] = True
    if draw.chance(0.75):
        taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})


def tolerations(world: World, count: int) -> list[Obj]:
    """Return tolerations, most of them for taints the nodes have."""
    present = [t for node in world.nodes for t in node["spec"].get("taints", [])]
    made: list[Obj] = []
    for _ in range(count):
        base = world.draw.pick(present) if present and world.draw.chance(0.8) else None
        made.append(_toleration(world.draw, base or _taint(world.draw)))
    return made


def _taint(draw: Draw) -> Obj:
    key, values = draw.pick(TAINTS)
    effect = draw.weighted([("NoSchedule", 4), ("PreferNoSchedule", 4), ("NoExecute", 1.5)])
    taint: Obj = {"key": key, "effect": effect}
    value = draw.pick(values)
    if value:
        taint["value"] = value
    return taint


def _toleration(draw: Draw, taint: Obj) -> Obj:
    made: Obj = {"key": taint["key"]}
    operator = draw.weighted([("Exists", 4), ("Equal", 4), ("", 2), ("Gt", 0.15), ("Lt", 0.15)])
    if operator:
        made["operator"] = operator
    if operator in ("Equal", "") and taint.get("value"):
        made["value"] = taint["value"] + ("x" if draw.chance(0.12) else "")
    if operator in ("Gt", "Lt"):
        made["value"] = draw.pick(["1", "5", "9"])
    effect = draw.weighted([("same", 6), ("", 3), ("other", 1)])
    if effect == "same":
        made["effect"] = taint["effect"]
    elif effect == "other":
        made["effect"] = draw.pick(["NoSchedule", "PreferNoSchedule", "NoExecute"])
    if operator == "Exists" and draw.chance(0.06):
        del made["key"]
    if made.get("effect") == "NoExecute" and draw.chance(0.4):
        made["tolerationSeconds"] = draw.pick([0, 60, 300])
    return made


def _distinct(taints: list[Obj]) -> list[Obj]:
    # The API server rejects two taints with the same key and effect.
    kept: dict[tuple[str, str], Obj] = {}
    for taint in taints:
        kept.setdefault((taint["key"], taint["effect"]), taint)
    return list(kept.values())
