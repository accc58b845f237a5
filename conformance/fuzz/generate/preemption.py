"""Theme: full nodes, priorities, disruption budgets, nominated and terminating pods.

Owns clusters in which the pod fits only after preemption. Never selects the victims.
Upstream: pkg/scheduler/framework/preemption, pkg/scheduler/framework/plugins/defaultpreemption
"""

from collections.abc import Callable

from conformance.fuzz.generate import pods, ports, storage
from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.label_selectors import pod_selector
from conformance.fuzz.generate.world import World

PRIORITIES = (-100, 0, 0, 0, 10, 10, 1000, 1000, 100000)


# CPU and memory of each pod on a filled node, and the number of pods.
SIZES = (
    (("500m", "256Mi"), 2, 6),
    (("1", "1Gi"), 1, 4),
    (("250m", "512Mi"), 4, 8),
    (("1500m", "1Gi"), 1, 3),
)


def apply(world: World) -> None:
    """Fill the nodes and bring an important pod."""
    draw = world.draw
    pods.set_priority(draw, world.pod, draw.pick([10, 1000, 1000, 100000, 100000, 2000000000]))
    world.spec.pop("preemptionPolicy", None)
    if draw.chance(0.05):
        world.spec["preemptionPolicy"] = "Never"
    _ask_much(world)
    filled = draw.pick([0.85, 1.0, 1.0, 0.0])
    for name in world.node_names:
        if draw.chance(filled):
            fill(world, name)
    add_budgets(world, draw.pick([0, 1, 1, 2, 3]))
    for _ in range(draw.pick([0, 0, 1, 2] if filled else [1, 2])):
        draw.weighted(OBSTACLES)(world)
    add_nominated(world, draw.pick([0, 0, 0, 1, 2]))
    if draw.chance(0.1):
        nominate_incoming(world)


def noise(world: World) -> None:
    """Add budgets and nominated pods that mostly do not matter."""
    draw = world.draw
    if draw.chance(0.08):
        add_budgets(world, 1)
    if draw.chance(0.1):
        add_nominated(world, 1)
    if draw.chance(0.02):
        nominate_incoming(world)


def _ask_much(world: World) -> None:
    draw = world.draw
    world.spec["containers"] = world.spec["containers"][: draw.pick([1, 1, 1, 2])]
    for container in world.spec["containers"]:
        container["resources"] = {
            "requests": {
                "cpu": draw.pick(["500m", "500m", "1", "1", "1500m"]),
                "memory": draw.pick(["128Mi", "256Mi", "512Mi", "1Gi"]),
            }
        }


def fill(world: World, node_name: str) -> None:
    """Fill one node with pods of mixed priority until little is left."""
    draw = world.draw
    world.pods = [pod for pod in world.pods if pod["spec"].get("nodeName") != node_name]
    node = next(n for n in world.nodes if n["metadata"]["name"] == node_name)
    size, low, high = draw.pick(SIZES)
    number = draw.number(low, high)
    shrink_node(world, node, size, number)
    same_start = draw.chance(0.25)
    same_priority = draw.pick(PRIORITIES[:5]) if draw.chance(0.35) else None
    for index in range(number):
        pod = pods.bound_pod(world, f"{node_name.split('.', maxsplit=1)[0]}-f{index}", node_name)
        pod["spec"]["containers"] = pod["spec"]["containers"][:1]
        cpu, memory = size if draw.chance(0.93) else ("100m", "64Mi")
        requests = {"cpu": cpu, "memory": memory}
        pod["spec"]["containers"][0]["resources"] = {"requests": requests}
        priority = draw.pick(PRIORITIES) if same_priority is None else same_priority
        pods.set_priority(draw, pod, priority)
        if same_start:
            pod["status"]["startTime"] = "2024-05-02T03:06:06Z"
        elif draw.chance(0.03):
            del pod["status"]["startTime"]
        if draw.chance(0.06):
            pods.make_terminating(draw, pod)
        world.pods.append(pod)


def shrink_node(world: World, node: Obj, size: tuple[str, str], number: int) -> None:
    """Make the node's CPU hold these pods and barely more."""
    milli = {"500m": 500, "1": 1000, "250m": 250, "1500m": 1500}[size[0]] * number
    spare = world.draw.pick([0, 0, 100, 400])
    if world.draw.chance(0.9):
        node["status"]["allocatable"]["cpu"] = f"{milli + spare}m"
    if world.draw.chance(0.8):
        mebi = {"256Mi": 256, "512Mi": 512, "1Gi": 1024}[size[1]] * number
        node["status"]["allocatable"]["memory"] = f"{mebi + spare + 200}Mi"
    node["status"]["allocatable"]["pods"] = str(number) if world.draw.chance(0.12) else "110"


def add_budgets(world: World, count: int) -> None:
    """Add disruption budgets, used up or not, some with pods already disrupted."""
    draw = world.draw
    for index in range(count):
        pod = draw.pick(world.pods) if world.pods else world.pod
        metadata = pod["metadata"]
        selector = pod_selector(draw, metadata.get("labels"))
        spec: Obj = {"minAvailable": draw.pick([1, 2, "50%"])}
        if selector is not None:
            spec["selector"] = selector
        status: Obj = {
            "disruptionsAllowed": draw.pick([0, 0, 1, 2]),
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
        }
        if draw.chance(0.2):
            status["disruptedPods"] = {metadata["name"]: draw.timestamp()}
        body = {"spec": spec, "status": status}
        place = metadata["namespace"]
        world.add("policy/v1", "PodDisruptionBudget", f"pdb-{index}", body, namespace=place)


def add_nominated(world: World, count: int) -> None:
    """Add nominated pods."""
    draw = world.draw
    for index in range(count):
        pod = pods.pod_frame(draw, f"nom{len(world.pods)}-{index}", draw.pick(words.NAMESPACES[:3]))
        pods.add_requests(draw, pod, large=draw.chance(0.4))
        pods.set_priority(draw, pod, draw.pick([0, 10, 1000, 100000, 100000]))
        pod["status"] = {"phase": "Pending"}
        if draw.chance(0.9):
            name = draw.pick([*world.node_names, "ghost"])
            pod["status"]["nominatedNodeName"] = name
        if draw.chance(0.2):
            ports.add_ports(draw, pod, 1)
        if draw.chance(0.25):
            _add_anti_affinity(world, pod)
        world.pods.append(pod)


def nominate_incoming(world: World) -> None:
    """Nominate the incoming pod to a node, possibly one with a terminating victim."""
    draw = world.draw
    name = draw.pick([*world.node_names, "ghost"])
    world.pod["status"]["nominatedNodeName"] = name
    victims = world.bound_pods(name)
    if victims and draw.chance(0.6):
        victim = draw.pick(victims)
        pods.make_terminating(draw, victim)
        if draw.chance(0.8):
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
            }
            victim["status"]["conditions"] = [condition]
            pods.set_priority(draw, victim, -100)


def by_anti_affinity(world: World) -> None:
    """Give existing pods anti-affinity to the pod."""
    for pod in world.draw.subset(world.pods, 0.3):
        _add_anti_affinity(world, pod)


def by_own_anti_affinity(world: World) -> None:
    """Give the pod anti-affinity to existing pods."""
    draw = world.draw
    key = draw.pick([words.HOSTNAME, words.HOSTNAME, words.ZONE])
    selector = {"matchLabels": {"app": draw.pick(words.APPS)}}
    terms = [{"topologyKey": key, "labelSelector": selector, "namespaces": list(words.NAMESPACES)}]
    affinity = world.spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms


def by_affinity(world: World) -> None:
    """Give the pod affinity to potential victims."""
    draw = world.draw
    selector = {"matchLabels": {"app": draw.pick(words.APPS)}}
    key = draw.pick([words.HOSTNAME, words.ZONE])
    terms = [{"topologyKey": key, "labelSelector": selector, "namespaceSelector": {}}]
    affinity = world.spec.setdefault("affinity", {}).setdefault("podAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms


def by_spread(world: World) -> None:
    """Spread the pod away from potential victims."""
    draw = world.draw
    labels = world.pod["metadata"].setdefault("labels", {"app": "web"})
    for pod in draw.subset(world.pods, 0.4):
        pod["metadata"]["namespace"] = world.namespace
        pod["metadata"]["labels"] = dict(labels)
    key = draw.pick([words.ZONE, words.HOSTNAME, "rack"])
    made: Obj = {
        "maxSkew": draw.pick([1, 1, 2]),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(labels)},
    }
    if draw.chance(0.2):
        made["minDomains"] = draw.number(2, 4)
    world.spec["topologySpreadConstraints"] = [made]


def by_ports(world: World) -> None:
    """Let pods hold the host port the pod needs."""
    draw = world.draw
    port = {"containerPort": 80, "hostPort": 8080}
    world.spec["containers"][0]["ports"] = [dict(port)]
    for pod in draw.subset(world.pods, 0.3):
        pod["spec"]["containers"][0]["ports"] = [dict(port)]


def by_claim(world: World) -> None:
    """Let a pod hold the claim which only one pod may use."""
    draw = world.draw
    made, held = storage.bound_pair(world, "only", storage.csi_source("h-only"))
    made["spec"]["accessModes"] = held["spec"]["accessModes"] = ["ReadWriteOncePod"]
    storage.mount(world.pod, "only")
    for pod in draw.some(world.pods, 1, 1):
        pod["metadata"]["namespace"] = world.namespace
        storage.mount(pod, "only")


def by_disk(world: World) -> None:
    """Let pods hold a disk which cannot be shared."""
    disk = {"gcePersistentDisk": {"pdName": "disk-1"}}
    storage.mount_inline(world.pod, disk)
    for pod in world.draw.subset(world.pods, 0.3):
        storage.mount_inline(pod, disk)


def by_gpu(world: World) -> None:
    """Let pods hold the extended resource the pod needs."""
    draw = world.draw
    for node in draw.subset(world.nodes, 0.8):
        node["status"]["allocatable"]["nvidia.com/gpu"] = str(draw.number(1, 4))
    for pod in [*draw.subset(world.pods, 0.4), world.pod]:
        amount = {"nvidia.com/gpu": str(draw.number(1, 2))}
        resources = pod["spec"]["containers"][0].setdefault("resources", {})
        resources["limits"] = dict(amount)
        resources.setdefault("requests", {}).update(amount)


def _add_anti_affinity(world: World, pod: Obj) -> None:
    labels = world.pod["metadata"].setdefault("labels", {})
    labels["hated"] = "1"
    term = {
        "topologyKey": world.draw.pick([words.HOSTNAME, words.HOSTNAME, words.ZONE]),
        "labelSelector": {"matchLabels": {"hated": "1"}},
        "namespaces": [world.namespace],
    }
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [term]


OBSTACLES: list[tuple[Callable[[World], None], float]] = [
    (by_anti_affinity, 2.0),
    (by_own_anti_affinity, 1.5),
    (by_affinity, 1.0),
    (by_spread, 2.0),
    (by_ports, 1.5),
    (by_claim, 0.7),
    (by_disk, 0.7),
    (by_gpu, 1.0),
]
