"""What files lack, and what that means for a run.

Owns the notes about nodes, pods and claims that a run cannot do justice to. What is odd about
reading them is `app.manifests`'. Never changes an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubesched.controllers.volume_provisioning import PROVISIONED_BY
from kubesched.model.resources import PODS
from kubesched.objects.decode import KubeObject
from kubesched.objects.node import Node
from kubesched.objects.pod import Pod
from kubesched.objects.storage import PersistentVolumeClaim, StorageClass
from kubesched.plugins.pod_volumes import class_of_claim
from kubesched.sim.claims import WAITS, ClaimBinder
from kubesched.sim.workloads import has_ended


def oddities(
    objects: Sequence[KubeObject], to_come: Iterable[tuple[str, PersistentVolumeClaim]]
) -> list[str]:
    """Return a note on each kind of thing that is missing.

    Args:
        objects: all objects of the files, without templates.
        to_come: claims that will be made, and whose they are.
    """
    nodes = [obj for obj in objects if isinstance(obj, Node)]
    claims = [
        (f"{obj.kind} {obj.key}", obj) for obj in objects if isinstance(obj, PersistentVolumeClaim)
    ]
    return [
        *_nodes_without_pods(nodes),
        *_pods_on_other_nodes(objects, {one.metadata.name for one in nodes}),
        *_claims_bound_at_once([*claims, *to_come], objects),
    ]


def _nodes_without_pods(nodes: Iterable[Node]) -> Iterator[str]:
    found = [
        one.metadata.name
        for one in nodes
        if one.status.allocatable and PODS not in one.status.allocatable
    ]
    if found:
        verb = "has" if len(found) == 1 else "have"
        yield f"Node {_first(found)} {verb} no pods in status.allocatable: no pod fits there"


def _pods_on_other_nodes(objects: Iterable[KubeObject], names: set[str]) -> Iterator[str]:
    found = [
        f"{obj.key} on {obj.spec.node_name}"
        for obj in objects
        if isinstance(obj, Pod)
        and obj.spec.node_name
        and obj.spec.node_name not in names
        and not has_ended(obj)
    ]
    if found and names:
        yield f"pods on nodes that are not in the files count nowhere: {_first(found)}"


def _claims_bound_at_once(
    claims: Iterable[tuple[str, PersistentVolumeClaim]], objects: Sequence[KubeObject]
) -> Iterator[str]:
    """Yield which claims get volumes that are made up, and which get none."""
    classes = {obj.metadata.name: obj for obj in objects if isinstance(obj, StorageClass)}
    binder = ClaimBinder(objects)
    made: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    waiting: list[str] = []
    for title, claim in claims:
        name = class_of_claim(claim)
        is_delayed = name in classes and classes[name].volume_binding_mode == WAITS
        if claim.spec.volume_name or is_delayed:
            continue
        *volumes, _ = binder.bound(claim)
        if any(PROVISIONED_BY in volume.metadata.annotations for volume in volumes):
            made.setdefault(name, []).append(title)
        elif not volumes and name and name not in classes:
            unknown.setdefault(name, []).append(title)
        elif not volumes:
            waiting.append(title)
    for name, titles in made.items():
        where = "in its allowedTopologies" if classes[name].allowed_topologies else "for any node"
        yield (
            f"StorageClass {name} binds at once: {_first(titles)} is taken to get a new volume, "
            f"{where}"
        )
    for name, titles in unknown.items():
        yield f"StorageClass {name} of {_first(titles)} is not in the files: no volume is found"
    if waiting:
        yield f"nobody binds {_first(waiting)} here: its pods are left"


def _first(names: Sequence[str]) -> str:
    more = len(names) - 1
    return f"{names[0]} and {more} more" if more else names[0]
