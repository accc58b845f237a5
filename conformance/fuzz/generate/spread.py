"""Theme: topology spread constraints, and the owners default constraints are taken from.

Owns constraints, services and controllers. Never touches pod affinity.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread,
pkg/scheduler/framework/plugins/helper/spread.go
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.label_selectors import pod_selector
from conformance.fuzz.generate.world import World

APPS = "apps/v1"


def apply(world: World) -> None:
    """Constrain the pod, or let services and controllers do it."""
    draw = world.draw
    if draw.chance(0.8):
        constrain(world, draw.number(1, 3), hard=0.65)
    if draw.chance(0.35):
        add_owners(world)
    if draw.chance(0.5):
        gather_peers(world)


def noise(world: World) -> None:
    """Add a constraint, or a service that brings the default ones."""
    draw = world.draw
    if draw.chance(0.14):
        constrain(world, draw.pick([1, 1, 2]), hard=0.3)
    if draw.chance(0.12):
        add_owners(world)


def constrain(world: World, count: int, *, hard: float) -> None:
    """Give the pod constraints, no two of the same key and kind."""
    draw = world.draw
    made: dict[tuple[str, str], Obj] = {}
    for _ in range(count):
        one = constraint(world, hard=hard)
        made.setdefault((one["topologyKey"], one["whenUnsatisfiable"]), one)
    world.spec["topologySpreadConstraints"] = draw.shuffled(list(made.values()))


def constraint(world: World, *, hard: float) -> Obj:
    """Return one constraint."""
    draw = world.draw
    made: Obj = {
        "topologyKey": draw.weighted(words.TOPOLOGY_KEYS),
        "maxSkew": draw.weighted([(1, 6), (2, 3), (3, 1), (5, 1)]),
        "whenUnsatisfiable": "DoNotSchedule" if draw.chance(hard) else "ScheduleAnyway",
    }
    selector = pod_selector(draw, world.pod["metadata"].get("labels"))
    if selector is not None:
        made["labelSelector"] = selector
        if draw.chance(0.15):
            made["matchLabelKeys"] = _free_keys(draw, selector)
    if made["whenUnsatisfiable"] == "DoNotSchedule" and draw.chance(0.25):
        made["minDomains"] = draw.number(1, 5)
    if draw.chance(0.2):
        made["nodeAffinityPolicy"] = draw.pick(["Honor", "Ignore"])
    if draw.chance(0.25):
        made["nodeTaintsPolicy"] = draw.pick(["Honor", "Ignore"])
    return made


def gather_peers(world: World) -> None:
    """Give existing pods the incoming pod's labels and namespace, unevenly over nodes."""
    draw = world.draw
    labels = world.pod["metadata"].get("labels", {})
    crowded = draw.some(world.node_names, 1, 3)
    for pod in draw.subset(world.pods, 0.5):
        pod["metadata"]["namespace"] = world.namespace
        pod["metadata"]["labels"] = dict(labels)
        if draw.chance(0.6) and crowded:
            pod["spec"]["nodeName"] = draw.pick(crowded)


def add_owners(world: World) -> None:
    """Add services that select the pod and a controller that owns it."""
    draw = world.draw
    labels = world.pod["metadata"].get("labels", {})
    for index in range(draw.pick([0, 1, 1, 2])):
        add_service(world, f"svc-{index}", labels)
    if draw.chance(0.6):
        add_controller(world, labels)


def add_service(world: World, name: str, labels: dict[str, str]) -> None:
    """Add one service, most often selecting the pod."""
    draw = world.draw
    keys = draw.some(sorted(labels), 1, 2)
    selector = {key: labels[key] for key in keys}
    if draw.chance(0.1):
        selector = {"app": "nobody"}
    spec: Obj = {"ports": [{"port": 80}]}
    if draw.chance(0.95):
        spec["selector"] = selector
    namespace = world.namespace if draw.chance(0.9) else draw.pick(words.NAMESPACES)
    world.add("v1", "Service", name, {"spec": spec}, namespace=namespace)


def add_controller(world: World, labels: dict[str, str]) -> None:
    """Let a controller own the pod; a few are of kinds that give no selector."""
    draw = world.draw
    kind = draw.weighted(
        [("ReplicaSet", 6), ("StatefulSet", 3), ("ReplicationController", 2), ("Job", 1)]
    )
    version = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, APPS)
    uid = draw.uid()
    reference = {
        "apiVersion": version,
        "kind": kind,
        "name": "owner-0",
        "uid": uid,
        "controller": draw.chance(0.92),
        "blockOwnerDeletion": True,
    }
    world.pod["metadata"]["ownerReferences"] = [reference]
    if kind == "Job" or draw.chance(0.05):
        return
    body = _controller_spec(draw, kind, labels)
    made = world.add(version, kind, "owner-0", {"spec": body}, namespace=world.namespace)
    made["metadata"]["uid"] = uid


def _controller_spec(draw: Draw, kind: str, labels: dict[str, str]) -> Obj:
    keys = draw.some(sorted(labels), 1, 3)
    chosen = {key: labels[key] for key in keys} or {"app": "web"}
    template = {
        "metadata": {"labels": labels or chosen},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }
    if kind == "ReplicationController":
        return {"replicas": 3, "selector": chosen, "template": template}
    selector: Obj = {"matchLabels": chosen}
    if draw.chance(0.35):
        values = [next(iter(chosen.values())), "other"]
        expression = {"key": next(iter(chosen)), "operator": "In", "values": values}
        selector = {"matchExpressions": [expression]}
    spec: Obj = {"replicas": 3, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "x"
    return spec


def _free_keys(draw: Draw, selector: Obj) -> list[str]:
    # The API server rejects a key that the selector uses as well.
    used = set(selector.get("matchLabels", {}))
    used |= {one["key"] for one in selector.get("matchExpressions", [])}
    free = [key for key in ("version", "pod-template-hash", "absent") if key not in used]
    return draw.some(free, 1, 2)
