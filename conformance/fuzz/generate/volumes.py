"""Theme: persistent volumes, bound, to be bound and to be provisioned; zones; broken claims.

Owns the scenarios around binding. Never counts volumes (volume_limits) or shares disks (disks).
Upstream: pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}
"""

from collections.abc import Callable

from conformance.fuzz.generate import disks, storage, volume_limits
from conformance.fuzz.generate import vocabulary as words
from conformance.fuzz.generate.draw import Obj
from conformance.fuzz.generate.storage import ClaimShape
from conformance.fuzz.generate.world import World

WAIT = "WaitForFirstConsumer"


def apply(world: World) -> None:
    """Run one to three scenarios."""
    draw = world.draw
    if draw.chance(0.6):
        # A small pod: otherwise resources reject most nodes before the volume plugins run.
        for container in world.spec["containers"]:
            container["resources"] = {"requests": {"cpu": "10m"}}
    for index in range(draw.weighted([(1, 7), (2, 3), (3, 1)])):
        scenario = draw.weighted(SCENARIOS)
        scenario(world, f"claim-{index}")
    _add_std_class(world)


def noise(world: World) -> None:
    """Add a harmless volume, or one scenario that leaves most nodes usable."""
    draw = world.draw
    if draw.chance(0.08):
        draw.weighted([(bound_anywhere, 4), (provisioned, 3), (bound_to_nodes, 1)])(
            world, "claim-90"
        )
        _add_std_class(world)
    if draw.chance(0.05):
        storage.mount_inline(world.pod, draw.pick(HARMLESS))


HARMLESS: tuple[Obj, ...] = (
    {"emptyDir": {}},
    {"configMap": {"name": "settings"}},
    {"hostPath": {"path": "/var/lib/x"}},
    {"csi": {"driver": "csi.example.com"}},
)


def bound_anywhere(world: World, name: str) -> None:
    """A bound claim whose volume every node may use."""
    driver = world.draw.pick(storage.DRIVERS)
    storage.bound_pair(world, name, storage.csi_source(f"h-{name}", driver))
    storage.mount(world.pod, name)


def bound_to_nodes(world: World, name: str) -> None:
    """A bound claim whose volume has node affinity."""
    affinity = storage.node_affinity(world.draw, world.node_names)
    storage.bound_pair(world, name, storage.csi_source(f"h-{name}"), nodeAffinity=affinity)
    storage.mount(world.pod, name)


def bound_in_zone(world: World, name: str) -> None:
    """A bound claim whose volume carries zone labels, old or new, one or many."""
    draw = world.draw
    _, held = storage.bound_pair(world, name, storage.csi_source(f"h-{name}"))
    labels: dict[str, str] = {}
    zone_key = draw.weighted([(words.ZONE, 3.0), (words.BETA_ZONE, 2.0)])
    zones = draw.some(["z1", "z2", "z3", "z9"], 1, 2)
    labels[zone_key] = draw.weighted([("__".join(zones), 9.0), ("", 0.3), ("z1____z2", 0.4)])
    if draw.chance(0.4):
        key = draw.pick([words.REGION, words.BETA_REGION])
        labels[key] = draw.pick(["r1", "r1__r2", "r2"])
    if draw.chance(0.1):
        labels["disk"] = "fast"
    held["metadata"]["labels"] = labels
    if draw.chance(0.15):
        for node in draw.subset(world.nodes, 0.5):
            zone = node["metadata"]["labels"].pop(words.ZONE, "z1")
            node["metadata"]["labels"].pop(words.REGION, None)
            if draw.chance(0.7):
                node["metadata"]["labels"][words.BETA_ZONE] = zone
    storage.mount(world.pod, name)


def broken(world: World, name: str) -> None:
    """A claim that makes the pod unschedulable, for one of many reasons."""
    draw = world.draw
    storage.mount(world.pod, name)
    shapes: dict[str, ClaimShape | None] = {
        "missing": None,
        "gone": ClaimShape(volume_name=f"pv-gone-{name[-1]}", bound=True),
        "deleting": ClaimShape(storage_class="std"),
        "lost": ClaimShape(volume_name="pv-lost", phase="Lost"),
        "immediate": ClaimShape(storage_class="quick"),
        "prebound": ClaimShape(volume_name="pv-later"),
        "classless": ClaimShape(storage_class=None),
        "unknown": ClaimShape(storage_class="nowhere"),
        "modeless": ClaimShape(storage_class="modeless"),
        "empty": ClaimShape(storage_class=""),
    }
    kind = draw.pick(list(shapes))
    shape = shapes[kind]
    if shape is None:
        return
    made = storage.claim(world, name, shape)
    if kind == "deleting":
        made["metadata"]["deletionTimestamp"] = draw.timestamp()
        made["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    if kind == "immediate":
        storage.storage_class(world, "quick", storage.DRIVER, "Immediate")
    if kind == "modeless":
        world.add(storage.STORAGE, "StorageClass", "modeless", {"provisioner": storage.DRIVER})
    if kind == "prebound" and draw.chance(0.5):
        storage.volume(world, "pv-later", storage.csi_source("h-later"))


def static_local(world: World, name: str) -> None:
    """Claims waiting for local volumes, of which some nodes have fitting ones."""
    draw = world.draw
    storage.storage_class(world, "local", "kubernetes.io/no-provisioner", WAIT)
    mode = draw.weighted([("ReadWriteOnce", 8.0), ("ReadOnlyMany", 1.0), ("ReadWriteMany", 1.0)])
    for index in range(draw.pick([1, 1, 2, 3])):
        size = draw.pick(["1Gi", "5Gi", "5Gi", "20Gi"])
        shape = ClaimShape(storage_class="local", size=size, modes=(mode,))
        made = storage.claim(world, f"{name}-{index}", shape)
        if draw.chance(0.15):
            made["spec"]["selector"] = {"matchLabels": {"disk": "fast"}}
        if draw.chance(0.08):
            made["spec"]["volumeMode"] = "Block"
        if draw.chance(0.05):
            made["spec"]["volumeAttributesClassName"] = "gold"
        storage.mount(world.pod, f"{name}-{index}")
        for number, node in enumerate(draw.subset(world.node_names, 0.5)):
            _local_volume(world, f"lpv-{index}-{number}", node, made)


def _local_volume(world: World, name: str, node: str, claim: Obj) -> None:
    draw = world.draw
    terms = [{"matchExpressions": [{"key": words.HOSTNAME, "operator": "In", "values": [node]}]}]
    held = storage.volume(
        world,
        name,
        {"local": {"path": f"/mnt/{name}"}},
        storageClassName=draw.weighted([("local", 9.0), ("other", 0.5), ("", 0.5)]),
        capacity={"storage": draw.pick(["1Gi", "5Gi", "10Gi", "10Gi", "50G"])},
        accessModes=draw.weighted(
            [(["ReadWriteOnce"], 8.0), (["ReadWriteOnce", "ReadOnlyMany"], 2)]
        ),
        nodeAffinity={"required": {"nodeSelectorTerms": terms}},
    )
    if draw.chance(0.3):
        held["metadata"]["labels"] = {"disk": draw.pick(["fast", "slow"])}
    if draw.chance(0.06):
        held["spec"]["volumeMode"] = "Block"
    if draw.chance(0.08) and not _has_volume(world, claim):
        held["spec"]["claimRef"] = storage.reference(claim)
        if draw.chance(0.4):
            del held["spec"]["claimRef"]["uid"]
    elif draw.chance(0.08):
        held["spec"]["claimRef"] = {"namespace": "default", "name": "somebody", "uid": draw.uid()}
    if draw.chance(0.06):
        held["status"]["phase"] = draw.pick(["Pending", "Released", "Bound", "Failed"])
    if draw.chance(0.03):
        held["metadata"]["deletionTimestamp"] = draw.timestamp()
    if draw.chance(0.03):
        held["spec"]["volumeAttributesClassName"] = "gold"


def _has_volume(world: World, claim: Obj) -> bool:
    # Of two volumes with the same claimRef the scheduler takes the first one in its cache, whose
    # order is undefined.
    name = claim["metadata"]["name"]
    return any(one.get("spec", {}).get("claimRef", {}).get("name") == name for one in world.others)


def provisioned(world: World, name: str) -> None:
    """A claim to be provisioned on the pod's node: topologies, capacity, a selected node."""
    draw = world.draw
    class_name = f"dyn{name[-1]}"
    provisioner = draw.weighted([(storage.DRIVER, 6.0), (storage.DRIVERS[1], 2.0), ("", 0.1)])
    made_class = storage.storage_class(world, class_name, provisioner, WAIT)
    if draw.chance(0.45):
        made_class["allowedTopologies"] = _topologies(world)
    size = draw.pick(["1Gi", "5Gi", "20Gi", "100Gi"])
    made = storage.claim(world, name, ClaimShape(storage_class=class_name, size=size))
    if draw.chance(0.25):
        chosen = draw.pick([*world.node_names, "ghost"])
        made["metadata"]["annotations"] = {storage.SELECTED_NODE: chosen}
    if draw.chance(0.65):
        _capacity(world, provisioner, class_name)
    storage.mount(world.pod, name)


def _topologies(world: World) -> list[Obj]:
    draw = world.draw
    terms: list[Obj] = []
    for _ in range(draw.pick([1, 1, 2])):
        key, values = draw.pick([(words.ZONE, ["z1", "z2", "z3"]), ("pool", ["a", "b"])])
        one = [{"key": key, "values": draw.some(values, 1, 2)}]
        if draw.chance(0.15):
            one.append({"key": "rack", "values": ["r1", "r2"]})
        terms.append({"matchLabelExpressions": one})
    return terms


def _capacity(world: World, driver: str, class_name: str) -> None:
    draw = world.draw
    if driver and draw.chance(0.9):
        spec: Obj = {"storageCapacity": draw.chance(0.85)}
        world.add(storage.STORAGE, "CSIDriver", driver, {"spec": spec})
    for index in range(draw.number(0, 5)):
        body: Obj = {"storageClassName": class_name if draw.chance(0.9) else "other"}
        if draw.chance(0.9):
            body["capacity"] = draw.pick(["1Gi", "10Gi", "50Gi", "1Ti"])
        if draw.chance(0.3):
            body["maximumVolumeSize"] = draw.pick(["1Gi", "10Gi", "200Gi"])
        topology: Obj = {"matchLabels": {words.ZONE: draw.pick(["z1", "z2", "z3"])}}
        if draw.chance(0.3):
            values = draw.some(world.node_names, 1, 3)
            expression = {"key": words.HOSTNAME, "operator": "In", "values": values}
            topology = {"matchExpressions": [expression]} if values else {}
        if draw.chance(0.9):
            body["nodeTopology"] = topology if draw.chance(0.9) else {}
        name = f"cap-{class_name}-{index}"
        world.add(storage.STORAGE, "CSIStorageCapacity", name, body, namespace="kube-system")


def single_pod(world: World, name: str) -> None:
    """A claim that only one pod may use, most often in use by another pod."""
    draw = world.draw
    made, held = storage.bound_pair(world, name, storage.csi_source(f"h-{name}"))
    made["spec"]["accessModes"] = held["spec"]["accessModes"] = ["ReadWriteOncePod"]
    storage.mount(world.pod, name)
    for pod in draw.some(world.pods, 0, 2):
        storage.mount(pod, name)
        if draw.chance(0.85):
            pod["metadata"]["namespace"] = world.namespace


def ephemeral(world: World, name: str) -> None:
    """A generic ephemeral volume whose claim exists, is missing, or belongs to another pod."""
    draw = world.draw
    template = {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "std",
        }
    }
    storage.mount_inline(world.pod, {"ephemeral": {"volumeClaimTemplate": template}})
    volume_name = world.spec["volumes"][-1]["name"]
    kind = draw.weighted([("missing", 2), ("bound", 5), ("waiting", 3), ("foreign", 2)])
    claim_name = f"incoming-{volume_name}"
    if kind == "missing":
        return
    if kind == "waiting":
        made = storage.claim(world, claim_name, ClaimShape(size="1Gi"))
    else:
        made, _ = storage.bound_pair(world, claim_name, storage.csi_source(f"h-{name}"))
    owner = world.pod["metadata"]["uid"] if kind != "foreign" else draw.uid()
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "incoming",
            "uid": owner,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def in_tree(world: World, name: str) -> None:
    """A bound claim of an in-tree volume which some nodes see through CSI."""
    draw = world.draw
    managed = {"kind": "Managed"} if draw.chance(0.8) else {}
    if draw.chance(0.6):
        _rename_zones(world)
    plugin, source = draw.pick(
        [
            ("kubernetes.io/gce-pd", {"gcePersistentDisk": {"pdName": f"disk-{name}"}}),
            (
                "kubernetes.io/aws-ebs",
                {"awsElasticBlockStore": {"volumeID": f"aws://z1/vol-{name}"}},
            ),
            (
                "kubernetes.io/azure-disk",
                {"azureDisk": {"diskName": "d", "diskURI": f"/sub/disks/{name}", **managed}},
            ),
            ("kubernetes.io/cinder", {"cinder": {"volumeID": f"cv-{name}"}}),
        ]
    )
    _, held = storage.bound_pair(world, name, source)
    if draw.chance(0.7):
        zones = [node["metadata"]["labels"].get(words.ZONE, "z1") for node in world.nodes]
        zone = draw.weighted([(draw.pick(zones), 6.0), ("z2", 1.0), ("z1__z2", 1.0)])
        if draw.chance(0.15):
            zone = "us-central1-a__us-central1-b"
        held["metadata"]["labels"] = {draw.pick([words.ZONE, words.BETA_ZONE]): zone}
    if draw.chance(0.4):
        held["spec"]["nodeAffinity"] = storage.node_affinity(draw, world.node_names)
    for node in draw.subset(world.node_names, 0.7):
        made = storage.csi_node(world, node, {draw.pick(storage.DRIVERS): draw.pick([1, 2, None])})
        storage.migrate(draw, made, draw.some([plugin, *storage.IN_TREE], 0, 3))
    storage.mount(world.pod, name)


def _rename_zones(world: World) -> None:
    # Translating a GCE volume parses its zone, which then has to look like one of GCE's.
    for node in world.nodes:
        labels = node["metadata"]["labels"]
        if labels.get(words.ZONE, "") in ("z1", "z2", "z3", "z4"):
            labels[words.ZONE] = "us-central1-" + "abcd"[int(labels[words.ZONE][1]) - 1]
            labels[words.REGION] = "us-central1"


def _add_std_class(world: World) -> None:
    draw = world.draw
    if draw.chance(0.85):
        provisioner = draw.pick([*storage.DRIVERS[:2], *storage.IN_TREE[:1]])
        mode = draw.weighted([(WAIT, 3.0), ("Immediate", 2.0)])
        storage.storage_class(world, "std", provisioner, mode)


SCENARIOS: list[tuple[Callable[[World, str], None], float]] = [
    (bound_anywhere, 1.0),
    (bound_to_nodes, 2.5),
    (bound_in_zone, 2.5),
    (broken, 2.2),
    (static_local, 2.5),
    (provisioned, 3.0),
    (single_pod, 1.2),
    (ephemeral, 1.6),
    (in_tree, 1.5),
    (disks.share, 2.0),
    (volume_limits.crowd, 3.0),
]
