"""Random changes to a small cluster, applied to a cache and to a plain model of it.

Owns the changes and the model: dicts by name, without columns. After any sequence the cache must
equal a fresh cache that is filled from the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from kubesched.api.node import Node
from kubesched.cache.cache import Cache, CacheError
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_wire_node, a_wire_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = ("n0", "n1", "n2", "n3")
PODS = tuple(f"p{number}" for number in range(7))
LABEL_KEYS = (ZONE, HOST, "disk")
IMAGES = ("app:1", "app:2")


def node(name: str, variant: int) -> Node:
    """Return a variant of a node."""
    labels = {HOST: name} if variant % 7 else {}
    if variant % 3:
        labels[ZONE] = f"z{variant % 3}"
    if variant % 2:
        labels["disk"] = "ssd" if variant % 4 == 1 else "hdd"
    allocatable = {"cpu": f"{2 + variant % 3}", "memory": "4Gi", "pods": f"{2 + variant % 4}"}
    if variant % 5 == 0:
        allocatable["example.com/gpu"] = "2"
    taints = [{"key": "team", "value": f"t{variant % 2}", "effect": EFFECTS[variant % 3]}]
    images = [{"names": [IMAGES[variant % 2]], "sizeBytes": 300_000_000 + variant}]
    status = {
        "images": images if variant % 3 != 1 else [],
        "declaredFeatures": ["F"] if variant % 4 == 0 else [],
    }
    spec: dict[str, Any] = {"taints": taints} if variant % 4 == 3 else {}
    if variant % 6 == 5:
        spec["unschedulable"] = True
    return a_wire_node(name, labels=labels, allocatable=allocatable, status=status, **spec)


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pod_parts(name: str, variant: int) -> dict[str, Any]:
    """Return a variant of a pod; no two pods share a port."""
    requests = {"cpu": f"{100 * (1 + variant % 9)}m", "memory": "256Mi"}
    if variant % 4 == 0:
        requests["example.com/gpu"] = "1"
    container: dict[str, Any] = {"name": "main", "image": IMAGES[variant % 2]}
    if variant % 3:
        container["resources"] = {"requests": requests}
    if variant % 2:
        container["ports"] = [{"hostPort": 8000 + PODS.index(name), "containerPort": 80}]
    parts: dict[str, Any] = {
        "labels": {"app": f"a{variant % 3}"},
        "containers": [container],
        "priority": (variant % 4) * 10,
        "status": {"startTime": f"2024-05-01T00:{variant % 60:02d}:00Z"} if variant % 2 else {},
    }
    if variant % 5 == 1:
        parts["metadata"] = {"deletionTimestamp": "2024-05-01T00:00:00Z"}
    if variant % 4 == 2:
        parts["affinity"] = {"podAntiAffinity": {REQUIRED: [_term(f"a{variant % 3}", HOST)]}}
    elif variant % 4 == 3:
        weighted = {"weight": 10, "podAffinityTerm": _term(f"a{variant % 3}", ZONE)}
        parts["affinity"] = {"podAffinity": {PREFERRED: [weighted]}}
    return parts


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


@dataclass(frozen=True)
class Change:
    """One change."""

    verb: str
    name: str
    variant: int = 0
    node_name: str = ""


_VARIANTS = st.integers(0, 59)
_NODES = st.sampled_from(NODES)
_PODS = st.sampled_from(PODS)
_ANY_NODE = st.sampled_from((*NODES, "never-seen"))
CHANGES = st.lists(
    st.one_of(
        st.builds(Change, st.just("add_node"), _NODES, _VARIANTS),
        st.builds(Change, st.just("add_node"), _NODES, _VARIANTS),
        st.builds(Change, st.just("remove_node"), _NODES),
        st.builds(Change, st.just("add_pod"), _PODS, _VARIANTS, _ANY_NODE),
        st.builds(Change, st.just("add_pod"), _PODS, _VARIANTS, _ANY_NODE),
        st.builds(Change, st.just("end_pod"), _PODS, _VARIANTS, _ANY_NODE),
        st.builds(Change, st.just("remove_pod"), _PODS),
        st.builds(Change, st.just("assume_pod"), _PODS, _VARIANTS, _ANY_NODE),
        st.builds(Change, st.just("forget_pod"), _PODS),
        st.builds(Change, st.just("nominate_pod"), _PODS, _VARIANTS, _ANY_NODE),
        st.builds(Change, st.just("withdraw"), _PODS),
        st.builds(Change, st.just("look"), _NODES),
    ),
    min_size=4,
    max_size=40,
)


@dataclass
class World:
    """A cache, and a model of its expected content."""

    cache: Cache = field(default_factory=Cache)
    nodes: dict[str, int] = field(default_factory=dict)
    zones: dict[str, list[str]] = field(default_factory=dict)
    """Nodes by zone; zones and nodes in the order of their arrival."""
    bound: dict[str, tuple[int, str]] = field(default_factory=dict)
    nominated: dict[str, tuple[int, str]] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def apply(self, change: Change) -> None:
        """Apply the change to the cache and to the model."""
        getattr(self, f"_{change.verb}")(change)

    def pod(self, change: Change, **parts: Any) -> PodInfo:
        """Return the pod of a change."""
        merged = {**pod_parts(change.name, change.variant), **parts}
        return self.cache.pod_info(a_wire_pod(change.name, **merged))

    def rebuilt(self) -> Cache:
        """Return a fresh cache filled from the model."""
        cache = Cache()
        for name in (name for names in self.zones.values() for name in names):
            cache.add_node(node(name, self.nodes[name]))
        for name, (variant, node_name) in self.bound.items():
            parts = {**pod_parts(name, variant), "nodeName": node_name}
            cache.add_pod(cache.pod_info(a_wire_pod(name, **parts)))
        for name, (variant, node_name) in self.nominated.items():
            pod = cache.pod_info(a_wire_pod(name, **pod_parts(name, variant)))
            cache.nominate_pod(pod, node_name)
        return cache

    def complete(self) -> None:
        """Add every missing node that a pod is bound or nominated to."""
        node_names = {
            node_name for _, node_name in (*self.bound.values(), *self.nominated.values())
        }
        for name in sorted(node_names - set(self.nodes)):
            self.apply(Change("add_node", name, 1))

    def _add_node(self, change: Change) -> None:
        added = node(change.name, change.variant)
        zone = added.metadata.labels.get(ZONE, "")
        known = next((z for z, names in self.zones.items() if change.name in names), None)
        if known is not None and known != zone:
            self._leave(change.name)
        if known != zone:
            self.zones.setdefault(zone, []).append(change.name)
        self.nodes[change.name] = change.variant
        self.cache.add_node(added)

    def _remove_node(self, change: Change) -> None:
        if change.name in self.nodes:
            del self.nodes[change.name]
            self._leave(change.name)
        self.cache.remove_node(change.name)

    def _leave(self, name: str) -> None:
        zone = next(z for z, names in self.zones.items() if name in names)
        self.zones[zone].remove(name)
        if not self.zones[zone]:
            del self.zones[zone]

    def _drop(self, name: str) -> None:
        self.bound.pop(name, None)
        self.nominated.pop(name, None)
        self.assumed.discard(name)

    def _add_pod(self, change: Change) -> None:
        self._drop(change.name)
        self.bound[change.name] = (change.variant, change.node_name)
        self.cache.add_pod(self.pod(change, nodeName=change.node_name))

    def _end_pod(self, change: Change) -> None:
        self._drop(change.name)
        ended = self.pod(change, nodeName=change.node_name, status={"phase": "Succeeded"})
        self.cache.update_pod(ended)

    def _remove_pod(self, change: Change) -> None:
        self._drop(change.name)
        self.cache.remove_pod(self.pod(change))

    def _assume_pod(self, change: Change) -> None:
        if change.name in self.bound:
            with pytest.raises(CacheError):
                self.cache.assume_pod(self.pod(change), change.node_name)
            return
        self._drop(change.name)
        self.bound[change.name] = (change.variant, change.node_name)
        self.assumed.add(change.name)
        self.cache.assume_pod(self.pod(change), change.node_name)

    def _forget_pod(self, change: Change) -> None:
        if change.name not in self.assumed:
            with pytest.raises(CacheError):
                self.cache.forget_pod(self.pod(change))
            return
        self._drop(change.name)
        self.cache.forget_pod(self.pod(change))

    def _nominate_pod(self, change: Change) -> None:
        if change.name in self.bound:
            with pytest.raises(CacheError):
                self.cache.nominate_pod(self.pod(change), change.node_name)
            return
        self._drop(change.name)
        self.nominated[change.name] = (change.variant, change.node_name)
        self.cache.nominate_pod(self.pod(change), change.node_name)

    def _withdraw(self, change: Change) -> None:
        if change.name not in self.bound:
            self._drop(change.name)
            self.cache.nominate_pod(self.pod(change), "")

    def _look(self, change: Change) -> None:
        """Read once, so that lazily built indexes exist before the next change."""
        view = self.cache.snapshot()
        for key in LABEL_KEYS:
            view.label_ids(key)
        view.label_classes.lut("a1", lambda found: found.labels.get("app") == "a1")
        view.term_sets.lut("anti", lambda terms: len(terms.required_anti_affinity))
        view.visiting_rows()
