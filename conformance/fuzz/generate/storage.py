"""Building blocks of storage: claims, volumes, classes, CSI objects.

Owns the shape of these objects. Never combines them into scenarios: volumes does.
Upstream: staging/src/k8s.io/api/{core,storage}/v1/types.go
"""

from dataclasses import dataclass
from typing import Any

from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World

DRIVER = "csi.example.com"
DRIVERS = (DRIVER, "pd.csi.storage.gke.io", "ebs.csi.aws.com", "other.csi.example.com")
STORAGE = "storage.k8s.io/v1"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
IN_TREE = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "kubernetes.io/azure-disk")


@dataclass(frozen=True)
class ClaimShape:
    """Fields of a claim that a scenario sets; others are random or absent."""

    storage_class: str | None = "std"
    volume_name: str | None = None
    bound: bool = False
    size: str = "5Gi"
    modes: tuple[str, ...] = ("ReadWriteOnce",)
    phase: str = "Pending"


def claim(world: World, name: str, shape: ClaimShape, namespace: str | None = None) -> Obj:
    """Add a claim in the incoming pod's namespace, or another."""
    spec: Obj = {
        "accessModes": list(shape.modes),
        "resources": {"requests": {"storage": shape.size}},
    }
    if shape.storage_class is not None:
        spec["storageClassName"] = shape.storage_class
    if shape.volume_name is not None:
        spec["volumeName"] = shape.volume_name
    body = {"spec": spec, "status": {"phase": "Bound" if shape.bound else shape.phase}}
    place = namespace or world.namespace
    made = world.add("v1", "PersistentVolumeClaim", name, body, namespace=place)
    if shape.bound:
        made["metadata"]["annotations"] = {BOUND: "yes"}
    return made


def volume(world: World, name: str, source: Obj, **spec: Any) -> Obj:
    """Add a persistent volume; keyword arguments override its spec."""
    body: Obj = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "storageClassName": "std",
        "persistentVolumeReclaimPolicy": "Retain",
        **source,
        **spec,
    }
    phase = "Bound" if "claimRef" in body else "Available"
    content: Obj = {"spec": body, "status": {"phase": phase}}
    return world.add("v1", "PersistentVolume", name, content)


def csi_source(handle: str, driver: str = DRIVER) -> Obj:
    """Return the source of a CSI volume."""
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def reference(made: Obj) -> Obj:
    """Return the claimRef naming a claim."""
    metadata = made["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def bound_pair(world: World, name: str, source: Obj, **spec: Any) -> tuple[Obj, Obj]:
    """Add a claim and the volume it is bound to."""
    volume_name = f"pv-{name}"
    made = claim(world, name, ClaimShape(volume_name=volume_name, bound=True))
    held = volume(world, volume_name, source, claimRef=reference(made), **spec)
    return made, held


def mount(pod: Obj, claim_name: str, *, read_only: bool = False) -> None:
    """Let the pod use a claim."""
    source: Obj = {"claimName": claim_name}
    if read_only:
        source["readOnly"] = True
    _append(pod, {"persistentVolumeClaim": source})


def mount_inline(pod: Obj, source: Obj) -> None:
    """Let the pod use a volume of its own."""
    _append(pod, source)


def storage_class(world: World, name: str, provisioner: str, mode: str, **body: Any) -> Obj:
    """Add a storage class."""
    content = {"provisioner": provisioner, "volumeBindingMode": mode, **body}
    return world.add(STORAGE, "StorageClass", name, content)


def node_affinity(draw: Draw, node_names: list[str]) -> Obj:
    """Return a volume's node affinity: hosts, zones, several terms."""
    some = draw.some(node_names, 1, max(1, len(node_names) // 2)) or ["ghost"]
    options: list[tuple[list[Obj], float]] = [
        ([{"key": words.HOSTNAME, "operator": "In", "values": some}], 5.0),
        ([{"key": words.ZONE, "operator": "In", "values": draw.some(["z1", "z2", "z3"], 1, 2)}], 4),
        ([{"key": words.HOSTNAME, "operator": "NotIn", "values": some[:2]}], 1.0),
        ([{"key": "disktype", "operator": "Exists"}], 0.5),
        ([{"key": "gen", "operator": "Gt", "values": ["3"]}], 0.3),
    ]
    terms: list[Obj] = [{"matchExpressions": draw.weighted(options)}]
    if draw.chance(0.15):
        terms.append({"matchExpressions": draw.weighted(options)})
    return {"required": {"nodeSelectorTerms": terms}}


def csi_node(world: World, name: str, counts: dict[str, int | None]) -> Obj:
    """Add a CSINode, or extend the one there is, with drivers and their limits."""
    made = world.add(STORAGE, "CSINode", name, {"spec": {"drivers": []}})
    drivers: list[Obj] = made["spec"]["drivers"]
    present = {driver["name"] for driver in drivers}
    for driver, count in counts.items():
        if driver in present:
            continue
        one: Obj = {"name": driver, "nodeID": name}
        if world.draw.chance(0.4):
            one["topologyKeys"] = [words.ZONE]
        if count is not None:
            one["allocatable"] = {"count": count}
        drivers.append(one)
    return made


def migrate(draw: Draw, made: Obj, plugins: list[str]) -> None:
    """Mark in-tree plugins as migrated on a CSINode."""
    if plugins and draw.chance(0.9):
        made["metadata"].setdefault("annotations", {})[MIGRATED] = ",".join(plugins)


def attachment(world: World, name: str, node: str, volume_name: str, attacher: str) -> Obj:
    """Add a VolumeAttachment."""
    spec = {
        "attacher": attacher,
        "nodeName": node,
        "source": {"persistentVolumeName": volume_name},
    }
    return world.add(
        STORAGE, "VolumeAttachment", name, {"spec": spec, "status": {"attached": True}}
    )


def _append(pod: Obj, source: Obj) -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": f"vol-{len(volumes)}", **source})
