"""Theme: host ports.

Owns container ports. Never touches services.
Upstream: pkg/scheduler/framework/plugins/nodeports,
staging/src/k8s.io/kube-scheduler/framework/types.go (HostPortInfo)
"""

from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

PORTS = (80, 443, 53, 8080, 9100)
ADDRESSES = ("", "", "0.0.0.0", "10.0.0.5", "10.0.0.6", "127.0.0.1", "::", "fd00::5")


def apply(world: World) -> None:
    """Let the pod and many existing pods take host ports."""
    draw = world.draw
    add_ports(draw, world.pod, draw.number(1, 3))
    probability = draw.pick([0.3, 0.6, 0.9])
    for pod in draw.subset(world.pods, probability):
        add_ports(draw, pod, draw.number(1, 2))


def noise(world: World) -> None:
    """Let few pods take host ports."""
    draw = world.draw
    if draw.chance(0.08):
        add_ports(draw, world.pod, 1)
    for pod in draw.subset(world.pods, 0.05):
        add_ports(draw, pod, 1)


def add_ports(draw: Draw, pod: Obj, count: int) -> None:
    """Add ports to containers, sidecars and, without effect, to plain init containers."""
    spec = pod["spec"]
    if draw.chance(0.15) and "initContainers" not in spec:
        init: Obj = {"name": "initp", "image": "busybox"}
        if draw.chance(0.7):
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]
    for _ in range(count):
        inits = spec.get("initContainers", [])
        use_init = bool(inits) and draw.chance(0.4)
        container = draw.pick(inits if use_init else spec["containers"])
        container.setdefault("ports", []).append(_port(draw))
    if draw.chance(0.06):
        spec["hostNetwork"] = True
        for container in spec["containers"] + spec.get("initContainers", []):
            for port in container.get("ports", []):
                port["containerPort"] = port.get("hostPort", port["containerPort"])


def _port(draw: Draw) -> Obj:
    port: Obj = {"containerPort": draw.pick([80, 8080, 9000])}
    if draw.chance(0.93):
        port["hostPort"] = draw.pick(PORTS)
    address = draw.pick(ADDRESSES)
    if address:
        port["hostIP"] = address
    protocol = draw.weighted([("", 3), ("TCP", 4), ("UDP", 2), ("SCTP", 1)])
    if protocol:
        port["protocol"] = protocol
    return port
