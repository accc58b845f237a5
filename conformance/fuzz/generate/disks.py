"""Theme: disks mounted in-line, which two pods may not share.

Owns GCE, EBS, ISCSI and RBD volumes in pods. Never uses claims.
Upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
"""

from conformance.fuzz.generate import storage
from conformance.fuzz.generate.draw import Draw, Obj
from conformance.fuzz.generate.world import World


def share(world: World, _name: str) -> None:
    """Let the pod and others mount disks of one kind."""
    draw = world.draw
    kind = draw.pick(["gce", "ebs", "iscsi", "rbd"])
    for _ in range(draw.pick([1, 1, 2])):
        storage.mount_inline(world.pod, _disk(draw, kind))
    for pod in draw.subset(world.pods, draw.pick([0.2, 0.5, 0.9])):
        storage.mount_inline(pod, _disk(draw, kind if draw.chance(0.85) else "rbd"))
    if draw.chance(0.3) and kind in ("gce", "ebs"):
        _migrate(world, kind)


def _migrate(world: World, kind: str) -> None:
    # Migrated in-line volumes count against the limits of the CSI driver.
    draw = world.draw
    plugin, driver = {
        "gce": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        "ebs": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    }[kind]
    for name in draw.subset(world.node_names, 0.7):
        made = storage.csi_node(world, name, {driver: draw.number(0, 2)})
        storage.migrate(draw, made, [plugin])


def _disk(draw: Draw, kind: str) -> Obj:
    read_only = draw.chance(0.4)
    which = draw.pick(["1", "2"])
    source: Obj
    if kind == "gce":
        name, source = "gcePersistentDisk", {"pdName": f"disk-{which}"}
    elif kind == "ebs":
        name, source = "awsElasticBlockStore", {"volumeID": f"vol-{which}"}
    elif kind == "iscsi":
        name = "iscsi"
        source = {
            "targetPortal": draw.pick(["10.0.2.15:3260", "10.0.2.16:3260"]),
            "iqn": f"iqn.2024-05.com.example:storage.{which}",
            "lun": draw.number(0, 1),
        }
    else:
        name = "rbd"
        source = {
            "monitors": draw.some(["m1", "m2", "m3"], 1, 2),
            "image": draw.pick(["img", "img", "img2"]),
        }
        if draw.chance(0.7):
            source["pool"] = draw.pick(["p", "q"])
    if read_only:
        source["readOnly"] = True
    return {name: source}
