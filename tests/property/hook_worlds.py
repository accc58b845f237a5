"""Clusters and pods at the boundaries of rules: one unit below, at and above each of them.

Owns the worlds in which `test_hook_laws` runs every plugin, and the plugins' configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubesched.cache.cache import Cache
from kubesched.config.defaults import DEFAULT_PLUGINS
from kubesched.config.load import load_config_object
from kubesched.framework.interface import points_of
from kubesched.plugins.in_tree import IN_TREE
from kubesched.profile.build import Built, build
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView
from tests.property.changes import HOST, NODES, PODS, ZONE, node, pod_parts
from tests.property.test_kept_verdicts import PROBES
from tests.unit.builders import a_config, a_wire_node, a_wire_pod

GPU, IGNORED, IGNORED_GROUP = "example.com/gpu", "example.com/ignored", "ignored.example.com/unit"
Amounts = Mapping[str, int]


@dataclass(frozen=True)
class World:
    """A cluster, and pods to schedule."""

    title: str
    cache: Cache
    pods: Sequence[PodInfo]

    @property
    def view(self) -> ClusterView:
        """Return a view of the cluster."""
        return self.cache.snapshot()


# -- profiles --------------------------------------------------------------------------------------


def _resources(**weights: int) -> list[dict[str, Any]]:
    names = {"gpu": GPU, "ephemeral": "ephemeral-storage"}
    return [{"name": names.get(name, name), "weight": w} for name, w in weights.items()]


def _fit(kind: str, resources: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": kind, "resources": resources, **more}}


_SHAPE = [
    {"utilization": 0, "score": 0},
    {"utilization": 40, "score": 7},
    {"utilization": 70, "score": 2},
    {"utilization": 100, "score": 10},
]
_RATIO = {"requestedToCapacityRatio": {"shape": _SHAPE}}
PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    "weighted": {
        "NodeResourcesFit": {
            **_fit("LeastAllocated", _resources(cpu=3, memory=1)),
            "ignoredResources": [IGNORED],
            "ignoredResourceGroups": ["ignored.example.com"],
        }
    },
    "three resources": {
        "NodeResourcesFit": _fit("LeastAllocated", _resources(cpu=1, memory=2, gpu=5)),
        "NodeResourcesBalancedAllocation": {"resources": _resources(cpu=1, memory=1, gpu=1)},
    },
    "one resource": {
        "NodeResourcesFit": _fit("LeastAllocated", _resources(memory=1)),
        "NodeResourcesBalancedAllocation": {"resources": _resources(memory=1)},
    },
    "memory before cpu": {
        "NodeResourcesFit": _fit("LeastAllocated", _resources(memory=1, cpu=3)),
        "NodeResourcesBalancedAllocation": {"resources": _resources(memory=1, cpu=1)},
    },
    "most allocated": {"NodeResourcesFit": _fit("MostAllocated", _resources(cpu=1, memory=2))},
    "most of three": {
        "NodeResourcesFit": _fit("MostAllocated", _resources(cpu=1, ephemeral=1, memory=2))
    },
    "ratio": {
        "NodeResourcesFit": _fit("RequestedToCapacityRatio", _resources(cpu=1, memory=2), **_RATIO)
    },
}


@cache
def built(profile: str) -> Built:
    """Return a profile with all in-tree filters and scores, enabled by default or not."""
    config = [{"name": name, "args": args} for name, args in PROFILES[profile].items()]
    by_default = {plugin.name for plugin in DEFAULT_PLUGINS.multi_point.enabled}
    others = [
        {"name": name}
        for name, record in IN_TREE.items()
        if name not in by_default and points_of(record.plugin) & {"filter", "score"}
    ]
    return build(
        load_config_object(a_config({"multiPoint": {"enabled": others}}, pluginConfig=config))
    )


# -- resources -------------------------------------------------------------------------------------


def _written(amounts: Amounts) -> dict[str, str]:
    return {n: f"{amount}m" if n == "cpu" else f"{amount}" for n, amount in amounts.items()}


class _Builder:
    """Adds nodes with specified free resources, and pods on them."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._count = 0

    def node(self, allocatable: Amounts, *requests: Amounts, pods: int = 110) -> None:
        """Add a node with one pod per request."""
        name = f"n{self._count}"
        room = {**_written(allocatable), "pods": f"{pods}"}
        self.cache.add_node(a_wire_node(name, allocatable=room))
        for number, amounts in enumerate(requests):
            pod = a_wire_pod(f"{name}-{number}", requests=_written(amounts), nodeName=name)
            self.cache.add_pod(self.cache.pod_info(pod))
        self._count += 1

    def pod(self, amounts: Amounts) -> PodInfo:
        """Return a pod with these requests."""
        return self.cache.pod_info(a_wire_pod("probe", requests=_written(amounts)))


def _around(title: str, request: Amounts, ample: int, *others: Amounts) -> World:
    """Return nodes with room for a request, one unit less and one more, by each resource.

    Args:
        title: of the world.
        request: of the first pod.
        ample: the amount of all other resources, free and used.
        others: further pods, with other boundaries.
    """
    builder = _Builder()
    plenty = dict.fromkeys(request, ample)
    for resource, amount in request.items():
        for delta in (-1, 0, 1):
            builder.node({**plenty, resource: amount + delta})
            builder.node({**plenty, resource: amount + delta}, {resource: 1})
            builder.node({**plenty, resource: amount + delta + 3}, {resource: 3})
            builder.node({**plenty, resource: amount + delta + 4}, {resource: 3}, {resource: 1})
    for allowed in (1, 2, 3):
        builder.node(plenty, {"cpu": 1}, {"memory": 1}, pods=allowed)
    builder.node(plenty, dict.fromkeys(request, ample), {"cpu": 2, "memory": 2})
    builder.node(plenty, {}, {})
    pods = [request, *others, {"cpu": request["cpu"]}, {"memory": request["memory"]}, {}]
    pods.append({"cpu": request["cpu"], "memory": request["memory"]})
    pods += [{n: a for n, a in request.items() if n != left_out} for left_out in request]
    return World(title, builder.cache, [builder.pod(pod) for pod in pods])


def _narrow(resource: str, delta: int, amount: int) -> World:
    """Return two nodes, one of them nearly full: matrix rules look at the least that is left.

    Args:
        resource: the scarce one; `pods` for their number.
        delta: how much more than the request is left.
        amount: of the request.
    """
    builder = _Builder()
    request = {"cpu": amount, "memory": amount}
    # One unit of a small node is several percent.
    whole = 10 if amount == 1 else 100 * amount
    plenty = dict.fromkeys(request, whole)
    builder.node(plenty, {"cpu": 1, "memory": 1})
    used = {name: whole - a - delta * (name == resource) for name, a in request.items()}
    builder.node(plenty, used, pods=2 + delta if resource == "pods" else 9)
    return World(f"{resource} {delta:+} of {amount}", builder.cache, [builder.pod(request)])


def _percentages(title: str, *, lacking: bool, scale: int = 1) -> World:
    """Return nodes of 1,000 units, with usage around every boundary between two percentages."""
    builder = _Builder()
    room = {"cpu": 1000, "memory": 1000 * scale, GPU: 10, "ephemeral-storage": 1000}
    used = (0, 1, 9, 10, 11, 399, 400, 401, 499, 500, 690, 989, 990, 991, 999, 1000, 1001, 1300)
    for place, cpu in enumerate(used):
        for memory in (cpu, *used[place % 3 :: 3]):
            builder.node(room, {"cpu": cpu, "memory": memory * scale, GPU: place % 11})
    for shift in (-1, 1):
        builder.node(room, {"cpu": 500, "memory": 500 * scale + shift})
    if lacking:
        builder.node({"cpu": 1000}, {"cpu": 300})
        builder.node({"memory": 1000}, {"memory": 300})
        builder.node({}, {})
    # Pods without requests count as 100m and 200Mi in scoring.
    mib = 1 << 20
    builder.node({"cpu": 1000, "memory": 1000 * mib}, {}, {"cpu": 101}, {"memory": 201 * mib})
    builder.node({"cpu": 200, "memory": 400 * mib}, {}, {})
    pods: list[Amounts] = [
        {},
        {"cpu": 1, "memory": 1},
        {"cpu": 10, "memory": 10 * scale},
        {"cpu": 9, "memory": 11 * scale - 1},
        {"cpu": 333, "memory": 334 * scale},
        {"cpu": 500},
        {"memory": 500 * scale + 1},
        {"cpu": 1001, "memory": 1001 * scale},
        {"cpu": 10, "memory": 10, GPU: 1},
        {"cpu": 10, "ephemeral-storage": 100},
    ]
    return World(title, builder.cache, [builder.pod(pod) for pod in pods])


def _resource_worlds() -> Iterator[World]:
    tiny = {"cpu": 7, "memory": 11, "ephemeral-storage": 5, GPU: 2}
    yield _around(
        "tiny amounts", tiny, 1000, {**tiny, IGNORED: 3}, {IGNORED_GROUP: 4, "cpu": 7}, {GPU: 2}
    )
    yield _around("two resources", {"cpu": 7, "memory": 11}, 1000)
    usual = {"cpu": 500, "memory": 1 << 30, "ephemeral-storage": 10**9, GPU: 1}
    yield _around("usual amounts", usual, 1 << 40)
    for bits in (46, 53, 62):
        # Below, at and above the limit are a world each: a limit applies to all rows.
        for shift in (-1, 0, 1):
            large = {"cpu": 500, "memory": (1 << bits) + shift, GPU: 1}
            yield _around(f"2^{bits}{shift:+}", large, (1 << bits) + 10)
    most = {"cpu": 500, "memory": 2**63 - 9, GPU: 1}
    yield _around("int64", most, 2**63 - 1, {"memory": 2**63 - 1}, {GPU: 2**63 - 1})
    for resource in ("cpu", "memory", "pods"):
        for delta in (-1, 0, 1):
            yield _narrow(resource, delta, 7)
            yield _narrow(resource, delta, 1)
            yield _narrow(resource, delta, 1000)
    yield _percentages("percentages", lacking=False)
    yield _percentages("percentages, some nodes lack a resource", lacking=True)
    yield _percentages("percentages of large numbers", lacking=False, scale=(1 << 46) // 1010)
    yield _percentages("percentages of larger numbers", lacking=False, scale=(1 << 53) // 1000)


# -- mixed worlds ----------------------------------------------------------------------------------


def _mixed(first: int) -> World:
    """Return nodes and pods of many kinds, as in the random tests."""
    cache_ = Cache()
    for place in range(12):
        name = NODES[place] if place < len(NODES) else f"m{place}"
        cache_.add_node(node(name, first + place))
    feature = {"declaredFeatures": ["UserNamespacesHostNetworkSupport"]}
    cache_.add_node(a_wire_node("declaring", status=feature))
    for place, name in enumerate(PODS):
        parts = pod_parts(name, first + 3 * place)
        target = NODES[place % len(NODES)]
        cache_.add_pod(cache_.pod_info(a_wire_pod(name, nodeName=target, **parts)))
    tolerations: list[dict[str, Any]] = [
        {"key": "team", "value": "t1", "effect": effect, "operator": "Equal"}
        for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    ]
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
        for weight, key in ((3, "disk"), (5, ZONE), (1, HOST))
    ]
    preferring = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    probes: list[dict[str, Any]] = [
        *PROBES,
        {},
        {"image": "app:2"},
        {"nodeName": "n1"},
        *({"tolerations": [toleration]} for toleration in tolerations),
        {"affinity": {"nodeAffinity": preferring}},
        {"hostNetwork": True, "hostUsers": False},
    ]
    probes += [
        {"containers": [{"name": "c", "ports": [{"hostPort": port, "protocol": protocol}]}]}
        for port in (8000, 8001, 8003)
        for protocol in ("TCP", "UDP")
    ]
    pods = [cache_.pod_info(a_wire_pod(f"p{n}", **parts)) for n, parts in enumerate(probes)]
    return World(f"mixed nodes from {first}", cache_, pods)


@cache
def worlds(kind: str) -> tuple[World, ...]:
    """Return the worlds of a kind: `resources` or `mixed`."""
    if kind == "mixed":
        return tuple(map(_mixed, (0, 17, 34)))
    return tuple(_resource_worlds())
