"""Sequences about resources, ports, selectors and cordons.

Owns the family `basic`. Never decides on a pod.
"""

from __future__ import annotations

from typing import Any

from conformance.side_by_side.generate.vocabulary import (
    DISKS,
    GPU,
    HOSTNAME,
    ZONE,
    ZONES,
    Draft,
    cordoned,
    required_nodes,
    term,
    with_gpus,
)
from conformance.side_by_side.side import SECOND_PROFILE
from conformance.side_by_side.steps import Obj, create, remove


def basic(draft: Draft) -> None:
    """Nodes that fill up while nodes are added, removed and cordoned."""
    rng = draft.rng
    draft.nodes(rng.choice([3, 4, 5, 6, 8, 12, 30]), tight=draft.chance(0.5))
    if draft.chance(0.5):
        draft.do(*(with_gpus(node, rng.randrange(1, 3)) for node in draft.node_names[:2]))
    moves = [some_pod] * 8 + [burst, toggle_cordon, draft_removal, another_node, node_removal]
    for _ in range(rng.randrange(14, 22)):
        rng.choice(moves)(draft)


def some_pod(draft: Draft) -> None:
    """Create a pod with one constraint."""
    rng = draft.rng
    constraint = rng.choice([plain, plain, selects, needs_node, big, port, gpu, storage, elsewhere])
    draft.pod(**constraint(draft))


def plain(draft: Draft) -> dict[str, Any]:
    """Add no constraint."""
    return {"namespace": draft.rng.choice(["alpha", "alpha", "beta"])}


def selects(draft: Draft) -> dict[str, Any]:
    """Select a disk or a zone, which may not exist."""
    rng = draft.rng
    selector = rng.choice([{"disk": rng.choice([*DISKS, "tape"])}, {ZONE: rng.choice(ZONES)}])
    return {"spec": {"nodeSelector": selector}}


def needs_node(draft: Draft) -> dict[str, Any]:
    """Require nodes by expression."""
    rng = draft.rng
    node = draft.some_node()
    terms = [
        term("disk", "NotIn", rng.choice(DISKS)),
        term("disk", "Exists"),
        term("missing", "Exists"),
        term("missing", "DoesNotExist"),
        term("rank", "Gt", str(rng.randrange(0, len(draft.node_names)))),
        term("rank", "Lt", str(rng.randrange(0, len(draft.node_names)))),
        term(HOSTNAME, "In", node, draft.some_node()),
        term("metadata.name", "In", node, field=True),
        term("metadata.name", "In", "nobody", field=True),
        term("metadata.name", "NotIn", node, field=True),
    ]
    return {"spec": required_nodes(*rng.sample(terms, rng.choice([1, 1, 2])))}


def big(draft: Draft) -> dict[str, Any]:
    """Request large amounts."""
    rng = draft.rng
    cpu, memory = rng.choice([(3000, 100), (100, 6000), (9000, 9000), (1500, 2500)])
    return {"requests": {"cpu": f"{cpu + rng.randrange(99)}m", "memory": f"{memory}Mi"}}


def port(draft: Draft) -> dict[str, Any]:
    """Request a host port."""
    rng = draft.rng
    host_port: Obj = {"containerPort": 80, "hostPort": rng.choice([8080, 8080, 9090])}
    host_port |= rng.choice([{}, {"protocol": "UDP"}, {"hostIP": "127.0.0.1"}])
    container = {"name": "main", "image": "example.com/app:1", "ports": [host_port]}
    return {"spec": {"containers": [container]}}


def gpu(draft: Draft) -> dict[str, Any]:
    """Request a device."""
    return {"requests": {GPU: str(draft.rng.choice([1, 1, 2])), "cpu": "150m"}}


def storage(draft: Draft) -> dict[str, Any]:
    """Request ephemeral storage."""
    return {"requests": {"ephemeral-storage": f"{draft.rng.randrange(1, 60)}Gi", "cpu": "50m"}}


def elsewhere(draft: Draft) -> dict[str, Any]:
    """Name another scheduler, an unknown one, or a node."""
    rng = draft.rng
    return {
        "spec": rng.choice(
            [
                {"schedulerName": SECOND_PROFILE},
                {"schedulerName": SECOND_PROFILE},
                {"schedulerName": "nobody"},
                {"nodeName": draft.some_node()},
            ]
        )
    }


def burst(draft: Draft) -> None:
    """Create some pods in one step: with equal priorities they are tried in order of arrival."""
    number = draft.rng.randrange(2, 7)
    draft.do(*(create(draft.make_pod()) for _ in range(number)))


def toggle_cordon(draft: Draft) -> None:
    """Cordon or uncordon a node."""
    draft.do(cordoned(draft.some_node(), yes=draft.chance(0.5)))


def draft_removal(draft: Draft) -> None:
    """Remove some pod."""
    draft.remove_pod()


def another_node(draft: Draft) -> None:
    """Create one more node."""
    draft.node(tight=draft.chance(0.5))


def node_removal(draft: Draft) -> None:
    """Remove a node with its pods."""
    if len(draft.node_names) > 2:
        name = draft.node_names.pop(draft.rng.randrange(len(draft.node_names)))
        draft.do(remove("Node", name))
