"""Pods: containers, requests, labels, priorities; bound ones and the incoming one.

Owns the frame of a pod. Never adds fields of a theme (affinity, ports, volumes).
Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go (the summed requests).
"""

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

DEFAULT_TOLERATIONS = (
    {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    },
    {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    },
)


def add_namespaces(world: World) -> None:
    """Add the namespaces; sometimes some, or all, are unknown."""
    draw = world.draw
    if draw.chance(0.03):
        return
    for name in words.NAMESPACES:
        if draw.chance(0.02):
            continue
        labels = {"kubernetes.io/metadata.name": name, **words.NAMESPACE_LABELS[name]}
        if draw.chance(0.09):
            labels["extra"] = "1"
        world.add("v1", "Namespace", name, {"spec": {}, "status": {"phase": "Active"}})
        world.others[-1]["metadata"]["labels"] = labels


def add_priority_classes(world: World) -> None:
    """Add the priority classes some pods name."""
    for name, value in words.PRIORITY_CLASSES.items():
        if world.draw.chance(0.6):
            world.add("scheduling.k8s.io/v1", "PriorityClass", name, {"value": value})


def add_incoming(world: World) -> None:
    """Add the incoming pod: small and without constraints, which themes add."""
    draw = world.draw
    namespace = draw.weighted([("default", 5), ("prod", 3), ("dev", 2), ("team-a", 1)])
    world.pod = pod_frame(draw, "incoming", namespace)
    world.pod["status"] = {"phase": "Pending"}
    set_priority(draw, world.pod, draw.pick([0, 0, 0, 0, 10, -100, 1000, 1000, 100000, 100000]))
    if draw.chance(0.03):
        set_priority(draw, world.pod, 2000000000)
    if draw.chance(0.04):
        world.spec["preemptionPolicy"] = draw.pick(["Never", "Never", "PreemptLowerPriority"])
    add_requests(draw, world.pod, large=draw.chance(0.25))


def add_bound_pods(world: World) -> None:
    """Add pods to nodes, some to nodes which do not exist, some finished or leaving."""
    draw = world.draw
    per_node = draw.weighted([(0.5, 3), (2.0, 5), (4.0, 2), (0.0, 1)])
    count = int(len(world.nodes) * per_node) + draw.number(0, 4)
    for index in range(min(count, 100)):
        world.pods.append(bound_pod(world, f"p{index:03d}"))


def bound_pod(world: World, name: str, node_name: str | None = None) -> Obj:
    """Return one bound pod of modest size."""
    draw = world.draw
    pod = pod_frame(draw, name, draw.weighted(_namespaces(world)))
    if node_name is None:
        ghost = not world.nodes or draw.chance(0.02)
        node_name = "ghost-node" if ghost else draw.pick(world.node_names)
    pod["spec"]["nodeName"] = node_name
    pod["status"] = {"phase": "Running", "startTime": start_time(draw)}
    set_priority(draw, pod, draw.pick([0, 0, 0, 0, 0, 0, -100, 1000, 10, 100000]))
    add_requests(draw, pod, large=draw.chance(0.2))
    if draw.chance(0.04):
        make_terminating(draw, pod)
    if draw.chance(0.015):
        pod["status"]["phase"] = draw.pick(["Succeeded", "Failed"])
    return pod


def pod_frame(draw: Draw, name: str, namespace: str) -> Obj:
    """Return a pod with labels and containers that ask for nothing."""
    count = draw.weighted([(1, 15), (2, 4), (3, 1)])
    containers = [{"name": f"c{i}", "image": draw.pick(words.POD_IMAGES)} for i in range(count)]
    metadata: Obj = {"name": name, "namespace": namespace, "uid": draw.uid()}
    labels = pod_labels(draw)
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": containers,
            "schedulerName": "default-scheduler",
            "tolerations": [dict(toleration) for toleration in DEFAULT_TOLERATIONS],
        },
        "status": {},
    }


def pod_labels(draw: Draw) -> dict[str, str]:
    """Return labels of the shared vocabulary; sometimes none."""
    labels: dict[str, str] = {}
    if draw.chance(0.92):
        labels["app"] = draw.pick(words.APPS)
    if draw.chance(0.45):
        labels["tier"] = draw.pick(words.TIERS)
    if draw.chance(0.35):
        labels["version"] = draw.pick(words.VERSIONS)
    if draw.chance(0.4):
        labels["pod-template-hash"] = draw.pick(words.HASHES)
    if draw.chance(0.1):
        labels["canary"] = ""
    return labels


def set_priority(draw: Draw, pod: Obj, value: int) -> None:
    """Give the pod a priority as admission does, or none when it is zero."""
    pod["spec"].pop("priorityClassName", None)
    pod["spec"]["priority"] = value
    for name, class_value in words.PRIORITY_CLASSES.items():
        if class_value == value and value != 0:
            pod["spec"]["priorityClassName"] = name
    if value == 2000000000:
        pod["spec"]["priorityClassName"] = "system-cluster-critical"
    if value == 0 and draw.chance(0.03):
        del pod["spec"]["priority"]


def add_requests(draw: Draw, pod: Obj, *, large: bool = False) -> None:
    """Give containers requests and some limits."""
    for container in pod["spec"]["containers"]:
        container["resources"] = container_resources(draw, large=large)


def container_resources(draw: Draw, *, large: bool = False) -> Obj:
    """Return requests and limits of one container; limits alone at times."""
    requests: dict[str, str] = {}
    if draw.chance(0.8):
        requests["cpu"] = draw.pick(words.CPU_LARGE if large else words.CPU_SMALL)
    if draw.chance(0.8):
        requests["memory"] = draw.pick(words.MEMORY_LARGE if large else words.MEMORY_SMALL)
    if draw.chance(0.08):
        requests["ephemeral-storage"] = draw.pick(words.STORAGE)
    shape = draw.weighted([("requests", 88), ("limits", 7), ("equal", 5)])
    if not requests:
        return {}
    if shape == "limits":
        return {"limits": requests}
    if shape == "equal":
        return {"limits": dict(requests), "requests": requests}
    return {"requests": requests}


def start_time(draw: Draw) -> str:
    """Return a start time; equal ones are likely, since they open a choice."""
    if draw.chance(0.15):
        return draw.pick(["2024-05-02T03:06:06Z", "2024-05-09T07:09:21Z"])
    return draw.timestamp()


def make_terminating(draw: Draw, pod: Obj) -> None:
    """Mark the pod as leaving, sometimes because the scheduler preempted it."""
    pod["metadata"]["deletionTimestamp"] = draw.timestamp()
    pod["metadata"]["deletionGracePeriodSeconds"] = 30
    if draw.chance(0.4):
        condition = {
            "type": "DisruptionTarget",
            "status": draw.pick(["True", "True", "True", "False"]),
            "reason": draw.pick(["PreemptionByScheduler"] * 4 + ["EvictionByEvictionAPI"]),
        }
        pod["status"].setdefault("conditions", []).append(condition)


def _namespaces(world: World) -> list[tuple[str, float]]:
    # Half of the pods share the incoming pod's namespace, so that selectors meet something.
    weights = [("default", 3.0), ("prod", 2.0), ("dev", 1.5), ("team-a", 0.7)]
    return [*weights, (world.namespace, 5.0)]
