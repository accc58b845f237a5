"""Theme: one reason per node, so that the message counts many reasons.

Owns recipes that make one node fail for one reason. Never leaves a reason to chance.
Upstream: pkg/scheduler/framework/types.go (FitError), all Filter plugins
"""

from collections.abc import Callable

from conformance.fuzz.generate import pods, storage
from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.world import World

Recipe = Callable[[World, Obj, str], None]


def apply(world: World) -> None:
    """Make most nodes reject the pod for one of a few reasons."""
    draw = world.draw
    pods.set_priority(draw, world.pod, draw.pick([0, 0, 10, 1000, 100000]))
    world.spec["containers"] = world.spec["containers"][:1]
    amount = {"cpu": draw.pick(["250m", "1"]), "memory": draw.pick(["256Mi", "1Gi"])}
    world.spec["containers"][0]["resources"] = {"requests": amount}
    recipes = draw.some([recipe for recipe, _ in RECIPES], 2, 7)
    spare = draw.chance(0.25)
    for index, node in enumerate(world.nodes):
        if spare and draw.chance(0.2):
            continue
        draw.pick(recipes)(world, node, f"r{index}")
    if draw.chance(0.1):
        world.spec["preemptionPolicy"] = "Never"


def noise(world: World) -> None:
    """Make one node fail for one more reason."""
    if world.nodes and world.draw.chance(0.1):
        draw = world.draw
        draw.weighted(RECIPES)(world, draw.pick(world.nodes), "rx")


def _filler(world: World, node: Obj, name: str, requests: Obj | None = None) -> Obj:
    pod = pods.bound_pod(world, name, node["metadata"]["name"])
    pod["spec"]["containers"] = [
        {"name": "c0", "image": "nginx", "resources": {"requests": requests or {"cpu": "10m"}}}
    ]
    pod["metadata"].pop("deletionTimestamp", None)
    pod["status"]["phase"] = "Running"
    world.pods.append(pod)
    return pod


def cpu(world: World, node: Obj, name: str) -> None:
    """Use up the CPU, or have too little."""
    allocatable = node["status"]["allocatable"]
    if world.draw.chance(0.3):
        allocatable["cpu"] = "100m"
    else:
        allocatable["cpu"] = "4"
        _filler(world, node, f"{name}-cpu", {"cpu": "3900m"})


def memory(world: World, node: Obj, name: str) -> None:
    """Use up the memory, or have too little."""
    allocatable = node["status"]["allocatable"]
    if world.draw.chance(0.3):
        allocatable["memory"] = "64Mi"
    else:
        allocatable["memory"] = "8Gi"
        _filler(world, node, f"{name}-mem", {"memory": "8100Mi"})


def pod_count(world: World, node: Obj, name: str) -> None:
    """Allow no more pods."""
    number = len(world.bound_pods(node["metadata"]["name"]))
    if number == 0:
        _filler(world, node, f"{name}-fil")
    node["status"]["allocatable"]["pods"] = str(max(1, number))


def ephemeral_storage(world: World, node: Obj, _name: str) -> None:
    """Have too little ephemeral storage."""
    for other in world.nodes:
        other["status"]["allocatable"].setdefault("ephemeral-storage", "100Gi")
    node["status"]["allocatable"]["ephemeral-storage"] = "1Gi"
    _request(world, {"ephemeral-storage": "5Gi"})


def gpu(world: World, node: Obj, _name: str) -> None:
    """Have no free GPU."""
    for other in world.nodes:
        other["status"]["allocatable"].setdefault("nvidia.com/gpu", "4")
    node["status"]["allocatable"]["nvidia.com/gpu"] = world.draw.pick(["0", "1"])
    _request(world, {"nvidia.com/gpu": "2"})
    world.spec["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "2"}


def taint(_world: World, node: Obj, _name: str) -> None:
    """Be tainted."""
    node["spec"].setdefault("taints", []).append({"key": "k", "value": "v", "effect": "NoSchedule"})


def cordon(_world: World, node: Obj, _name: str) -> None:
    """Be cordoned."""
    node["spec"]["unschedulable"] = True


def selector(world: World, node: Obj, _name: str) -> None:
    """Not be selected."""
    for other in world.nodes:
        other["metadata"]["labels"].setdefault("sel", "yes")
    node["metadata"]["labels"]["sel"] = "no"
    world.spec["nodeSelector"] = {"sel": "yes"}


def port(world: World, node: Obj, name: str) -> None:
    """Have the host port taken."""
    world.spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 9100}]
    pod = _filler(world, node, f"{name}-port")
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 9100}]


def foe(world: World, node: Obj, name: str) -> None:
    """Hold a pod the incoming one avoids."""
    pod = _filler(world, node, f"{name}-foe")
    pod["metadata"]["labels"] = {"foe": "1"}
    pod["metadata"]["namespace"] = world.namespace
    _anti_affinity(world.pod, "foe", None)


def hated(world: World, node: Obj, name: str) -> None:
    """Hold a pod that avoids the incoming one."""
    world.pod["metadata"].setdefault("labels", {})["hated"] = "1"
    pod = _filler(world, node, f"{name}-hate")
    _anti_affinity(pod, "hated", [world.namespace])


def crowded_slot(world: World, node: Obj, name: str) -> None:
    """Be in a domain that has too many of the pod's kind."""
    world.pod["metadata"].setdefault("labels", {})["spr"] = "1"
    for index, other in enumerate(world.nodes):
        other["metadata"]["labels"].setdefault("slot", f"s{index}")
    world.spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 2,
            "topologyKey": "slot",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"spr": "1"}},
        }
    ]
    for index in range(2):
        pod = _filler(world, node, f"{name}-spr{index}")
        pod["metadata"]["labels"] = {"spr": "1"}
        pod["metadata"]["namespace"] = world.namespace


def no_slot(world: World, node: Obj, name: str) -> None:
    """Lack the label the pod spreads over."""
    crowded_slot(world, node, name)
    node["metadata"]["labels"].pop("slot", None)


def volume_affinity(world: World, node: Obj, _name: str) -> None:
    """Not reach the pod's volume."""
    held = world.find("PersistentVolume", "pv-data")
    if held is None:
        terms = [{"matchExpressions": [_not_in([])]}]
        required = {"required": {"nodeSelectorTerms": terms}}
        _, held = storage.bound_pair(world, "data", storage.csi_source("d1"), nodeAffinity=required)
        storage.mount(world.pod, "data")
    terms = held["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    terms[0]["matchExpressions"][0]["values"].append(node["metadata"]["name"])


def _not_in(names: list[str]) -> Obj:
    return {"key": words.HOSTNAME, "operator": "NotIn", "values": names}


def volume_zone(world: World, node: Obj, _name: str) -> None:
    """Be in another zone than the pod's volume."""
    if world.find("PersistentVolume", "pv-data2") is None:
        _, held = storage.bound_pair(world, "data2", storage.csi_source("d2"))
        held["metadata"]["labels"] = {words.ZONE: "zgood"}
        storage.mount(world.pod, "data2")
        for other in world.nodes:
            other["metadata"]["labels"][words.ZONE] = "zgood"
    node["metadata"]["labels"][words.ZONE] = "zbad"


def volume_limit(world: World, node: Obj, name: str) -> None:
    """Have attached as many volumes as it may."""
    driver = "limited.csi.example.com"
    if world.find("PersistentVolume", "pv-data3") is None:
        storage.bound_pair(world, "data3", storage.csi_source("d3", driver))
        storage.mount(world.pod, "data3")
    storage.csi_node(world, node["metadata"]["name"], {driver: 0})
    if world.draw.chance(0.3):
        _filler(world, node, f"{name}-vol")


def disk(world: World, node: Obj, name: str) -> None:
    """Have the pod's disk mounted already."""
    mine = {"iscsi": {"targetPortal": "p:3260", "iqn": "iqn.2024-05.com.example:a", "lun": 0}}
    if not any("iscsi" in volume for volume in world.spec.get("volumes", [])):
        storage.mount_inline(world.pod, mine)
    storage.mount_inline(_filler(world, node, f"{name}-disk"), mine)


def features(world: World, node: Obj, _name: str) -> None:
    """Not declare the feature the pod needs."""
    name = "RestartAllContainersOnContainerExits"
    for other in world.nodes:
        other["status"].setdefault("declaredFeatures", [name])
    node["status"]["declaredFeatures"] = ["SomethingNew"]
    container = world.spec["containers"][0]
    container["restartPolicy"] = world.spec["restartPolicy"] = "Never"
    codes = {"operator": "In", "values": [42]}
    container["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": codes}]


def _request(world: World, amounts: dict[str, str]) -> None:
    resources = world.spec["containers"][0].setdefault("resources", {})
    resources.setdefault("requests", {}).update(amounts)


def _anti_affinity(pod: Obj, label: str, namespaces: list[str] | None) -> None:
    term: Obj = {
        "topologyKey": words.HOSTNAME,
        "labelSelector": {"matchLabels": {label: "1"}},
    }
    if namespaces is not None:
        term["namespaces"] = namespaces
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [term]


RECIPES: list[tuple[Recipe, float]] = [
    (cpu, 3.0),
    (memory, 3.0),
    (pod_count, 2.0),
    (ephemeral_storage, 1.0),
    (gpu, 1.5),
    (taint, 2.0),
    (cordon, 2.0),
    (selector, 1.0),
    (port, 2.0),
    (foe, 1.0),
    (hated, 1.5),
    (crowded_slot, 1.0),
    (no_slot, 0.5),
    (volume_affinity, 1.0),
    (volume_zone, 0.6),
    (volume_limit, 1.0),
    (disk, 0.7),
    (features, 0.7),
]
