"""Vocabulary of sequences: nodes, pods and a draft that collects steps.

Owns names, sizes and shapes. Sizes grow geometrically and in different orders for processor and
memory, so that two nodes seldom have the same score and the best one is unique.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from conformance.side_by_side.placeholders import START_TIME
from conformance.side_by_side.steps import (
    DEFAULT_NAMESPACE,
    Obj,
    Op,
    Step,
    api_version_of,
    append,
    create,
    patch,
    remove,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = ("z0", "z1", "z2")
DISKS = ("ssd", "hdd", "nvme")
APPS = ("web", "api", "job")
GPU = "example.com/gpu"
PRIORITIES = {"low": 10, "middle": 100, "high": 1000, "highest": 5000}


@dataclass(slots=True)
class Draft:
    """The draft of a sequence."""

    rng: random.Random
    steps: list[Step] = field(default_factory=list)
    node_names: list[str] = field(default_factory=list)
    pods: list[tuple[str, str]] = field(default_factory=list)
    """Namespace and name of all created pods."""
    made: dict[str, int] = field(default_factory=dict)

    def do(self, *ops: Op) -> None:
        """Add a step."""
        self.steps.append(Step(ops))

    def name(self, prefix: str) -> str:
        """Return an unused name."""
        self.made[prefix] = self.made.get(prefix, 0) + 1
        return f"{prefix}{self.made[prefix]}"

    def chance(self, share: float) -> bool:
        """Return True in a share of cases."""
        return self.rng.random() < share

    def pod(self, spec: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Create a pod in one step; return its name."""
        obj = self.make_pod(spec, **options)
        self.do(create(obj))
        return str(obj["metadata"]["name"])

    def make_pod(self, spec: Mapping[str, Any] | None = None, **options: Any) -> Obj:
        """Return a new pod, and remember it."""
        obj = a_pod(self, spec, **options)
        self.pods.append((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        return obj

    def remove_pod(self) -> None:
        """Remove a created pod; it may be gone."""
        if self.pods:
            namespace, name = self.pods.pop(self.rng.randrange(len(self.pods)))
            self.do(remove("Pod", name, namespace))

    def nodes(self, number: int, **options: Any) -> list[str]:
        """Create nodes in one step: without pending pods their order does not matter."""
        objs = node_set(self, number, **options)
        self.do(*map(create, objs))
        return [obj["metadata"]["name"] for obj in objs]

    def node(self, **options: Any) -> str:
        """Create one more node."""
        return self.nodes(1, **options)[0]

    def some_node(self) -> str:
        """Return a node."""
        return self.rng.choice(self.node_names)


Family: TypeAlias = Callable[[Draft], None]


def node_set(
    draft: Draft,
    number: int,
    *,
    labels: Mapping[str, str] | None = None,
    taints: list[Obj] | None = None,
    tight: bool = False,
    cpu_milli: int = 0,
) -> list[Obj]:
    """Return nodes of different sizes.

    Args:
        draft: The draft that provides the names.
        number: The number of nodes.
        labels: Additional labels.
        taints: The taints of each node.
        tight: Whether the nodes are small and fill up soon.
        cpu_milli: The CPU of each node; different sizes if 0.
    """
    rng = draft.rng
    ratio = 1.31 if number <= 8 else 1.13 if number <= 20 else 1.05
    start = 700 if tight else 1300
    memory_ranks = list(range(number))
    rng.shuffle(memory_ranks)
    cpu_ranks = list(range(number))
    rng.shuffle(cpu_ranks)
    objs = []
    for cpu_rank, memory_rank in zip(cpu_ranks, memory_ranks, strict=True):
        name = draft.name("n")
        draft.node_names.append(name)
        cpu = cpu_milli or int(start * ratio**cpu_rank) + rng.randrange(0, 90)
        memory = int(start * 1.7 * ratio**memory_rank) + rng.randrange(0, 190)
        amounts = {
            "cpu": f"{cpu}m",
            "memory": f"{memory}Mi",
            "pods": str(rng.choice([2, 3, 110, 110, 110, 110])),
            "ephemeral-storage": f"{rng.randrange(5, 50)}Gi",
        }
        own = {
            HOSTNAME: name,
            ZONE: rng.choice(ZONES),
            "disk": rng.choice(DISKS),
            "rank": str(len(draft.node_names)),
        }
        objs.append(a_node(name, amounts, {**own, **(labels or {})}, taints))
    return objs


def a_node(
    name: str, amounts: Mapping[str, str], labels: Mapping[str, str], taints: list[Obj] | None
) -> Obj:
    """Return a node."""
    spec: Obj = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
    }


def a_pod(  # noqa: PLR0913  # The parameters that families vary.
    draft: Draft,
    spec: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    prefers: bool | None = None,
) -> Obj:
    """Return a pod with requests of its own; some also prefer certain nodes."""
    rng = draft.rng
    name = name or draft.name("p")
    drawn = {"cpu": f"{rng.randrange(90, 500)}m", "memory": f"{rng.randrange(90, 800)}Mi"}
    made: Obj = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": "main", "image": "example.com/app:1", "resources": {"requests": drawn}}
        ],
        **(spec or {}),
    }
    if requests is not None:
        made["containers"][0]["resources"] = {"requests": dict(requests)}
        limits = {key: value for key, value in requests.items() if "/" in key}
        if limits:
            made["containers"][0]["resources"]["limits"] = limits
    if draft.chance(0.4) if prefers is None else prefers:
        made["affinity"] = {**preferences(draft), **made.get("affinity", {})}
    # Start times follow the order of creation: the pod's number in seconds.
    started = f"2026-01-01T00:{len(draft.pods) // 60:02}:{len(draft.pods) % 60:02}Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {"app": rng.choice(APPS)}),
            "annotations": {START_TIME: started},
        },
        "spec": made,
    }


def preferences(draft: Draft) -> Obj:
    """Return a node affinity that ranks some nodes."""
    rng = draft.rng
    chosen = rng.sample(draft.node_names, min(3, len(draft.node_names)))
    weights = rng.sample(range(1, 101), len(chosen))
    return {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": weight,
                    "preference": {
                        "matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]
                    },
                }
                for node, weight in zip(chosen, weights, strict=True)
            ]
        }
    }


def required_nodes(*terms: Obj) -> Obj:
    """Return a required node affinity of some terms."""
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


def term(key: str, operator: str, *values: str, field: bool = False) -> Obj:
    """Return a node selector term of one expression."""
    expression: Obj = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchFields" if field else "matchExpressions": [expression]}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Obj:
    """Return a taint."""
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def tolerates(key: str = "", effect: str = "", value: str = "") -> Obj:
    """Return a toleration; without arguments, of all taints."""
    toleration: Obj = {"operator": "Equal" if value else "Exists"}
    fields = {"key": key, "effect": effect, "value": value}
    return toleration | {name: text for name, text in fields.items() if text}


def tolerating_more(name: str, namespace: str, key: str) -> Op:
    """Return the only allowed change of a pod's tolerations: an additional one."""
    return append("Pod", name, "/spec/tolerations", tolerates(key), namespace=namespace)


def with_taints(node: str, *taints: Obj) -> Op:
    """Return the change of a node's taints."""
    return patch("Node", node, {"spec": {"taints": list(taints) or None}})


def with_labels(node: str, **labels: str | None) -> Op:
    """Return the change of a node's labels."""
    return patch("Node", node, {"metadata": {"labels": labels}})


def cordoned(node: str, *, yes: bool) -> Op:
    """Return the change of a node's unschedulable field."""
    return patch("Node", node, {"spec": {"unschedulable": True if yes else None}})


def with_amounts(node: str, **amounts: str) -> Op:
    """Return the change of a node's allocatable."""
    named = {key.replace("_", "-"): value for key, value in amounts.items()}
    status = {"status": {"capacity": named, "allocatable": named}}
    return patch("Node", node, status, subresource="status")


def with_gpus(node: str, number: int) -> Op:
    """Return the change of a node's devices."""
    amounts = {GPU: str(number)}
    status = {"status": {"capacity": amounts, "allocatable": amounts}}
    return patch("Node", node, status, subresource="status")


def an_object(kind: str, name: str, namespace: str = "", **parts: Any) -> Obj:
    """Return an object of any kind."""
    metadata: Obj = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata.update(parts.pop("metadata", {}))
    return {"apiVersion": api_version_of(kind), "kind": kind, "metadata": metadata, **parts}


def priority_classes() -> list[Op]:
    """Return the priority classes, one of which never preempts."""
    made = [
        an_object("PriorityClass", name, value=value, description=name)
        for name, value in PRIORITIES.items()
    ]
    never = an_object("PriorityClass", "polite", value=2000, preemptionPolicy="Never")
    return [*map(create, made), create(never)]
