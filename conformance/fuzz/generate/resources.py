"""Theme: requests of pods and resources of nodes.

Owns init containers, sidecars, pod-level resources, overhead, extended resources, huge pages and
in-place resize statuses. Never adds new pods except fillers for one node.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go,
staging/src/k8s.io/component-helpers/resource/helpers.go
"""

from conformance.fuzz.generate import pods
from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World


def apply(world: World) -> None:
    """Make a case about resources."""
    draw = world.draw
    pods.add_requests(draw, world.pod, large=draw.chance(0.5))
    decorate(draw, world.pod, 0.35)
    for pod in world.pods:
        decorate(draw, pod, 0.12)
        if draw.chance(0.12):
            add_resize_status(draw, pod)
    if draw.chance(0.3):
        crowd_nodes(world)
    if draw.chance(0.45):
        add_extended_to_nodes(world)


def noise(world: World) -> None:
    """Add a little of the theme to a case about something else."""
    draw = world.draw
    if draw.chance(0.3):
        decorate(draw, world.pod, 0.15)
    for pod in draw.subset(world.pods, 0.1):
        decorate(draw, pod, 0.2)
        if draw.chance(0.2):
            add_resize_status(draw, pod)


def decorate(draw: Draw, pod: Obj, probability: float) -> None:
    """Add each of the rarer forms of requests with this probability."""
    if draw.chance(probability):
        add_init_containers(draw, pod)
    if draw.chance(probability * 0.8):
        add_extended(draw, pod)
    if draw.chance(probability * 0.4):
        add_hugepages(draw, pod)
    if draw.chance(probability * 0.5):
        add_overhead(draw, pod)
    if draw.chance(probability * 0.5):
        add_pod_level(draw, pod)
    if draw.chance(probability * 0.2):
        for container in pod["spec"]["containers"]:
            container.pop("resources", None)


def add_init_containers(draw: Draw, pod: Obj) -> None:
    """Add init containers and sidecars in mixed order."""
    made: list[Obj] = []
    for index in range(draw.number(1, 3)):
        container: Obj = {
            "name": f"init{index}",
            "image": draw.pick(words.POD_IMAGES),
            "resources": pods.container_resources(draw, large=draw.chance(0.4)),
        }
        if draw.chance(0.5):
            container["restartPolicy"] = "Always"
        if draw.chance(0.1):
            _set(container, draw.pick(words.EXTENDED), str(draw.number(0, 4)))
        made.append(container)
    pod["spec"]["initContainers"] = made


def add_extended(draw: Draw, pod: Obj) -> None:
    """Request extended resources; a request of zero is allowed."""
    for name in draw.some(words.EXTENDED, 1, 2):
        container = draw.pick(pod["spec"]["containers"])
        _set(container, name, str(draw.weighted([(0, 1), (1, 5), (2, 4), (3, 2), (9, 0.5)])))


def add_hugepages(draw: Draw, pod: Obj) -> None:
    """Request huge pages of one size."""
    name = draw.pick(sorted(words.HUGEPAGE_REQUESTS))
    container = draw.pick(pod["spec"]["containers"])
    _set(container, name, draw.pick(words.HUGEPAGE_REQUESTS[name]))


def add_overhead(draw: Draw, pod: Obj) -> None:
    """Add the overhead a runtime class would."""
    overhead: dict[str, str] = {}
    if draw.chance(0.7):
        overhead["cpu"] = draw.pick(["100m", "250m", "0.05"])
    if draw.chance(0.7):
        overhead["memory"] = draw.pick(["64Mi", "120Mi"])
    if draw.chance(0.1):
        overhead["ephemeral-storage"] = "1Gi"
    pod["spec"]["overhead"] = overhead
    pod["spec"]["runtimeClassName"] = "kata"


def add_pod_level(draw: Draw, pod: Obj) -> None:
    """Add resources of the pod as a whole."""
    requests: dict[str, str] = {}
    if draw.chance(0.75):
        requests["cpu"] = draw.pick(["150m", "650m", "1101m", "1600m", "2", "0", "6"])
    if draw.chance(0.75):
        requests["memory"] = draw.pick(["64Mi", "1610612736", "1e9", "1024", "5Gi"])
    if draw.chance(0.15):
        requests["hugepages-2Mi"] = draw.pick(["2Mi", "64Mi"])
    resources: Obj = {"requests": requests}
    if draw.chance(0.3):
        resources["limits"] = dict(requests)
    elif "hugepages-2Mi" in requests:
        resources["limits"] = {"hugepages-2Mi": requests["hugepages-2Mi"]}
    if draw.chance(0.1):
        resources = {"limits": resources.get("limits") or requests}
    pod["spec"]["resources"] = resources


def add_resize_status(draw: Draw, pod: Obj) -> None:
    """Add the kubelet's report of a bound pod during a resize."""
    statuses = [_container_status(draw, c) for c in pod["spec"]["containers"]]
    pod["status"]["containerStatuses"] = statuses
    inits = pod["spec"].get("initContainers", [])
    if inits and draw.chance(0.7):
        pod["status"]["initContainerStatuses"] = [_container_status(draw, c) for c in inits]
    if draw.chance(0.5):
        kind = draw.pick(["PodResizePending", "PodResizePending", "PodResizeInProgress"])
        condition = {
            "type": kind,
            "status": "True",
            "reason": draw.pick(["Infeasible", "Deferred"]),
        }
        pod["status"].setdefault("conditions", []).append(condition)
    if "resources" in pod["spec"] and draw.chance(0.6):
        size = {"cpu": draw.pick(words.CPU_LARGE), "memory": draw.pick(words.MEMORY_LARGE)}
        pod["status"]["resources"] = {"requests": size}
        if draw.chance(0.6):
            pod["status"]["allocatedResources"] = {
                "cpu": draw.pick(words.CPU_LARGE),
                "memory": draw.pick(words.MEMORY_SMALL),
            }


def crowd_nodes(world: World) -> None:
    """Fill some nodes with one large pod each, so that requests stop fitting."""
    draw = world.draw
    for index, name in enumerate(draw.subset(world.node_names, 0.5)):
        pod = pods.bound_pod(world, f"big{index}", name)
        for container in pod["spec"]["containers"]:
            container["resources"] = {
                "requests": {
                    "cpu": draw.pick(["700m", "900m", "1800m", "3", "5"]),
                    "memory": draw.pick(["600Mi", "3Gi", "6e9", "12Gi"]),
                }
            }
        world.pods.append(pod)


def add_extended_to_nodes(world: World) -> None:
    """Give many nodes extended resources and bound pods that hold some."""
    draw = world.draw
    name = draw.pick(words.EXTENDED)
    for node in draw.subset(world.nodes, 0.7):
        node["status"]["allocatable"][name] = str(draw.number(1, 6))
    for pod in draw.subset(world.pods, 0.6):
        _set(draw.pick(pod["spec"]["containers"]), name, str(draw.number(0, 3)))
    if draw.chance(0.8):
        _set(draw.pick(world.spec["containers"]), name, str(draw.number(1, 3)))


def _container_status(draw: Draw, container: Obj) -> Obj:
    status: Obj = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if draw.chance(0.85):
        status["resources"] = {
            "requests": {
                "cpu": draw.pick(words.CPU_SMALL + words.CPU_LARGE),
                "memory": draw.pick(words.MEMORY_SMALL + words.MEMORY_LARGE),
            }
        }
    if draw.chance(0.85):
        status["allocatedResources"] = {
            "cpu": draw.pick(words.CPU_SMALL + words.CPU_LARGE),
            "memory": draw.pick(words.MEMORY_SMALL + words.MEMORY_LARGE),
        }
    return status


def _set(container: Obj, name: str, amount: str) -> None:
    # The API server rejects extended resources and huge pages whose limit is not the request.
    resources = container.setdefault("resources", {})
    resources.setdefault("limits", {})[name] = amount
    resources.setdefault("requests", {})[name] = amount
