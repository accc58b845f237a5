"""Sequences about volumes: bound, unbound, to be provisioned, and missing.

Owns the family `volumes`. Never decides on a pod; the PV controller is a placeholder.
"""

from __future__ import annotations

from conformance.side_by_side.generate.vocabulary import (
    HOSTNAME,
    ZONE,
    ZONES,
    Draft,
    an_object,
    required_nodes,
    term,
)
from conformance.side_by_side.placeholders import DYNAMIC_PROVISIONER, FAILS_FIRST
from conformance.side_by_side.steps import Obj, Op, create, delete, patch, remove

STATIC, DYNAMIC, IMMEDIATE = "static", "dynamic", "immediate"
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


def storage_classes() -> list[Obj]:
    """Return a class for each binding mode."""
    modes = {
        STATIC: (_NO_PROVISIONER, "WaitForFirstConsumer"),
        DYNAMIC: (DYNAMIC_PROVISIONER, "WaitForFirstConsumer"),
        IMMEDIATE: (_NO_PROVISIONER, "Immediate"),
    }
    return [
        an_object("StorageClass", name, provisioner=provisioner, volumeBindingMode=mode)
        for name, (provisioner, mode) in modes.items()
    ]


def volumes(draft: Draft) -> None:
    """Claims and volumes of all kinds, and pods that use them."""
    rng = draft.rng
    draft.nodes(rng.choice([3, 4, 5, 7]))
    draft.do(*map(create, storage_classes()))
    if draft.chance(0.5):
        draft.do(*(create(a_csi_node(node, rng.randrange(1, 4))) for node in draft.node_names))
    draft.do(*(create(a_volume(draft)) for _ in range(rng.randrange(2, 6))))
    claims: list[str] = []
    for _ in range(rng.randrange(11, 17)):
        move = rng.random()
        if move < 0.45:
            claims.append(new_claim(draft))
            use_claims(draft, claims[-1:])
        elif move < 0.6 and claims:
            use_claims(draft, rng.sample(claims, min(len(claims), rng.choice([1, 2]))))
        elif move < 0.75:
            draft.do(create(a_volume(draft)))
        elif move < 0.82:
            missing = draft.name("late")
            use_claims(draft, [missing])
            draft.do(create(a_claim(missing, STATIC, rng.randrange(1, 9))))
            claims.append(missing)
        elif move < 0.88 and claims:
            end = rng.choice([delete, remove])
            draft.do(end("PersistentVolumeClaim", claims.pop(rng.randrange(len(claims))), "alpha"))
        else:
            draft.remove_pod()


def new_claim(draft: Draft) -> str:
    """Create a claim of some kind, and its volume if it is bound from the start."""
    rng = draft.rng
    name = draft.name("c")
    kind = rng.choice([STATIC, STATIC, STATIC, DYNAMIC, DYNAMIC, IMMEDIATE, "bound", "nowhere"])
    size = rng.randrange(1, 9)
    if kind == "bound":
        volume = a_volume(draft, claim=name, size=size, storage_class=IMMEDIATE)
        claim = a_claim(name, IMMEDIATE, size, volume=volume["metadata"]["name"])
        draft.do(create(volume), create(claim))
        return name
    claim = a_claim(name, kind, size, mode=rng.choice(MODES))
    if kind == DYNAMIC and draft.chance(0.2):
        claim["metadata"]["annotations"] = {FAILS_FIRST: "yes"}
    draft.do(create(claim))
    return name


def use_claims(draft: Draft, claims: list[str]) -> None:
    """Create a pod with some claims."""
    mounted = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    spec: Obj = {"volumes": mounted}
    if draft.chance(0.25):
        spec |= required_nodes(term(ZONE, "In", draft.rng.choice(ZONES)))
    draft.pod(spec)


def a_claim(
    name: str, storage_class: str, size: int, *, volume: str = "", mode: str = "ReadWriteOnce"
) -> Obj:
    """Return a claim."""
    spec: Obj = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": f"{size}Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    return an_object("PersistentVolumeClaim", name, "alpha", spec=spec)


def a_volume(draft: Draft, *, claim: str = "", size: int = 0, storage_class: str = STATIC) -> Obj:
    """Return a volume on a node, in a zone, or anywhere; all sizes differ."""
    rng = draft.rng
    name = draft.name("v")
    size_mi = (size or rng.randrange(1, 12)) * 1024 + draft.made["v"]
    spec: Obj = {
        "capacity": {"storage": f"{size_mi}Mi"},
        "accessModes": [rng.choice(MODES) if not claim else MODES[0]],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DYNAMIC_PROVISIONER, "volumeHandle": name},
    }
    place = rng.random()
    if place < 0.55:
        location = term(HOSTNAME, "In", *rng.sample(draft.node_names, rng.choice([1, 1, 2])))
    elif place < 0.85:
        location = term(ZONE, "In", rng.choice(ZONES))
    else:
        location = {}
    if location:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [location]}}
    if claim:
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "alpha",
            "name": claim,
        }
    labels = {ZONE: rng.choice(ZONES)} if claim and draft.chance(0.3) else {}
    return an_object("PersistentVolume", name, metadata={"labels": labels}, spec=spec)


def a_csi_node(node: str, limit: int) -> Obj:
    """Return the volume limit of a node."""
    driver = {"name": DYNAMIC_PROVISIONER, "nodeID": node, "allocatable": {"count": limit}}
    return an_object("CSINode", node, spec={"drivers": [driver]})


def more_volumes(node: str, limit: int) -> Op:
    """Return the change of a node's volume limit."""
    return patch("CSINode", node, {"spec": a_csi_node(node, limit)["spec"]})
