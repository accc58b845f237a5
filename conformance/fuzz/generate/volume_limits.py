"""Theme: limits of attached volumes per node.

Owns CSINodes with limits, the pods that use them up, and VolumeAttachments. Never binds claims.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from conformance.fuzz.generate import storage
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.storage import ClaimShape
from conformance.fuzz.generate.world import World


def crowd(world: World, name: str) -> None:
    """Give nodes limits, existing pods volumes, and the pod a claim of the same driver."""
    draw = world.draw
    driver = draw.pick(storage.DRIVERS[:3])
    for node in draw.subset(world.node_names, 0.85):
        count = draw.weighted([(0, 1), (1, 4), (2, 4), (5, 2), (None, 1)])
        counts: dict[str, int | None] = {driver: count}
        if draw.chance(0.2):
            counts[draw.pick(storage.DRIVERS)] = draw.number(0, 3)
        storage.csi_node(world, node, counts)
    if draw.chance(0.3):
        spec = {"preventPodSchedulingIfMissing": draw.chance(0.7)}
        world.add(storage.STORAGE, "CSIDriver", driver, {"spec": spec})
    _use_up(world, name, driver)
    _ask(world, name, driver)


def _use_up(world: World, name: str, driver: str) -> None:
    draw = world.draw
    for index, pod in enumerate(draw.subset(world.pods, draw.pick([0.3, 0.6]))):
        kind = draw.weighted([("bound", 6), ("shared", 1), ("unbound", 1.5), ("missing", 0.7)])
        claim_name = f"uc-{name[-1]}-{index}"
        namespace = pod["metadata"]["namespace"]
        storage.mount(pod, claim_name)
        if kind == "missing":
            continue
        if kind == "unbound":
            storage.claim(world, claim_name, ClaimShape(storage_class="usc"), namespace)
            mode = draw.pick(["Immediate", "WaitForFirstConsumer"])
            storage.storage_class(world, "usc", driver, mode)
            continue
        handle = "uvh-shared" if kind == "shared" else f"uvh-{claim_name}"
        held = _bound(world, claim_name, namespace, handle, driver)
        if draw.chance(0.3):
            node = pod["spec"].get("nodeName", "ghost")
            storage.attachment(world, f"va-{claim_name}", node, held["metadata"]["name"], driver)


def _bound(world: World, name: str, namespace: str, handle: str, driver: str) -> Obj:
    volume_name = f"upv-{name}"
    shape = ClaimShape(volume_name=volume_name, bound=True)
    made = storage.claim(world, name, shape, namespace)
    source = storage.csi_source(handle, driver)
    return storage.volume(world, volume_name, source, claimRef=storage.reference(made))


def _ask(world: World, name: str, driver: str) -> None:
    draw = world.draw
    for index in range(draw.pick([1, 1, 2, 3])):
        claim_name = f"{name}-{index}"
        if draw.chance(0.75):
            handle = "uvh-shared" if draw.chance(0.15) else f"h-{claim_name}"
            held = _bound(world, claim_name, world.namespace, handle, driver)
            if world.nodes and draw.chance(0.35):
                node = draw.pick(world.node_names)
                volume_name = held["metadata"]["name"]
                storage.attachment(world, f"va-{claim_name}", node, volume_name, driver)
        else:
            class_name = f"lim{name[-1]}"
            storage.claim(world, claim_name, ClaimShape(storage_class=class_name))
            storage.storage_class(world, class_name, driver, "WaitForFirstConsumer")
        storage.mount(world.pod, claim_name)
    if draw.chance(0.2):
        peers = [p for p in world.pods if p["metadata"]["namespace"] == world.namespace]
        for pod in draw.some(peers, 0, 2):
            storage.mount(pod, f"{name}-0")
