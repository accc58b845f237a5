"""Small scenarios for tests, written as the documents a user would write.

Owns helpers that write nodes, pods and workloads, and run them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from kubesched.manifests.scenario import Scenario
from kubesched.manifests.scenario_reader import read_scenario
from kubesched.profile.build import configured
from kubesched.simulate.capacity import Capacity
from kubesched.simulate.simulation import Simulation
from kubesched.simulate.world import World

Document = dict[str, Any]


def node(name: str, cpu: str = "4", *, zone: str = "", pods: str = "110", **spec: Any) -> Document:
    labels = {"kubernetes.io/hostname": name}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": pods}},
    }


def pod(
    name: str,
    cpu: str = "1",
    *,
    on: str = "",
    priority: int = 0,
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Document:
    """Return a pod; `owner` is `Kind/name` of its controller."""
    meta: Document = {"name": name, "labels": dict(labels or {}), **(metadata or {})}
    if owner:
        kind, _, owner_name = owner.partition("/")
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "controller": True}
        ]
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending", **(status or {})},
    }


def workload(kind: str, name: str, cpu: str = "1", **spec: Any) -> Document:
    version = "batch/v1" if kind == "Job" else "v1" if kind.startswith("Replication") else "apps/v1"
    labels = {"app": name}
    document: Document = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            },
            **spec,
        },
    }
    if kind == "ReplicationController":
        document["spec"]["selector"] = labels
    return document


def stream(*documents: Document) -> io.BytesIO:
    items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    return io.BytesIO(json.dumps(items).encode())


def scenario(*documents: Document) -> Scenario:
    return read_scenario(["-"], stdin=stream(*documents))


def world(*documents: Document, config: bytes | None = None, seed: int = 0) -> World:
    objects = scenario(*documents).with_missing_pods().objects
    return World(configured(config, seed=seed), objects)


def simulated(*documents: Document, config: bytes | None = None, seed: int = 0) -> Simulation:
    return Simulation(world(*documents, config=config, seed=seed)).run()


def capacity_of(
    cluster: list[Document], *templates: Document, count: int | None = None
) -> Capacity:
    names = [f"{template['kind'].lower()}/{template['metadata']['name']}" for template in templates]
    read = scenario(*cluster, *templates)
    chosen = read.capacity_templates(names)
    run = Capacity(World(configured(), read.without(chosen)), chosen, count)
    for _ in run.steps():
        pass
    return run


def places(run: Simulation) -> dict[str, str]:
    """Return the node of each placed pod, by the name of the pod."""
    return {placed.pod.name: placed.node for placed in run.placements}


def left(run: Simulation) -> dict[str, str]:
    """Return the verdict on each pod that was not placed, by the name of the pod."""
    return {leftover.pod.name: leftover.outcome.kind.value for leftover in run.left}
