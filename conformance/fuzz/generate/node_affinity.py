"""Theme: nodeSelector, required and preferred node affinity, and the affinity a profile adds.

Owns node selector terms. Never touches pods' affinity to pods.
Upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

VALUES: dict[str, tuple[str, ...]] = {
    words.ZONE: ("z1", "z2", "z3", "z9"),
    words.REGION: ("r1", "r2"),
    "pool": ("a", "b", "c"),
    "rack": ("r1", "r2", "r3"),
    "disktype": ("ssd", "hdd", "nvme"),
    "gen": ("1", "5", "7", "x3"),
    "gpu": ("true", "false", ""),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "missing": ("x",),
}
NUMBERS = ("0", "1", "5", "6", "7", "9", "12", "007")


def apply(world: World) -> None:
    """Give the pod a selector, required terms, preferred terms, or several of them."""
    draw = world.draw
    if draw.chance(0.3):
        world.spec["nodeSelector"] = node_selector(world)
    if draw.chance(0.7):
        set_required(world, [term(world) for _ in range(draw.number(1, 3))])
    if draw.chance(0.65):
        set_preferred(world, draw.number(1, 4))
    if draw.chance(0.12):
        set_required(world, named_terms(world))
    if draw.chance(0.05):
        set_required(world, conflicting_terms(world))


def noise(world: World) -> None:
    """Add preferred terms, rarely required ones."""
    draw = world.draw
    if draw.chance(0.12):
        set_preferred(world, draw.number(1, 2))
    if draw.chance(0.06):
        set_required(world, [term(world) for _ in range(draw.number(1, 2))])
    if draw.chance(0.05):
        world.spec["nodeSelector"] = node_selector(world)


def node_selector(world: World) -> dict[str, str]:
    """Return a selector, most often one that some node matches."""
    draw = world.draw
    if draw.chance(0.04):
        return {}
    if world.nodes and draw.chance(0.8):
        labels: dict[str, str] = draw.pick(world.nodes)["metadata"]["labels"]
        keys = draw.some(sorted(labels), 1, 2)
        return {key: labels[key] for key in keys}
    key = draw.pick(sorted(VALUES))
    return {key: draw.pick(VALUES[key])}


def term(world: World, *, fields: bool = True) -> Obj:
    """Return one node selector term."""
    draw = world.draw
    made: Obj = {}
    count = draw.weighted([(1, 6), (2, 3), (3, 1)])
    if fields and world.nodes and draw.chance(0.12):
        made["matchFields"] = [name_field(world)]
        count = draw.pick([0, 0, 1])
    if count:
        made["matchExpressions"] = [expression(world) for _ in range(count)]
    if draw.chance(0.015):
        return {}
    return made


def expression(world: World) -> Obj:
    """Return one requirement over node labels."""
    draw = world.draw
    operator = draw.weighted(
        [("In", 5), ("NotIn", 4), ("Exists", 2), ("DoesNotExist", 1), ("Gt", 1), ("Lt", 1)]
    )
    if operator in ("Gt", "Lt"):
        key = draw.weighted([("gen", 9.0), ("pool", 1.0)])
        return {"key": key, "operator": operator, "values": [draw.pick(NUMBERS)]}
    if world.nodes and draw.chance(0.1):
        key, values = words.HOSTNAME, tuple(world.node_names)
    else:
        key = draw.pick(sorted(VALUES))
        values = VALUES[key]
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.some(values, 1, 3)}


def name_field(world: World) -> Obj:
    """Return a requirement on the node's name."""
    draw = world.draw
    name = "ghost" if draw.chance(0.12) else draw.pick(world.node_names)
    operator = draw.weighted([("In", 8.0), ("NotIn", 2.0)])
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def named_terms(world: World) -> list[Obj]:
    """Return terms that name nodes, as a daemon set does, some with expressions too."""
    draw = world.draw
    made: list[Obj] = []
    for name in draw.some([*world.node_names, "ghost"], 1, 3):
        field = {"key": "metadata.name", "operator": "In", "values": [name]}
        one: Obj = {"matchFields": [field]}
        if draw.chance(0.3):
            one["matchExpressions"] = [expression(world)]
        made.append(one)
    return made


def conflicting_terms(world: World) -> list[Obj]:
    """Return terms that each require two different node names."""
    names = world.draw.some([*world.node_names, "ghost", "ghost-2"], 2, 2)
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    return [{"matchFields": fields}]


def set_required(world: World, terms: list[Obj]) -> None:
    """Set the pod's required terms."""
    affinity = world.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}


def set_preferred(world: World, count: int) -> None:
    """Set the pod's preferred terms."""
    affinity = world.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred(world, count)


def preferred(world: World, count: int, *, fields: bool = True) -> list[Obj]:
    """Return weighted preferences."""
    draw = world.draw
    weights = [1, 5, 10, 20, 50, 99, 100]
    return [
        {"weight": draw.pick(weights), "preference": term(world, fields=fields)}
        for _ in range(count)
    ]


def added_affinity(world: World) -> Obj:
    """Return the addedAffinity of NodeAffinityArgs."""
    draw = world.draw
    made: Obj = {}
    if draw.chance(0.6):
        terms = [
            {"matchExpressions": [expression(world) for _ in range(draw.number(1, 2))]}
            for _ in range(draw.number(1, 3))
        ]
        made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if not made or draw.chance(0.5):
        made["preferredDuringSchedulingIgnoredDuringExecution"] = _added_preferred(world)
    return made


def _added_preferred(world: World) -> list[Obj]:
    draw: Draw = world.draw
    return [
        {
            "weight": draw.pick([1, 10, 100]),
            "preference": {"matchExpressions": [expression(world)]},
        }
        for _ in range(draw.number(1, 3))
    ]
